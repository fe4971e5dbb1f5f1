"""Number of available CPUs, and division of threads among slots."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headlight.runtime.providers.worker_layout import MOST_STREAMS, share, usable_cpus


@pytest.mark.parametrize(
    ("text", "most"),
    [
        ("200000 100000", 2),
        ("150000 100000", 2),
        ("50000 100000", 1),
        ("max 100000", 10**6),
        ("", 10**6),
    ],
)
def test_cpu_count_follows_the_cgroup_v2_quota(
    text: str, most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(64))
    (tmp_path / "cpu.max").write_text(text, encoding="ascii")
    assert usable_cpus(tmp_path) == min(64, most)
    assert usable_cpus(tmp_path / "none") == 64


@pytest.mark.parametrize(
    ("quota", "most"), [("200000\n", 2), ("150000\n", 2), ("50000\n", 1), ("-1\n", 64), ("", 64)]
)
def test_cpu_count_follows_the_cgroup_v1_quota(
    quota: str, most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(64))
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text(quota, encoding="ascii")
    (tmp_path / "cpu" / "cpu.cfs_period_us").write_text("100000\n", encoding="ascii")
    assert usable_cpus(tmp_path) == most


@pytest.mark.parametrize(
    ("streams", "threads", "cpus", "expected"),
    [
        (None, None, 1, (1, 1)),
        (None, None, 2, (2, 1)),
        (None, None, 64, (MOST_STREAMS, 64 // MOST_STREAMS)),
        (None, 4, 16, (4, 4)),
        (None, 32, 16, (1, 32)),
        (1, None, 16, (1, 16)),
        (3, None, 2, (3, 1)),
        (3, 5, 2, (3, 5)),
    ],
)
def test_unset_thread_options_follow_from_the_cpu_count(
    streams: int | None, threads: int | None, cpus: int, expected: tuple[int, int]
) -> None:
    assert share(streams, threads, cpus) == expected
