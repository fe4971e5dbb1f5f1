"""Packages of the extras: installed versions, and what is missing or does not fit."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import operator
import re

from headlight.extras import remedy

# Ranges as in pyproject.toml, which a test compares. "client" is what every installation has;
# "serve" needs those of "runtime", too.
EXTRAS: dict[str, dict[str, str]] = {
    "client": {"grpcio": ">=1.76", "protobuf": ">=6.31.1,<8", "numpy": ">=1.26"},
    "runtime": {"onnxruntime": ">=1.31", "tokenizers": ">=0.20"},
    "openvino": {"openvino": ">=2026.2"},
    "serve": {
        "grpcio-health-checking": ">=1.76",
        "grpcio-reflection": ">=1.76",
        "googleapis-common-protos": ">=1.70",
        "prometheus-client": ">=0.20",
        "uvicorn": ">=0.54",
        "httptools": ">=0.6.3",
        "orjson": ">=3.10",
        "threadpoolctl": ">=3.5",
    },
    "export": {
        "torch": ">=2.13,<2.14",
        "onnx": ">=1.19",
        "onnxscript": ">=0.5",
        "safetensors": ">=0.5",
        "huggingface_hub": ">=1",
    },
    "int8": {"nncf": ">=3.4"},
    "otel": {"opentelemetry-sdk": ">=1.45", "opentelemetry-exporter-otlp-proto-grpc": ">=1.45"},
    "parquet": {"pyarrow": ">=18", "fsspec": ">=2024.6"},
    "ray": {"ray": ">=2.56", "pyarrow": ">=18", "fsspec": ">=2024.6"},
    "plot": {"matplotlib": ">=3.8"},
    "completion": {"shtab": ">=1.13"},
    "safetensors": {"safetensors": ">=0.5"},
}
ON_GPUS = {"onnxruntime": "onnxruntime-gpu"}  # the same files, never beside it
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
    return [_installed(extra, packages) for extra, packages in EXTRAS.items()]


def version_of(package: str) -> str | None:
    """Return the installed version of a package; None: it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


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
        both = {each: found for each in (name, beside) if each and (found := version_of(each))}
        versions |= both
        if not both:
            missing.append(name)
        if len(both) > 1:
            problems.append(
                f"{name} and {beside} install the same files; uninstall both, then {command}"
            )
        problems += [
            f"{each} is {found}, and {accepted} is needed: {command}"
            for each, found in both.items()
            if not fits(found, accepted)
        ]
    return Installed(extra, versions, missing, problems, command)


def _numbers(version: str) -> tuple[int, ...]:
    release = re.match(r"\d+(\.\d+)*", version)
    return tuple(map(int, release[0].split("."))) if release else ()
