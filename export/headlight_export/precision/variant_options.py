"""Variants and texts of an export, checked before the slow tracing."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from headlight.errors import BundleError
from headlight.runtime.providers.provider_choice import PROVIDERS, choose_provider
from headlight_export.families import BEYOND_FLOAT16
from headlight_export.precision.conversion import PRECISIONS
from headlight_export.precision.graph_files import CPU, CUDA, OPENVINO
from headlight_export.precision.quality import broken
from headlight_export.precision.static_int8 import check_nncf
from headlight_export.precision.variant_graphs import STATIC, Variant


@dataclasses.dataclass(frozen=True)
class TextOptions:
    """Texts and target of an export.

    Attributes:
        report: a file of a text a line to judge variants by; None: varied texts.
        calibration: texts to calibrate int8 on; None: docstrings of Python's library.
        keep_nearest: share of the ten nearest texts that int8 must keep; None: no search.
    """

    report: Path | None = None
    calibration: Sequence[str] | None = None
    keep_nearest: float | None = None


def known_variants(
    precisions: Iterable[str],
    providers: Iterable[str],
    texts: Path | None = None,
    keep_nearest: float | None = None,
) -> list[Variant]:
    """Return the variants to measure beside fp32 on CPUs, each once.

    They are checked before the slow tracing.

    Args:
        precisions, providers: as given.
        texts: the file to judge them by.
        keep_nearest: the target of the search of layers.

    Raises:
        ValueError: the precision or provider does not exist (the message lists the existing ones),
            there are texts but no variant, or a target that is no share or without int8.
        BundleError: a provider is not installed, or NNCF, which int8 on OpenVINO needs.
        FileNotFoundError: there is no file of texts.
    """
    variants: dict[Variant, None] = {}
    for precision in precisions:
        if precision not in ("fp32", *PRECISIONS):
            raise ValueError(
                f"--precision {precision}: choose one of {', '.join(PRECISIONS)}; "
                "fp32 is always written"
            )
        variants[CPU, precision] = None
    for provider in providers:
        if provider not in PROVIDERS:
            raise ValueError(
                f"--provider {provider}: choose one of {', '.join(PROVIDERS)}; "
                f"{CPU} is always measured"
            )
        variants |= dict.fromkeys(
            (provider, precision) for precision in usable_precisions(provider)
        )
    variants.pop((CPU, "fp32"), None)
    if (CPU, "int8") in variants and OPENVINO in providers:
        check_nncf()
        variants[STATIC] = None
    if keep_nearest is not None:
        _check_target(keep_nearest, variants)
    if texts is not None and not variants:
        raise ValueError("--texts measures precisions; add --precision, or leave --texts out")
    if texts is not None and not texts.is_file():
        raise FileNotFoundError(f"{texts} is not a file; --texts takes a file with one text a line")
    return list(variants)


def _check_target(keep_nearest: float, variants: Collection[Variant]) -> None:
    if not 0 < keep_nearest <= 1:
        raise ValueError(
            f"--keep-nearest {keep_nearest:g}: give a share above 0 and at most 1, as 0.97"
        )
    if (CPU, "int8") not in variants:
        raise ValueError(
            "--keep-nearest chooses layers of int8; add --precision int8, or leave it out"
        )


def check_family(precisions: Collection[str], family: str) -> None:
    """Check that no precision is too narrow for all models of a family.

    Raises:
        BrokenVariantError: one is; the message has the remedy.
    """
    if "fp16" in precisions and family in BEYOND_FLOAT16:
        raise broken(CPU, "fp16", f"overflows: activations of {family} leave float16's range")


def check_texts(
    variants: Collection[Variant],
    tokenizer: str | None,
    texts: Path | None = None,
    calibration: Path | None = None,
    keep_nearest: float | None = None,
) -> None:
    """Check that int8 can be calibrated or searched, and is judged on other texts.

    Args:
        variants: from `known_variants`.
        tokenizer: the text of tokenizer.json; None: the bundle takes token ids alone.
        texts, calibration: files to judge variants by and to calibrate on.
        keep_nearest: the target of the search of layers.

    Raises:
        ValueError: there is no tokenizer, or both files are the same.
    """
    if tokenizer is None and keep_nearest is not None:
        raise ValueError(
            "--keep-nearest needs a tokenizer; a bundle for token ids alone has none, "
            "so leave it out"
        )
    if tokenizer is None and STATIC in variants:
        raise ValueError(
            "--precision int8 with --provider openvino is calibrated on texts and needs a "
            "tokenizer; a bundle for token ids alone has none, so leave one of the two out"
        )
    if STATIC in variants and texts and calibration and texts.samefile(calibration):
        raise ValueError(
            f"--texts and --calibration are both {texts}; int8 must be judged on texts that it was "
            "not calibrated on, so give another file or leave --texts out"
        )


def usable_precisions(provider: str) -> tuple[str, ...]:
    """Return the precisions that a provider has here, for its graphs in the bundle.

    Raises:
        BundleError: it is not installed.
    """
    if provider == CPU:
        return ("fp32",)
    choose_provider(provider, "fp32")
    if provider == CUDA:
        return ("fp32",)
    try:
        choose_provider(provider, "bf16")
    except BundleError:
        return ("fp32",)
    return ("fp32", "bf16")
