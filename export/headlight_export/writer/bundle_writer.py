"""Bundle writer: writes a draft beside its place, proves it, then moves it in one step.

The draft's manifest lacks only the proof.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from headlight.errors import NotFinite
from headlight.extras import versions_text
from headlight.runtime import Runtime
from headlight.runtime.bundle.manifest import Manifest, TokenizerLimit
from headlight.runtime.bundle.manifest_fields import MANIFEST
from headlight_export.folders.origin import Origin, read_origin
from headlight_export.parity.owner_comparison import against_owner
from headlight_export.parity.parity_report import SEED, Row, measure, summary
from headlight_export.parity.reference import Reference
from headlight_export.parity.transformers_comparison import Compared, against_transformers
from headlight_export.precision.graph_files import CPU
from headlight_export.precision.layer_search import Search
from headlight_export.precision.quality import Quality
from headlight_export.precision.variant_options import (
    TextOptions,
    check_family,
    check_texts,
    known_variants,
)
from headlight_export.precision.variants import add_variants
from headlight_export.progress import (
    COMPARING,
    FLOAT64,
    OWNER,
    PEER,
    RANGES,
    TOKENIZER,
    VARIANTS,
    Progress,
    silent,
)
from headlight_export.tokenizers.token_comparison import tokens_against_transformers
from headlight_export.tokenizers.tokenizer_file import check_tokenizer, measure_tokenizer
from headlight_export.writer.draft import put_in_place, save
from headlight_export.writer.fp32_parts import PRECISION, write_parts
from headlight_export.writer.vector_ranges import read_texts, write_ranges

PARITY = "parity.json"
PACKAGES = ("torch", "onnx", "onnxscript", "onnxruntime", "numpy")  # that make or compute a graph


class ParityError(Exception):
    """A bundle that does not reproduce PyTorch; nothing was written. `result` has the rows."""

    def __init__(self, message: str, result: Exported) -> None:
        super().__init__(message)
        self.result = result


@dataclasses.dataclass(frozen=True)
class Exported:
    """The result of an export: the fp32 report's rows, and PyTorch's own fp32 error by output."""

    rows: list[Row]
    own_error: dict[str, float]
    transformers: Compared  # our PyTorch against theirs
    truncate_dim: int | None = None  # length to which the folder's library truncates by default
    tokens: str | None = None  # comparison of token ids; see `compare_ids`
    variants: tuple[Row, ...] = ()  # rows of other precisions and providers, if requested
    quality: tuple[Quality, ...] = ()  # of each, fp32 first
    searches: Mapping[tuple[str, str], Search] = dataclasses.field(default_factory=dict)
    tokenizer_limit: TokenizerLimit | None = None  # of its tokenizer, if it has one
    owner: Mapping[str, float] = dataclasses.field(default_factory=dict)  # our PyTorch against it


def export_checkpoint(checkpoint: Path, out: Path, **options: Any) -> Exported:
    """Turn a checkpoint folder into a bundle directory: `export_origin` of `read_origin`'s result.

    Raises as both do.
    """
    return export_origin(read_origin(checkpoint), out, **options)


def export_origin(
    origin: Origin,
    out: Path,
    *,
    name: str | None = None,
    version: str | None = None,
    precisions: Sequence[str] = (),
    providers: Sequence[str] = (),
    texts: Path | None = None,
    calibration: Path | None = None,
    keep_nearest: float | None = None,
    check_against: nn.Module | None = None,
    progress: Progress = silent,
) -> Exported:
    """Turn an encoder and its tokenizer into a bundle directory. On any error `out` is untouched.

    Args:
        origin: the encoder and the rest of the folder.
        out: replaced if it is a bundle; its parent is created.
        name, version: of the model; None: the last part of `out`, the first 12 digits of the
            SHA-256 of the weights.
        precisions: to write beside fp32, each of headlight_export.precision.conversion.PRECISIONS.
        providers: to measure on beside the one for CPUs, in each precision that they have here.
        texts: a file of a text a line, to judge these and precisions by; None: varied texts.
        calibration: a file of a text a line, whose vectors set the ranges of int8 vectors, and on
            which int8 for OpenVINO is calibrated; None: the bundle has no int8 vectors, and the
            calibration takes docstrings of Python's own library.
        keep_nearest: share of the ten nearest texts that int8 must keep: the layers that it harms
            most stay in fp32; None: no layer does.
        check_against: the owner's model; see `against_owner`.
        progress: called with each step, before it begins.

    Raises:
        ValueError: a precision or a provider is unknown or does not suit the model, the texts are
            invalid, or keep_nearest is out of reach. Or token ids or outputs differ from those of
            transformers or of the owner's model, or the model overflows float32.
        OSError: `out` is something other than a bundle, or cannot be written.
        BundleError: the tokenizer is invalid, or does not fit the model; or a provider is not
            installed.
        ParityError: outside the tolerance.
    """
    if out.exists() and not (out / MANIFEST).is_file():
        raise FileExistsError(
            f"{out} exists and is not a bundle; choose another --out or remove it"
        )
    variants = known_variants(precisions, providers, texts, keep_nearest)
    check_family(precisions, origin.family)
    calibrating = _calibrating(calibration, origin)
    check_texts(variants, origin.tokenizer, texts, calibration, keep_nearest)
    limit = None if origin.tokenizer is None else _character_limit(origin, progress)
    reference = Reference(origin.encoder)
    result = dataclasses.replace(
        _compare_sources(origin, reference, check_against, progress), tokenizer_limit=limit
    )
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}-") as folder:
        draft = Path(folder) / "bundle"
        draft.mkdir()
        manifest = dataclasses.replace(
            write_parts(draft, origin, reference, result.own_error, progress),
            name=name or out.name,
            version=version or origin.weights_sha256[:12],
            tokenizer_limit=limit,
        )
        save(draft, manifest)
        # The report compares more than the golden inputs.
        runtime = Runtime(draft, provider=CPU, precision=PRECISION, streams=1, self_test=False)
        progress(COMPARING)
        result = _proven(runtime, reference, result, progress)
        if calibrating is not None:
            progress(RANGES)
            manifest = _calibrated(draft, manifest, runtime, calibrating)
        if variants:
            progress(VARIANTS)
            chosen = TextOptions(texts, calibrating, keep_nearest)
            manifest, result = _with_variants(
                draft, manifest, result, reference, variants, chosen, progress
            )
        _write_report(draft, result)
        save(draft, dataclasses.replace(manifest, parity=summary([*result.rows, *result.variants])))
        put_in_place(out, draft)
    return result


def _character_limit(origin: Origin, progress: Progress) -> TokenizerLimit:
    """Return the limit of the tokenizer of a folder that has one.

    Raises:
        BundleError: it is invalid, or does not fit the model.
    """
    assert origin.tokenizer is not None
    config = origin.encoder.config
    check_tokenizer(origin.tokenizer, config, origin.pair_template)
    progress(TOKENIZER)
    return measure_tokenizer(origin.tokenizer, config.max_length)


def _compare_sources(
    origin: Origin, reference: Reference, check_against: nn.Module | None, progress: Progress
) -> Exported:
    """Return the part of the result that needs no graph: the errors between models in PyTorch.

    Raises:
        ValueError: token ids or outputs differ from those of transformers, or of the owner's model.
    """
    progress(FLOAT64)
    own_error = reference.own_error(SEED)
    progress(PEER)
    tokens = tokens_against_transformers(origin)
    peer = against_transformers(
        origin.recipe.transformer, origin.family, origin.encoder, own_error, origin.score_tokens
    )
    owner = dict[str, float]()
    if check_against is not None:
        progress(OWNER)
        owner = against_owner(check_against, origin.encoder, own_error)
    return Exported([], own_error, peer, origin.recipe.truncate_dim, tokens, owner=owner)


def _proven(
    runtime: Runtime, reference: Reference, result: Exported, progress: Progress
) -> Exported:
    """Return the result with the rows of fp32.

    Raises:
        ParityError: one is outside its tolerance, or not finite; the message names the worst, and
            the versions of the libraries that compute.
    """
    versions = versions_text(*PACKAGES)
    try:
        result = dataclasses.replace(result, rows=measure(runtime, reference, progress))
    except NotFinite as error:
        raise ParityError(f"{error}, unlike PyTorch; {versions}", result) from error
    failed = [row for row in result.rows if not row.passed]
    if failed:
        worst = max(failed, key=lambda row: row.max_error / row.tolerance)
        message = (
            f"{worst.output} is off by {worst.max_error:.3g} ({worst.case}), "
            f"tolerance {worst.tolerance:.3g}; {versions}"
        )
        raise ParityError(message, result)
    return result


def _with_variants(
    draft: Path,
    manifest: Manifest,
    result: Exported,
    reference: Reference,
    variants: Sequence[tuple[str, str]],
    options: TextOptions,
    progress: Progress,
) -> tuple[Manifest, Exported]:
    """Return the manifest and the result with the variants added."""
    saving = functools.partial(save, draft)
    added = add_variants(draft, manifest, reference, variants, options, saving, progress)
    return added.manifest, dataclasses.replace(
        result, variants=added.rows, quality=added.quality, searches=added.searches
    )


def _calibrated(
    draft: Path, manifest: Manifest, runtime: Runtime, texts: Sequence[str]
) -> Manifest:
    """Write the int8 ranges for whole vectors and each number of dimensions trained for."""
    widths = (manifest.architecture.pooled_dim, *manifest.dimensions)
    return dataclasses.replace(manifest, ranges=write_ranges(draft, runtime, texts, widths))


def _calibrating(calibration: Path | None, origin: Origin) -> Sequence[str] | None:
    """Return the texts to calibrate by, if any.

    Raises:
        ValueError: they are invalid, or there is no tokenizer to read them.
    """
    texts = None if calibration is None else read_texts(calibration)
    if texts is not None and origin.tokenizer is None:
        raise ValueError("--calibration needs a tokenizer; a bundle for token ids alone has none")
    return texts


def _write_report(draft: Path, result: Exported) -> None:
    report = {
        "about": (
            "error of headlight.runtime against PyTorch; tokens and hidden: over max(1, "
            "RMS of the row)"
        ),
        "pytorch_fp32_against_float64": result.own_error,
        "pytorch_fp32_against_transformers": result.transformers.to_json(),
        **({"pytorch_fp32_against_owner": dict(result.owner)} if result.owner else {}),
        "rows": [dataclasses.asdict(row) for row in (*result.rows, *result.variants)],
        "quality": [quality.to_json() for quality in result.quality],
        "layer_searches": [
            {"provider": provider, "precision": precision, **search.to_json()}
            for (provider, precision), search in result.searches.items()
        ],
    }
    (draft / PARITY).write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
