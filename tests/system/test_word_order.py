"""The example of docs/guides/word-order.md, as a process, and the figures of its page."""

from __future__ import annotations

import importlib.util
import math
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.system.processes import ROOT

SCRIPT = ROOT / "examples/word_order/word_order.py"
PAGE = ROOT / "docs/guides/word-order.md"
ROW = re.compile(r"^\| ([a-z ]+) \| (\S+e\S+) \| (\S+e\S+) \|$", re.MULTILINE)


def figures(text: str) -> dict[str, tuple[float, float]]:
    """Return the differences without and with positions, by output."""
    return {name: (float(without), float(given)) for name, without, given in ROW.findall(text)}


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location(SCRIPT.stem, SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[SCRIPT.stem] = module  # as an import does
    spec.loader.exec_module(module)
    return module


def test_word_order_counts_with_positions_alone(tmp_path: Path) -> None:
    picture = tmp_path / "picture.png"
    command = [sys.executable, str(SCRIPT), "--picture", str(picture)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert picture.read_bytes().startswith(b"\x89PNG")
    found, quoted = figures(done.stdout), figures(PAGE.read_text(encoding="utf-8"))
    assert found.keys() == quoted.keys() == {"pooled vector", "token vectors", "attention"}
    for name, (without, given) in found.items():
        assert max(without, quoted[name][0]) < 1e-5
        assert given > 1e-2
        assert abs(math.log10(given / quoted[name][1])) < 1


def test_a_property_that_does_not_hold_is_reported(example: ModuleType) -> None:
    found = {"without positions": {"attention": 1e-7}, "with positions": {"attention": 0.5}}
    assert example.failures(found) == []
    found["without positions"]["pooled vector"] = 0.2
    found["with positions"]["token vectors"] = 1e-4
    assert example.failures(found) == [
        "without positions: pooled vector: the difference is 2.0e-01; it must be at most 1e-05",
        "with positions: token vectors: the difference is 1.0e-04; it must be at least 1e-02",
    ]
