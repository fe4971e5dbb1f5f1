"""A rehearsal of `python -m bench.gpu` on a CPU: every step runs, and the page says what it is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench import gpu
from tests.system.conftest import bundle_of
from tests.system.processes import ROOT

REHEARSAL = (sys.executable, "-m", "bench.gpu", "--provider", "cpu")
# The thread pools of PyTorch and ONNX Runtime would compete for cores.
ALONE = os.environ | {"OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the bundles: the trained one has fp32 only."""
    made = tmp_path_factory.mktemp("gpu")
    (made / gpu.TRAINED).symlink_to(bundle_of(gpu.TRAINED))
    prepare = [*REHEARSAL, "--prepare", "--bundles", str(made)]
    subprocess.run(prepare, cwd=ROOT, env=ALONE, check=True, timeout=300)
    return made


def test_a_rehearsal_runs_every_step(folder: Path, tmp_path: Path) -> None:
    line = [*REHEARSAL, "--bundles", str(folder), "--out", str(tmp_path)]
    done = subprocess.run(
        line, cwd=ROOT, env=ALONE, capture_output=True, text=True, timeout=500, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    steps = json.loads((tmp_path / "gpu.json").read_text(encoding="utf-8"))["steps"]
    rows: dict[str, list[dict[str, Any]]] = {name: step["rows"] for name, step in steps.items()}
    assert list(rows) == list(gpu.STEPS)
    exact = [row for row in rows["parity"] if row["precision"] == "fp32"]
    assert {"pooled", "tokens", "hidden", "attention", "golden gate"} <= {
        r["output"] for r in exact
    }
    assert all(row["passed"] for row in exact)
    assert all("no embed graph" in row["error"] for row in rows["parity"] if row not in exact)
    assert all(row["largest difference"] < 1e-6 for row in rows["invariance"])
    for row in rows["speed"]:
        # The engine and all contestants compute the same.
        others = (gpu.RECORDED, gpu.PADDED, gpu.PACKED)
        assert all(row[f"{each}: cosine"] > 0.99999 for each in others)
    assert {row["provider"] for row in rows["kernels"] if "provider" in row} == {
        "CPUExecutionProvider"
    }
    ways = {(row["requests"], row["over"]) for row in rows["served"]}
    assert len(ways) == 10
    assert all(row["texts/s"] > 0 for row in rows["served"]), rows["served"]
    assert all("DeviceLost" in row["raised"] for row in rows["device error"])
    assert all(row["cosine"] > 0.99999 for row in rows["long texts"])
    page = (tmp_path / "gpu.md").read_text(encoding="utf-8")
    assert page.startswith("# A rehearsal on a CPU")
    assert "| reached |" not in page
    assert "missed" not in page


def test_a_step_that_ends_early_keeps_its_rows(folder: Path, tmp_path: Path) -> None:
    run = gpu.Run("cpu", 0, folder, tmp_path)
    options = [*REHEARSAL[3:], "--bundles", str(tmp_path / "nowhere")]
    failed = gpu.run_step("invariance", run, 60, options)
    assert "nowhere" in failed["error"]
    late = gpu.run_step("parity", run, 0.1, options)
    assert (late["rows"], late["error"]) == ([], "ended after 0 s")
    rows = [{"precision": "fp32", "TFLOP/s": 1.0}]
    numbers = gpu.about(run) | {"seconds": 1.0}
    page = "\n".join(gpu.page(numbers | {"steps": {"device": late | {"rows": rows}}}))
    assert "| fp32 | 1 |" in page
    assert "Not measured to its end: ended after 0 s" in page
    assert "there was no time left" in page  # for the other steps
    assert "| not measured |" in page
