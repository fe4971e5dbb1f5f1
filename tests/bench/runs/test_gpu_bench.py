"""Rehearsal of `python -m bench.gpu` on a CPU.

Every section runs, and the output is labelled as a rehearsal.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from bench.gpu.__main__ import SHARES
from bench.gpu.served import ALONE, SERVED
from tests.system.conftest import bundle_of
from tests.system.processes import ROOT

# Far more than needed, for a busy machine; less than pytest's limit, which reports less.
SECONDS = 540


def test_a_rehearsal_runs_every_section(tmp_path: Path) -> None:
    """Uses a bundle with fp32 only, and the smallest amount of work.

    How far each section gets depends on time.
    """
    bundles, out = tmp_path / "bundles", tmp_path / "out"
    bundles.mkdir()
    (bundles / "docs-rope").symlink_to(bundle_of("docs-rope"))
    command = [
        sys.executable,
        "-m",
        "bench.gpu",
        "--provider",
        "cpu",
        "--bundles",
        str(bundles),
        "--out",
        str(out),
    ]
    command += [
        "--trained",
        "docs-rope",
        "--sizes",
        "docs-rope",
        "--lengths",
        "16",
        "--tokens",
        "64",
    ]
    command += [
        "--texts",
        "8",
        "--group",
        "2",
        "--requests",
        "2",
        "--rounds",
        "1",
        "--budget-seconds",
        "300",
    ]
    # The thread pools of PyTorch and ONNX Runtime would compete for cores.
    alone = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, cwd=ROOT, env=alone, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads((out / "gpu.json").read_text(encoding="utf-8"))
    assert found["rehearsal"] is True
    assert found["failed"] == {}
    assert set(SHARES) <= set(found)
    exact = found["parity"]["docs-rope"]["fp32"]
    assert max(one["relative"] for one in exact["outputs"].values()) < 1e-4
    assert exact["gate"] == ""
    assert "error" in found["parity"]["docs-rope"]["fp16"]
    rows = [row for row in found["speed"] if row["precision"] == "fp32"]
    assert rows
    assert all(cosine > 0.99999 for row in rows for cosine in row.get("cosines", {}).values())
    assert set(found["served"]["measured"]) >= {ALONE, SERVED}
    assert found["served"]["failed"] == {}
    assert not any("error" in row for row in found["attention"])
    report = (out / "gpu.md").read_text(encoding="utf-8")
    assert report.startswith("# A rehearsal on a CPU")
    assert "| reached |" not in report
    assert "](gpu.png)" in report
    assert (out / "gpu.png").is_file()
