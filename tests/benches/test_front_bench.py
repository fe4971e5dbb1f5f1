"""`python -m bench.front` in small: it takes the service apart, and would break unnoticed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.system.conftest import bundle_of
from tests.system.processes import ROOT

SECONDS = 500


def test_every_workload_costs_more_than_bare_grpc_and_less_than_with_the_model(tmp_path: Path) -> None:
    report = tmp_path / "front.md"
    command = [sys.executable, "-m", "bench.front", "--rounds", "3", "--bundle", str(bundle_of("docs-rope"))]
    done = subprocess.run(
        [*command, "--out", str(report)], cwd=ROOT, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr
    lines = [line for line in report.read_text(encoding="utf-8").splitlines() if line.startswith(("| unary", "| str"))]
    assert len(lines) == 12
    for line in lines:
        bare, front, _, model, texts = (float(cell.replace(",", "")) for cell in line.strip("|").split("|")[1:])
        assert 0 < bare < front < model, line
        assert texts * front == pytest.approx(1e6 * int(line.split()[3]), rel=0.01), line
