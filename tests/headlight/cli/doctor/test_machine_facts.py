"""Facts of the machine from the files of Linux, with the limits of a cgroup."""

from __future__ import annotations

from pathlib import Path

import pytest

from headlight.cli.doctor.checks import cpu_quota, machine_facts
from headlight.runtime.providers.worker_layout import usable_cpus

CPUINFO = "processor\t: 0\nmodel name\t: AMD EPYC 9B45\nflags\t\t: fpu avx2 avx512_bf16 sse\n"
MEMINFO = "MemTotal:       1000 kB\nMemFree:         10 kB\nMemAvailable:    600 kB\n"
V2 = {"cpu.max": "150000 100000\n", "memory.max": "2048\n", "memory.current": "1024\n"}
V1 = {
    "cpu/cpu.cfs_quota_us": "50000\n",
    "cpu/cpu.cfs_period_us": "100000\n",
    "memory/memory.limit_in_bytes": "4096\n",
    "memory/memory.usage_in_bytes": "7\n",
}
NONE = {"cpu.max": "max 100000\n", "memory.max": "max\n", "memory.current": "1024\n"}
NONE_V1 = {
    **V1,
    "cpu/cpu.cfs_quota_us": "-1\n",
    "memory/memory.limit_in_bytes": f"{2**63 - 4096}\n",
}


def written(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def test_cpu_and_memory_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    proc = written(tmp_path, {"cpuinfo": CPUINFO, "meminfo": MEMINFO})
    facts = machine_facts(proc, tmp_path / "none")
    assert facts["cpu"]["model"] == "AMD EPYC 9B45"
    assert facts["cpu"]["features"] == {
        "avx2": True,
        "avx512_vnni": False,
        "avx512_bf16": True,
        "amx_bf16": False,
    }
    memory = facts["memory"]
    assert (memory["total_bytes"], memory["available_bytes"]) == (1000 * 1024, 600 * 1024)


def test_a_system_without_these_files_has_no_facts(tmp_path: Path) -> None:
    facts = machine_facts(tmp_path, tmp_path)
    assert facts["cpu"]["features"] is None
    assert facts["memory"]["total_bytes"] is None
    assert facts["cores"]["usable"] == usable_cpus(tmp_path)


@pytest.mark.parametrize(
    ("files", "quota", "limit", "used"),
    [
        (V2, 1.5, 2048, 1024),
        (V1, 0.5, 4096, 7),
        (NONE, None, None, None),
        (NONE_V1, None, None, None),
    ],
)
def test_the_limits_are_those_that_the_service_keeps(
    tmp_path: Path, files: dict[str, str], quota: float | None, limit: int | None, used: int | None
) -> None:
    group = written(tmp_path, files)
    facts = machine_facts(tmp_path, group)
    assert cpu_quota(group) == quota
    assert facts["cores"]["usable"] == usable_cpus(group)
    assert facts["memory"]["cgroup_limit_bytes"] == limit
    assert facts["memory"]["cgroup_used_bytes"] == used
