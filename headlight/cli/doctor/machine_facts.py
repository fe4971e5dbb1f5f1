"""Machine: the CPU and its features, usable cores, memory, each with the limits of its cgroup."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path
from typing import Any

# Features that decide what a precision gains here.
FEATURES = {
    "x86_64": ("avx2", "avx512_vnni", "avx512_bf16", "amx_bf16"),
    "aarch64": ("asimddp", "i8mm", "bf16"),
}
HUGE = 1 << 60  # bytes; cgroup v1 writes "none" as some such number
QUOTAS = (("cpu.max",), ("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us"))  # v2, v1
LIMITS = ("memory.max", "memory/memory.limit_in_bytes")
USED = ("memory.current", "memory/memory.usage_in_bytes")


def machine_facts(
    proc: Path = Path("/proc"), group: Path = Path("/sys/fs/cgroup")
) -> dict[str, dict[str, Any]]:
    """Return what is known of CPU, cores and memory; None for what is not.

    Args:
        proc: where Linux describes the machine.
        group: the cgroup of a container, as it sees itself.
    """
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    machine, quota = os.cpu_count(), cpu_quota(group)
    known = [each for each in (affinity or machine, quota and max(1, -int(-quota // 1))) if each]
    limit, used = _number(group, LIMITS), _number(group, USED)
    limited = limit is not None and limit < HUGE
    return {
        "cpu": cpu_facts(_text(proc / "cpuinfo")),
        "cores": {
            "usable": min(known, default=None),
            "machine": machine,
            "affinity": affinity,
            "cgroup_quota": quota,
        },
        "memory": {
            **memory_facts(_text(proc / "meminfo")),
            "cgroup_limit_bytes": limit if limited else None,
            "cgroup_used_bytes": used if limited else None,
        },
    }


def cpu_facts(cpuinfo: str) -> dict[str, Any]:
    """Return the model and the features that matter, from /proc/cpuinfo."""
    model = re.search(r"^model name\s*: (.*)$", cpuinfo, re.MULTILINE)
    flags = re.search(r"^(?:flags|Features)\s*: (.*)$", cpuinfo, re.MULTILINE)
    wanted = FEATURES.get(platform.machine(), ())
    have = set(flags[1].split()) if flags else None
    return {
        "model": model[1].strip() if model else platform.processor() or platform.machine(),
        "features": None if have is None else {name: name in have for name in wanted},
    }


def memory_facts(meminfo: str) -> dict[str, Any]:
    """Return the bytes of all memory and of what can still be taken, from /proc/meminfo."""
    found = {
        name: int(kibibytes) * 1024
        for name, kibibytes in re.findall(r"^(\w+):\s+(\d+) kB$", meminfo, re.MULTILINE)
    }
    return {"total_bytes": found.get("MemTotal"), "available_bytes": found.get("MemAvailable")}


def cpu_quota(group: Path) -> float | None:
    """Return the cores that the cgroup may use, as a fraction; None: no limit is known."""
    for files in QUOTAS:
        parts = " ".join(_text(group / file) for file in files).split()
        if len(parts) == 2 and parts[0].isdecimal():  # else "max", or -1 in v1: no limit
            return int(parts[0]) / int(parts[1])
    return None


def _number(group: Path, files: tuple[str, ...]) -> int | None:
    found = (_text(group / file).strip() for file in files)
    return next((int(text) for text in found if text.isdecimal()), None)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
