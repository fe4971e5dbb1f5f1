"""Checks of `headlight doctor`: packages, providers, golden inputs, and the machine."""

from __future__ import annotations

import dataclasses
import operator
import os
import platform
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from headlight.cli.cache_command import facts
from headlight.errors import BundleError
from headlight.extras import ON_GPUS, RANGES, MissingExtra, remedy, version_of
from headlight.model_store.model_cache import entries
from headlight.model_store.model_source import MANIFEST, ModelSourceError, find_model


@dataclasses.dataclass(frozen=True)
class Provider:
    """One execution provider.

    Attributes:
        name: as in `headlight serve --provider`.
        precisions: that it computes in here; empty: it is not usable.
        detail: why it is not usable, or lacks a precision.
        broken: whether it is installed and fails.
    """

    name: str
    precisions: tuple[str, ...]
    detail: str
    broken: bool = False


def usable_providers() -> list[Provider]:
    """Try each provider. Loads ONNX Runtime and OpenVINO if they are installed."""
    try:
        # Fails here, and not on import, without the libraries of the extra.
        from headlight.runtime.providers import (  # noqa: PLC0415
            cuda_session,
            openvino_session,
            provider_choice,
        )
    except MissingExtra as error:
        return [Provider(name, (), str(error)) for name in ("cpu", "openvino", "cuda")]
    except Exception as error:  # a library that cannot be loaded raises anything
        why = f"ONNX Runtime cannot be loaded: {' '.join(str(error).split()):.200}"
        return [Provider(name, (), why, broken=True) for name in ("cpu", "openvino", "cuda")]
    return [
        Provider("cpu", provider_choice.PRECISIONS, "bf16 and fp16 save disk alone"),
        _tried("openvino", openvino_session.PRECISIONS, openvino_session.check_precision),
        _tried(
            "cuda",
            cuda_session.PRECISIONS,
            lambda precision: cuda_session.check_cuda(precision, cuda_session.Gpu()),
        ),
    ]


def _tried(name: str, precisions: Any, check: Any) -> Provider:
    usable, details = list[str](), list[str]()
    for precision in precisions:
        try:
            check(precision)
        except BundleError as error:
            details.append(error.message.removeprefix(f"provider {name} "))
        except Exception as error:
            return Provider(name, (), f"fails: {' '.join(str(error).split()):.200}", broken=True)
        else:
            usable.append(precision)
    return Provider(name, tuple(usable), details[0] if details else "")


COMPARED = {">=": operator.ge, "<": operator.lt}


@dataclasses.dataclass(frozen=True)
class Installed:
    """The packages of one extra.

    Attributes:
        extra: its name; "client" for the base.
        versions: of the installed packages, by name.
        missing: names of the others.
        problems: versions that do not fit, each with its remedy.
        remedy: the command that installs all of it.
    """

    extra: str
    versions: dict[str, str]
    missing: list[str]
    problems: list[str]
    remedy: str


def installed_packages() -> list[Installed]:
    """Return the packages of every extra."""
    return [_installed(extra, packages) for extra, packages in RANGES.items()]


def fits(version: str, accepted: str) -> bool:
    """Return whether a version is in a range, as ">=6.31.1,<8"; rc1 and the like are ignored."""
    for clause in accepted.split(","):
        sign, bound = re.findall(r"[<>=]+|[\d.]+", clause)
        if not COMPARED[sign](_numbers(version), _numbers(bound)):
            return False
    return True


def _installed(extra: str, packages: dict[str, str]) -> Installed:
    command = remedy(extra).replace("[client]", "")
    versions, missing, problems = dict[str, str](), list[str](), list[str]()
    for name, accepted in packages.items():
        beside = ON_GPUS.get(name, "")
        both = {each: version for each in (name, beside) if each and (version := version_of(each))}
        versions |= both
        if not both:
            missing.append(name)
        if len(both) > 1:
            problems.append(
                f"{name} and {beside} install the same files; uninstall both, then {command}"
            )
        problems += [
            f"{each} is {version}, and {accepted} is needed: {command}"
            for each, version in both.items()
            if not fits(version, accepted)
        ]
    return Installed(extra, versions, missing, problems, command)


def _numbers(version: str) -> tuple[int, ...]:
    release = re.match(r"\d+(\.\d+)*", version)
    return tuple(map(int, release[0].split("."))) if release else ()


PRECISION = "fp32"


@dataclasses.dataclass(frozen=True)
class GoldenRun:
    """The golden inputs of a model on one provider, in fp32.

    Attributes:
        provider: its name.
        model: name and version of the model; if it cannot be used, the folder of its bundle.
        problem: why it must not be used here; empty: its answers are PyTorch's.
    """

    provider: str
    model: str
    problem: str


def run_golden_inputs(providers: Iterable[Provider]) -> list[GoldenRun]:
    """Run the short golden inputs of one model on each usable provider; empty: no model is here."""
    usable = [each.name for each in providers if PRECISION in each.precisions]
    bundle = find_bundle(os.environ)
    return [] if bundle is None else [_run(bundle, name) for name in usable]


def find_bundle(environ: Mapping[str, str]) -> Path | None:
    """Return the shipped bundle, else the newest of the cache that is not damaged, else None."""
    try:
        shipped = find_model(None)
    except ModelSourceError:
        shipped = None
    if isinstance(shipped, Path):
        return shipped
    try:
        bundles = [entry.bundle for entry in entries(environ) if facts(entry)["precisions"]]
        return max(bundles, key=lambda each: (each / MANIFEST).stat().st_mtime, default=None)
    except (ModelSourceError, OSError):  # the report has a section on the cache
        return None


def _run(bundle: Path, provider: str) -> GoldenRun:
    from headlight.runtime import Runtime  # noqa: PLC0415 # needs an extra

    try:
        with Runtime(bundle, provider=provider) as runtime:
            model = runtime.model()
    except Exception as error:  # a library or short memory raises anything
        return GoldenRun(provider, str(bundle), " ".join(str(error).split()) or repr(error))
    return GoldenRun(provider, f"{model.name} {model.version}", "")


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
    names = FEATURES.get(platform.machine(), ())
    have = set(flags[1].split()) if flags else None
    return {
        "model": model[1].strip() if model else platform.processor() or platform.machine(),
        "features": None if have is None else {name: name in have for name in names},
    }


def memory_facts(meminfo: str) -> dict[str, Any]:
    """Return the bytes of all memory and of what can still be taken, from /proc/meminfo."""
    sizes = {
        name: int(kibibytes) * 1024
        for name, kibibytes in re.findall(r"^(\w+):\s+(\d+) kB$", meminfo, re.MULTILINE)
    }
    return {"total_bytes": sizes.get("MemTotal"), "available_bytes": sizes.get("MemAvailable")}


def cpu_quota(group: Path) -> float | None:
    """Return the cores that the cgroup may use, as a fraction; None: no limit is known."""
    for files in QUOTAS:
        parts = " ".join(_text(group / file) for file in files).split()
        if len(parts) == 2 and parts[0].isdecimal():  # else "max", or -1 in v1: no limit
            return int(parts[0]) / int(parts[1])
    return None


def _number(group: Path, files: tuple[str, ...]) -> int | None:
    texts = (_text(group / file).strip() for file in files)
    return next((int(text) for text in texts if text.isdecimal()), None)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
