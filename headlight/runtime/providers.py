"""Who computes: the libraries that can open a graph, by the names that operators give them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from headlight.errors import BundleError
from headlight.runtime.onnx_session import OnnxSession
from headlight.runtime.openvino_session import OpenVinoSession, check_precision
from headlight.runtime.session import Session
from headlight.runtime.workers import Workers

PRECISIONS = ("fp32", "bf16", "fp16", "int8")


def _by_onnx(path: Path, _precision: str, workers: Workers) -> Session:
    return OnnxSession(path, workers)  # the graph itself is of its precision


def _by_openvino(path: Path, precision: str, workers: Workers) -> Session:
    return OpenVinoSession(path, workers, precision)


_OPEN: dict[str, Callable[[Path, str, Workers], Session]] = {"cpu": _by_onnx, "openvino": _by_openvino}
PROVIDERS = tuple(_OPEN)


def choose_provider(name: str, precision: str) -> str:
    """The provider for a name that an operator gave.

    Args:
        name: one of PROVIDERS; "auto" is "cpu", which is everywhere: who wants another says so, or has `make tune` find out.
        precision: that it is to compute in.

    Raises:
        BundleError: there is no such provider here, or it has not the precision; never a silent fallback.
    """
    if name == "auto":
        return "cpu"
    if name not in PROVIDERS:
        raise BundleError(f"provider {name!r} is not available; available are auto, {', '.join(PROVIDERS)}")
    if name == "openvino":
        check_precision(precision)
    return name


def open_session(path: Path, provider: str, precision: str, workers: Workers) -> Session:
    """Open a graph.

    Args:
        path: of the file.
        provider: of PROVIDERS.
        precision: of the graph on this provider.
        workers: see there.

    Raises:
        Exception: of many types, the library's own.
    """
    return _OPEN[provider](path, precision, workers)
