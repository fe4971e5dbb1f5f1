"""`nox -s serving` on a small scale, without peers.

It runs, and its tables and plots state the requested settings.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.system.conftest import bundle_of
from tests.system.processes import ROOT

SECONDS = 420


def test_a_quick_run_measures_everything(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "bench.serving",
        "--quick",
        "--no-peers",
        "--only",
        "Headlight fp32",
        "engine fp32",
    ]
    command += ["--bundle", str(bundle_of("docs-rope")), "--out", str(tmp_path)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "serving.json").read_text(encoding="utf-8"))
    assert found["skipped"] == {}
    names = {"Headlight fp32", "engine fp32"}
    over_http = names | {"Headlight fp32, HTTP"}
    assert set(found["contestants"]) == over_http
    assert {workload: set(by_name) for workload, by_name in found["measured"].items()} == {
        **dict.fromkeys(("one caller", "64 singles", "8 x 32"), over_http),
        **dict.fromkeys(("bulk", "list by the client"), names),
    }
    for by_name in found["measured"].values():
        assert all(taken["texts_per_s"] > 0 and taken["cpu_ms"] > 0 for taken in by_name.values())
    assert all(
        far["max_abs"] < 1e-5 and far["nearest_kept"] > 0.99 for far in found["vectors"].values()
    )
    assert [one["share"] for one in found["open"]] == [0.5, 0.8, 1.0, 2.0] * 2
    assert all(one["codes"].get("OK") for one in found["open"])
    assert [one["batch_ms"] for one in found["flood"]] == [10]
    assert all(
        one["beside"]["bulk_texts_per_s"] > 0 and one["alone"]["failed"] == 0
        for one in found["flood"]
    )
    report = (tmp_path / "serving.md").read_text(encoding="utf-8")
    assert "## What was to be reached" in report
    assert "The price is for 0.04 an hour" in report
    assert "Other programs took of the CPUs: " in report
    assert {path.name for path in tmp_path.glob("*.png")} == {
        "serving-throughput.png",
        "serving-open-loop.png",
        "serving-quality.png",
    }
