"""`python -m bench.one_call` on a small scale.

It wraps functions of the service, so a change there could break it unnoticed.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from bench.one_call import TITLES, Round, criteria
from bench.one_call_steps import SESSION, names
from tests.system.conftest import bundle_of
from tests.system.processes import ROOT

SECONDS = 300


def rows(page: str, title: str) -> dict[str, list[str]]:
    """Return the cells of a section's table, by first cell."""
    section = page.split(f"## {title}\n")[1].split("\n## ", maxsplit=1)[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")][1:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {first: rest for first, *rest in cells}


def test_a_small_run_has_every_way_and_every_step(tmp_path: Path) -> None:
    out = tmp_path / "one-call.md"
    command = [sys.executable, "-m", "bench.one_call", "--rounds", "2", "--calls", "20"]
    command += ["--before", str(ROOT), "--bundle", str(bundle_of("docs-rope")), "--out", str(out)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr
    page, run = out.read_text(encoding="utf-8"), json.loads(out.with_suffix(".json").read_text())
    whole = rows(page, "The whole call")
    assert set(whole) == set(TITLES.values())
    assert all(float(cell) > 0 for row in whole.values() for cell in (row[0], row[3]))
    # Headlight is never faster than its own session.
    assert float(whole["Headlight with time stamps"][0]) > float(
        rows(page, "The steps of a call")[SESSION][0]
    )
    assert [*rows(page, "The steps of a call")] == [*names(), "**sum of the medians**"]
    assert set(run["microseconds"]) == set(TITLES)
    assert all(len(rounds) == 2 for rounds in run["microseconds"].values())
    assert all(min(rounds) > 0 for rounds in run["steps_p50_microseconds"].values())
    assert {row[-1] for row in rows(page, "What was to be reached").values()} <= {
        "reached",
        "missed",
    }


def test_criteria_compare_p50_in_the_same_rounds() -> None:
    def rounds(*p50: float) -> list[Round]:
        return [Round([value] * 3, 1.0, 0.0, 0.0) for value in p50]

    lines = criteria(
        {
            "Headlight": rounds(3000, 4000, 5000),
            "session": rounds(2100, 3000, 3000),
            "queue": rounds(2500, 3700, 4700),
            "threads": rounds(2500, 3500, 4700),
        }
    )
    told = [[cell.strip() for cell in line.split("|")][3:5] for line in lines[2:]]
    assert told == [["1.00", "reached"], ["0.30", "reached"], ["0.50", "missed"]]


def test_a_folder_that_is_no_checkout_is_refused(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bench.one_call", "--before", str(tmp_path)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert "--before" in done.stderr.splitlines()[-1]
