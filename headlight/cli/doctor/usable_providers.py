"""Execution providers: whether each can compute here, and if not, why."""

from __future__ import annotations

import dataclasses
from typing import Any

from headlight.errors import BundleError
from headlight.extras import MissingExtra


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
