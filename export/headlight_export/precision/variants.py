"""Other precisions and providers of a bundle, written, measured and given tolerances.

They are written into the draft, and the serving code measures them there.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from headlight.errors import BundleError, EngineError
from headlight.runtime.bundle.manifest import Manifest, Tolerance
from headlight.runtime.engine.batches import BATCH_TOKENS
from headlight.runtime.parity.golden_inputs import load_golden
from headlight.runtime.runtime import Runtime
from headlight_export.parity.parity_report import Row, measure
from headlight_export.parity.reference import Reference
from headlight_export.precision.graph_files import CPU, CUDA
from headlight_export.precision.half_products import measure_half
from headlight_export.precision.layer_search import Search
from headlight_export.precision.quality import NOT_FINITE, HalfQuality, Quality, broken, compare
from headlight_export.precision.sample_texts import Passages, passages
from headlight_export.precision.variant_graphs import STATIC, Save, Variant, VariantGraphs
from headlight_export.precision.variant_options import TextOptions
from headlight_export.progress import Progress, silent
from headlight_export.writer.golden_answers import extend_golden

SLACK = 2.0  # times the worst measured distance: another processor adds up in another order


@dataclasses.dataclass(frozen=True)
class Added:
    """The manifest, saved; rows and quality of each variant; searches of layers, by variant."""

    manifest: Manifest
    rows: tuple[Row, ...]
    quality: tuple[Quality, ...]
    searches: dict[Variant, Search]


class _Measured(NamedTuple):
    rows: tuple[Row, ...]
    quality: tuple[Quality, ...]
    tolerances: tuple[Tolerance, ...]


def add_variants(
    draft: Path,
    manifest: Manifest,
    reference: Reference,
    variants: Sequence[Variant],
    options: TextOptions,
    save: Save,
    progress: Progress = silent,
) -> Added:
    """Write the variants' graphs, measure them and declare their tolerances.

    Args:
        draft: a bundle of fp32 graphs, proven.
        manifest: its manifest.
        reference: PyTorch.
        variants: pairs of a provider and a precision.
        options: texts to judge by, to calibrate on, and the target of a search of layers.
        save: writes a manifest into the draft, and returns it with all files listed.
        progress: called with each step, before it begins.

    Returns:
        The rows have one for each case and output of each variant. The quality of fp32 on the CPU
        comes before those of the variants.

    Raises:
        ValueError: the texts are invalid, a variant does not suit the model, or the target is out
            of reach.
        BundleError: fp32 is outside its tolerance on one of the texts.
    """
    progress("reading texts to judge by")
    tokenizer = draft / manifest.tokenizer if manifest.tokenizer else None
    sample = passages(reference.encoder.config, tokenizer, options.report)
    half = None
    if any(precision == "fp16" for _, precision in variants):
        progress("measuring products in float16")
        narrow = manifest.fused(CUDA, "fp32")  # and so in fp16
        half = measure_half(reference, sample, manifest.outputs, attention=narrow)
    extend_golden(draft / manifest.golden, reference, sample)
    graphs = VariantGraphs(draft, manifest, variants, reference.encoder)
    if sample.real:
        graphs.text_sets.append(sample.described("report"))
    if STATIC in variants:
        progress("calibrating int8 for OpenVINO")
        graphs.calibrate(options.calibration)
    declared, manifest = manifest.tolerances, graphs.write(save)
    searches = dict[Variant, Search]()
    if options.keep_nearest is not None:
        searches = graphs.search(options.keep_nearest, save, progress)
        manifest = graphs.save(save)
    measured = _measure(draft, variants, reference, sample, half, declared, progress)
    entries = tuple(each.entry for each in measured.quality)
    manifest = save(dataclasses.replace(manifest, tolerances=measured.tolerances, quality=entries))
    return Added(manifest, measured.rows, measured.quality, searches)


def _measure(
    draft: Path,
    variants: Sequence[Variant],
    reference: Reference,
    sample: Passages,
    half: HalfQuality | None,
    declared: Sequence[Tolerance],
    progress: Progress,
) -> _Measured:
    """Measure the written variants, and add their tolerances to those declared for fp32."""
    exact = Runtime(draft, provider=CPU, streams=1, self_test=False)
    exact.check_golden()  # the golden inputs now include the texts
    quality, rows, tolerances = [compare(exact, exact, sample)], list[Row](), list(declared)
    for provider, precision in variants:
        progress(f"measuring {precision} on {provider}")
        # Its tolerance is not known yet.
        variant = Runtime(
            draft,
            provider=provider,
            precision=precision,
            streams=1,
            batch_tokens=BATCH_TOKENS,
            round_lengths=1,
            self_test=False,
        )
        verdicts, measured, limits = _judge(exact, variant, reference, sample, half)
        quality.append(verdicts)
        rows += [dataclasses.replace(row, tolerance=limits[row.output]) for row in measured]
        tolerances = _declare(tolerances, provider, precision, limits)
    return _Measured(tuple(rows), tuple(quality), tuple(tolerances))


def _declare(
    tolerances: Sequence[Tolerance], provider: str, precision: str, limits: Mapping[str, float]
) -> list[Tolerance]:
    """Return the tolerances with that of a variant. Other providers are allowed the same."""
    declared = {(each.provider, each.precision): each for each in tolerances}
    declared[provider, precision] = _tolerance(provider, precision, limits)
    other = declared.get(("*", precision))
    floors = other.limits if other else dict.fromkeys(limits, 0.0)
    widest = {name: max(limit, floors[name]) for name, limit in limits.items()}
    declared["*", precision] = _tolerance("*", precision, widest)
    return list(declared.values())


def _judge(
    exact: Runtime,
    variant: Runtime,
    reference: Reference,
    sample: Passages,
    half: HalfQuality | None,
) -> tuple[Quality, list[Row], dict[str, float]]:
    """Return a variant's quality, its rows of the parity report, and the tolerance of each output.

    The tolerance is SLACK times the worst distance, and never less than that of fp32. The worst is
    of the report, the texts and the golden inputs, so it holds on all of them. The report's random
    ids are harder than texts. fp32 itself gets the same tolerance on every provider.
    """
    provider, precision = variant.provider, variant.precision
    quality = compare(exact, variant, sample)
    try:
        rows = measure(variant, reference)
        golden = variant.self_test.errors(load_golden(variant.bundle))
        errors = [(row.output, row.max_error) for row in rows] + [
            (each.output, each.error) for each in golden
        ]
    except (BundleError, EngineError):
        raise broken(provider, precision, NOT_FINITE) from None
    errors += quality.max_error.items()
    if precision == "fp16" and half is not None:
        quality = dataclasses.replace(quality, half=half)
        errors += half.errors.items()
    outputs = quality.max_error.keys()
    worst = {output: max(error for name, error in errors if name == output) for output in outputs}
    if not all(np.isfinite(list(worst.values()))):
        raise broken(provider, precision, "leaves the range of its numbers")
    least = exact.bundle.manifest.tolerance(exact.provider, exact.precision)
    if precision == exact.precision:
        for output, error in worst.items():
            if error > least.limits[output]:
                raise broken(
                    provider,
                    precision,
                    f"is off by {error:.2g} in {output}, tolerance {least.limits[output]:.2g}",
                )
        return quality, rows, {output: least.limits[output] for output in outputs}
    return (
        quality,
        rows,
        {name: max(SLACK * error, least.limits[name]) for name, error in worst.items()},
    )


def _tolerance(provider: str, precision: str, limits: Mapping[str, float]) -> Tolerance:
    return Tolerance(provider=provider, precision=precision, limits=limits)
