"""Extras: libraries that parts of Headlight need and a bare install lacks."""

from __future__ import annotations

import importlib.metadata
import importlib.util

# The package is on no index yet. Only this line of the code has the install command.
INSTALL = "pip install '.[{extra}]' in a clone of Headlight"
# The accepted versions of each extra's packages, as in pyproject.toml, which a test compares.
# "client" is what every installation has; "serve" needs those of "runtime", too.
RANGES: dict[str, dict[str, str]] = {
    "client": {"grpcio": ">=1.76", "protobuf": ">=6.31.1,<8", "numpy": ">=1.26,<3"},
    "runtime": {"onnxruntime": ">=1.31,<1.33", "tokenizers": ">=0.22.1,<0.24"},
    "openvino": {"openvino": ">=2026.2,<2026.5"},
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
        "onnx": ">=1.19,<1.24",
        "onnxscript": ">=0.6,<0.8",
        "safetensors": ">=0.5",
        "huggingface_hub": ">=1",
        "jinja2": ">=3.1",
    },
    "int8": {"nncf": ">=3.4,<3.5"},
    "otel": {"opentelemetry-sdk": ">=1.45", "opentelemetry-exporter-otlp-proto-grpc": ">=1.45"},
    "parquet": {"pyarrow": ">=18", "fsspec": ">=2024.6"},
    "ray": {"ray": ">=2.56", "pyarrow": ">=18", "fsspec": ">=2024.6"},
    "plot": {"matplotlib": ">=3.8"},
    "docs": {"flask-swagger-ui": ">=5.21"},
    "completion": {"shtab": ">=1.13"},
    "safetensors": {"safetensors": ">=0.5"},
}
ON_GPUS = {"onnxruntime": "onnxruntime-gpu"}  # the same files, never beside it


class MissingExtra(ImportError):
    """A part of Headlight needs libraries that are not installed."""


def remedy(extra: str) -> str:
    """Return the command that installs an extra."""
    return INSTALL.format(extra=extra)


def require(part: str, extra: str, *libraries: str) -> None:
    """Check that the libraries of an extra can be imported, without importing them.

    Args:
        part: the part that needs them, in the user's terms.
        extra: the extra that installs them.
        libraries: names of modules.

    Raises:
        MissingExtra: a library is missing; the message names the first and the extra.
    """
    for library in libraries:
        if importlib.util.find_spec(library) is None:
            raise MissingExtra(
                f"{part} needs {library}, which is not installed: {remedy(extra)}", name=library
            )


def version_of(package: str) -> str | None:
    """Return the installed version of a package; None: it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def versions_text(*packages: str) -> str:
    """Return which versions of packages are installed, and which were tested."""
    tested = {name: accepted for extra in RANGES.values() for name, accepted in extra.items()}
    installed = list[str]()
    for name in packages:
        twin = ON_GPUS.get(name, name)
        present = twin if version_of(twin) else name
        installed.append(f"{present} {version_of(present) or 'missing'}")
    accepted = ", ".join(f"{name} {tested[name]}" for name in packages)
    return f"installed: {', '.join(installed)}; tested: {accepted}"
