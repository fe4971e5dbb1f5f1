"""Each wrong use of `headlight serve` gives one line with the remedy, in the docs too."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.export.hub.hub_server import Hub
from tests.system.processes import ROOT, exit_code
from tests.system.wrong_uses import WRONG_USES, Scene

PAGE = ROOT / "docs" / "troubleshooting.md"
SHIPPED = ROOT / "build/bundles/docs-rope"


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    hub = Hub()
    with hub.running(), socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        yield Scene.make(tmp_path, SHIPPED, hub, taken)


@pytest.mark.parametrize("name", WRONG_USES)
def test_a_wrong_use_is_one_line_with_the_remedy(
    name: str,
    scene: Scene,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    wrong = WRONG_USES[name]
    variables = {
        "HEADLIGHT_CACHE": str(tmp_path / "cache"),
        "HF_HOME": str(tmp_path / "hf"),
        "HF_ENDPOINT": scene.hub.address,
        **dict(wrong.variables),
    }
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    command = ("serve", *wrong.arguments(scene))
    if wrong.check:
        ended = (exit_code(*command, "--check"), *capfd.readouterr())
    else:  # a service that has begun to start ends its process
        program = (sys.executable, "-m", "headlight", *command, "--log-level", "error")
        done = subprocess.run(
            program, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120
        )
        ended = (done.returncode, done.stdout, done.stderr)
    code, out, err = ended
    [line] = err.splitlines()
    assert re.search(wrong.line, line), line
    assert (code, out) == (wrong.code, "")


def test_the_docs_have_a_row_for_each() -> None:
    rows = re.findall(r"^\| (.+?) \| ", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert set(WRONG_USES) <= set(rows)
