"""Kills of `headlight embed` on 200,000 rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.bulk.table_faults import faults

GROWTH = 1.25  # of the memory, from the second quarter of a run to the last


@pytest.mark.timeout(3600)
def test_killed_jobs_lose_and_repeat_nothing(
    bundle_path: Path,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    report: dict[str, Any],
) -> None:
    rows, kills = (request.config.getoption(name) for name in ("--rows", "--kills"))
    found = report["tables"] = faults(tmp_path, bundle_path, rows=rows, kills=kills)
    told = json.dumps(found, indent=2)
    assert found["killed services"] == kills // 2
    for mode in ("local", "service"):
        assert found[mode]["each row once, in order"], told
        assert found[mode]["rejected"] == found["bad"], told
        assert found[mode]["largest difference"] <= 1e-6, told
    assert found["local"]["same bytes"], told
    middle, late, _ = found["uninterrupted"]["MiB (second quarter, last quarter, peak)"]
    assert late <= GROWTH * middle, told
