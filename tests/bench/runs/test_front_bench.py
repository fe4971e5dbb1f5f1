"""`python -m bench.front` on a small scale.

It depends on internals of the service, so it could break unnoticed.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.front import WORKLOADS
from tests.system.conftest import bundle_of
from tests.system.processes import ROOT

SECONDS = 500


def test_every_workload_costs_more_than_bare_grpc_and_less_than_with_the_model(
    tmp_path: Path,
) -> None:
    report = tmp_path / "front.md"
    command = [
        sys.executable,
        "-m",
        "bench.front",
        "--rounds",
        "3",
        "--bundle",
        str(bundle_of("docs-rope")),
    ]
    done = subprocess.run(
        [*command, "--out", str(report)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = [
        line
        for line in report.read_text(encoding="utf-8").splitlines()
        if line.startswith(("| unary", "| str"))
    ]
    assert len(lines) == 12
    for line in lines:
        bare, front, _, model, texts = (
            float(cell.replace(",", "")) for cell in line.strip("|").split("|")[1:]
        )
        assert 0 < bare < front < model, line
        assert texts * front == pytest.approx(1e6 * int(line.split()[3]), rel=0.01), line


def test_another_checkout_is_measured_in_the_same_rounds(tmp_path: Path) -> None:
    """Here the other checkout is this one."""
    report, names = tmp_path / "front.md", {load.name for load in WORKLOADS}
    command = [sys.executable, "-m", "bench.front", "--quick", "--rounds", "2"]
    command += [
        "--before",
        str(ROOT),
        "--bundle",
        str(bundle_of("docs-rope")),
        "--out",
        str(report),
    ]
    done = subprocess.run(
        command,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    run = json.loads(report.with_suffix(".json").read_text(encoding="utf-8"))
    found = run["microseconds"]
    assert run["revisions"]["before"] == run["revisions"]["after"]
    assert set(found) == {"floor", "front", "real", "front before", "real before"}
    for by_workload in found.values():
        assert set(by_workload) == names
        assert all(len(rounds) == 2 and min(rounds) > 0 for rounds in by_workload.values())
    page = report.read_text(encoding="utf-8")
    _, table = page.split("## Before and after")
    lines = [line for line in table.splitlines() if line.startswith(("| unary", "| stream"))]
    assert {line.split(" | ")[0].strip("| ") for line in lines} == names
    assert all(len(line.strip("|").split("|")) == 10 for line in lines)


def test_a_folder_that_is_no_checkout_is_refused(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bench.front", "--before", str(tmp_path)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert "--before" in done.stderr.splitlines()[-1]
