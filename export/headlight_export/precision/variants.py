"""Other precisions and providers of a bundle, written, measured and given tolerances.

They are written into the draft, and the serving code measures them there.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx

from headlight.errors import BundleError, EngineError
from headlight.runtime.bundle.manifest import Graph, Manifest, Tolerance
from headlight.runtime.parity.golden_inputs import OUTPUTS, distance, load_golden
from headlight.runtime.providers.provider_choice import PROVIDERS, choose_provider
from headlight.runtime.runtime import Runtime
from headlight_export.parity.parity_report import Row, measure
from headlight_export.parity.reference import Reference
from headlight_export.precision.conversion import PRECISIONS, convert
from headlight_export.precision.half_rounding import in_half
from headlight_export.precision.quality import Quality, broken, compare, label
from headlight_export.precision.sample_texts import Passages, passages
from headlight_export.progress import Progress, silent
from headlight_export.writer.golden_answers import extend_golden
from headlight_export.writer.weight_file import share_weights
from headlight_model.encoder import Encoder

Variant = tuple[str, str]  # a provider and a precision
CPU, OPENVINO, CUDA = "cpu", "openvino", "cuda"
# Precisions whose graphs CUDA has kernels for. bf16 graphs hold bfloat16 weights and compute in
# float32, as everywhere.
ON_CUDA = ("bf16", "fp16")
SLACK = 2.0  # times the worst measured distance: another processor adds up in another order
PROVISIONAL = 1e9  # tolerance before measurement
Save = Callable[[Manifest], Manifest]


def known_variants(
    precisions: Iterable[str], providers: Iterable[str], texts: Path | None = None
) -> list[Variant]:
    """Return the variants to measure beside fp32 on CPUs, each once.

    They are checked before the slow tracing.

    Args:
        precisions, providers: as given.
        texts: the file to judge them by.

    Raises:
        ValueError: the precision or provider does not exist (the message lists the existing ones),
            or there are texts but no variant.
        BundleError: a provider is not installed.
        FileNotFoundError: there is no file of texts.
    """
    found: dict[Variant, None] = {}
    for precision in precisions:
        if precision not in ("fp32", *PRECISIONS):
            raise ValueError(
                f"--precision {precision}: choose one of {', '.join(PRECISIONS)}; "
                "fp32 is always written"
            )
        found[CPU, precision] = None
    for provider in providers:
        if provider not in PROVIDERS:
            raise ValueError(
                f"--provider {provider}: choose one of {', '.join(PROVIDERS)}; "
                f"{CPU} is always measured"
            )
        found |= dict.fromkeys((provider, precision) for precision in usable_precisions(provider))
    found.pop((CPU, "fp32"), None)
    if texts is not None and not found:
        raise ValueError("--texts measures precisions; add --precision, or leave --texts out")
    if texts is not None and not texts.is_file():
        raise FileNotFoundError(f"{texts} is not a file; --texts takes a file with one text a line")
    return list(found)


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


def add_variants(
    draft: Path,
    manifest: Manifest,
    reference: Reference,
    variants: Sequence[Variant],
    texts: Path | None,
    save: Save,
    progress: Progress = silent,
) -> tuple[Manifest, tuple[Row, ...], tuple[Quality, ...]]:
    """Write the variants' graphs, measure them and declare their tolerances.

    Args:
        draft: a bundle of fp32 graphs, proven.
        manifest: its manifest.
        reference: PyTorch.
        variants: pairs of a provider and a precision.
        texts: a file of a text a line to judge by; None: see passages.
        save: writes a manifest into the draft, and returns it with all files listed.
        progress: called with each step, before it begins.

    Returns:
        The manifest, saved; a row for each case and output of each variant; the quality of each,
        after that of fp32 on the CPU.

    Raises:
        ValueError: the texts are invalid, or a variant does not suit the model.
        BundleError: fp32 is outside its tolerance on one of the texts.
    """
    progress("reading texts to judge by")
    config = reference.encoder.config
    sample = passages(config, draft / manifest.tokenizer if manifest.tokenizer else None, texts)
    extend_golden(draft / manifest.golden, reference, sample)
    written = [precision for provider, precision in variants if provider == CPU]
    exact_graphs = [graph for graph in manifest.graphs if graph.precision == "fp32"]
    graphs = [
        graph
        for precision in written
        for graph in write_precision(draft, exact_graphs, precision, reference.encoder)
    ]
    provisional = [
        _tolerance(*variant, dict.fromkeys(OUTPUTS, PROVISIONAL)) for variant in variants
    ]
    declared = manifest.tolerances
    # Provisional tolerances come before those of any provider, and are found first.
    manifest = save(
        dataclasses.replace(
            manifest, graphs=(*manifest.graphs, *graphs), tolerances=(*provisional, *declared)
        )
    )
    exact = Runtime(draft, provider=CPU)
    exact.check_golden()  # the golden inputs now include the texts
    quality, rows, tolerances = [compare(exact, exact, sample)], [], list(declared)
    for provider, precision in variants:
        progress(f"measuring {precision} on {provider}")
        found, measured, limits = _judge(
            exact, Runtime(draft, provider=provider, precision=precision), reference, sample
        )
        quality.append(found)
        rows += [dataclasses.replace(row, tolerance=limits[row.output]) for row in measured]
        tolerances = _declare(tolerances, provider, precision, limits)
    entries = tuple(found.entry for found in quality)
    manifest = save(dataclasses.replace(manifest, tolerances=tuple(tolerances), quality=entries))
    return manifest, tuple(rows), tuple(quality)


def _declare(
    tolerances: Sequence[Tolerance], provider: str, precision: str, limits: Mapping[str, float]
) -> list[Tolerance]:
    """Return the tolerances with that of a variant. Other providers are allowed the same."""
    declared = {(each.provider, each.precision): each for each in tolerances}
    declared[provider, precision] = _tolerance(provider, precision, limits)
    other = declared.get(("*", precision))
    widest = {name: max(limit, other.of(name) if other else 0.0) for name, limit in limits.items()}
    declared["*", precision] = _tolerance("*", precision, widest)
    return list(declared.values())


def write_precision(
    draft: Path, exact: Sequence[Graph], precision: str, encoder: Encoder
) -> list[Graph]:
    """Write the graphs of one precision beside those of fp32, with one file of weights.

    Raises:
        ValueError: a weight is beyond the range of the precision.
    """
    parameters = {f"encoder.{name}" for name, _ in encoder.named_parameters()}
    models = {graph.role: onnx.load(draft / graph.file) for graph in exact}
    for model in models.values():
        try:
            convert(model, precision, parameters)
        except ValueError as error:
            raise broken(label(CPU, precision), f"cannot hold the weights: {error}") from error
    weights = f"weights.{precision}.bin"
    share_weights(models.values(), draft / weights)
    written = []
    for graph in exact:
        file = f"{graph.role}.{precision}.onnx"
        onnx.save(models[graph.role], draft / file)
        providers = (CPU, CUDA) if precision in ON_CUDA else (CPU,)
        written.append(
            dataclasses.replace(
                graph, precision=precision, file=file, weights=(weights,), providers=providers
            )
        )
    return written


def _judge(
    exact: Runtime, variant: Runtime, reference: Reference, sample: Passages
) -> tuple[Quality, list[Row], dict[str, float]]:
    """Return a variant's quality, its rows of the parity report, and the tolerance of each output.

    The tolerance is SLACK times the worst distance, and never less than that of fp32. The worst is
    of the report, the texts and the golden inputs, so it holds on all of them. The report's random
    ids are harder than texts. fp32 itself gets the same tolerance on every provider.
    """
    precision, name = variant.precision, label(variant.provider, variant.precision)
    quality = compare(exact, variant, sample)
    try:
        rows = measure(variant, reference)
        golden = variant.self_test.errors(load_golden(variant.bundle))
        errors = [(row.output, row.max_error) for row in rows] + [
            (found.output, found.error) for found in golden
        ]
    except (BundleError, EngineError):
        raise broken(name, "gives numbers that are not finite") from None
    errors += quality.max_error.items()
    if precision == "fp16":
        errors += _on_a_device(reference, sample).items()
    worst = {output: max(error for name, error in errors if name == output) for output in OUTPUTS}
    if not all(np.isfinite(list(worst.values()))):
        raise broken(name, "leaves the range of its numbers")
    least = exact.bundle.manifest.tolerance(exact.provider, exact.precision)
    if precision == exact.precision:
        for output, error in worst.items():
            if error > least.of(output):
                raise broken(
                    name, f"is off by {error:.2g} in {output}, tolerance {least.of(output):.2g}"
                )
        return quality, rows, {output: least.of(output) for output in OUTPUTS}
    return (
        quality,
        rows,
        {name: max(SLACK * error, least.of(name)) for name, error in worst.items()},
    )


def _on_a_device(reference: Reference, sample: Passages) -> dict[str, float]:
    """Return the distance of float16 products from PyTorch's float32, by output.

    See `headlight_export.precision.half_rounding`.
    """
    rounded = Reference(in_half(reference.encoder))
    worst = dict.fromkeys(OUTPUTS, 0.0)
    for text in sample.items[:: max(1, len(sample.items) // 16)]:
        exact = reference.outputs(text.ids, text.segments)
        for name, value in rounded.outputs(text.ids, text.segments).items():
            worst[name] = max(worst[name], distance(name, value, exact[name]))
    return worst


def _tolerance(provider: str, precision: str, limits: Mapping[str, float]) -> Tolerance:
    return Tolerance(provider=provider, precision=precision, **limits)
