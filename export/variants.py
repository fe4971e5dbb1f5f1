"""Other precisions beside fp32: written into a draft of a bundle, measured there by the code that serves, and given tolerances."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from export.passages import Passages, passages
from export.precision import PRECISIONS, convert
from export.progress import Progress, silent
from export.quality import Quality, broken, compare
from export.reference import Reference
from export.report import Row, measure
from export.rounding import in_half
from export.weights import share_weights
from headlight.errors import BundleError, EngineError
from headlight.runtime.manifest import Graph, Manifest, Tolerance
from headlight.runtime.parity import OUTPUTS, distance, golden_errors
from headlight.runtime.runtime import Runtime

SLACK = 2.0  # times the worst that was measured: another processor adds up in another order
PROVISIONAL = 1e9  # until it is measured
GOLDEN_TEXTS, GOLDEN_LONGEST = 4, 48  # texts added to the golden inputs; tokens
Save = Callable[[Manifest], Manifest]


def known_precisions(asked: Iterable[str], texts: Path | None = None) -> tuple[str, ...]:
    """Each precision once, without fp32, which is always there. Said before anything is traced, which takes long.

    Args:
        asked: as given.
        texts: the file to judge them by.

    Raises:
        ValueError: there is no such precision (the message lists those there are), or none to judge by the texts.
        FileNotFoundError: there is no file of texts.
    """
    wanted = dict.fromkeys(asked)
    wanted.pop("fp32", None)
    for precision in wanted:
        if precision not in PRECISIONS:
            raise ValueError(f"--precision {precision}: choose of {', '.join(PRECISIONS)}; fp32 is always written")
    if texts is not None and not wanted:
        raise ValueError("--texts is what precisions are judged by; name one with --precision, or leave it out")
    if texts is not None and not texts.is_file():
        raise FileNotFoundError(f"{texts} is no file; --texts takes one of a text a line")
    return tuple(wanted)


def add_variants(
    draft: Path,
    manifest: Manifest,
    reference: Reference,
    precisions: Sequence[str],
    texts: Path | None,
    save: Save,
    progress: Progress = silent,
) -> tuple[Manifest, tuple[Row, ...], tuple[Quality, ...]]:
    """Write, measure and declare precisions.

    Args:
        draft: a bundle of fp32 graphs, proven.
        manifest: its manifest.
        reference: PyTorch.
        precisions: of PRECISIONS.
        texts: a file of a text a line to judge by; None: see passages.
        save: writes a manifest into the draft, and returns it with all files listed.
        progress: told each step, before it begins.

    Returns:
        The manifest, saved; a row for each case and output of each new precision; and the quality of each, fp32 first.

    Raises:
        ValueError: the texts are none, or a precision does not suit the model.
        BundleError: fp32 is outside its tolerance on one of the texts.
    """
    progress("reading texts to judge precisions by")
    config = reference.encoder.config
    sample = passages(config, draft / manifest.tokenizer if manifest.tokenizer else None, texts)
    _extend_golden(draft / manifest.golden, reference, sample)
    provider = manifest.graphs[0].providers[0]
    graphs = [graph for precision in precisions for graph in _write(draft, manifest.graphs, precision, reference)]
    provisional = [_tolerance(provider, precision, dict.fromkeys(OUTPUTS, PROVISIONAL)) for precision in precisions]
    declared = (*manifest.tolerances, *provisional)
    manifest = save(dataclasses.replace(manifest, graphs=(*manifest.graphs, *graphs), tolerances=declared))
    exact = Runtime(draft, provider=provider)
    exact.check_golden()  # the texts are new to it
    quality, rows, tolerances = [compare(exact, exact, sample)], [], [*declared[: -len(provisional)]]
    for precision in precisions:
        progress(f"measuring {precision}")
        found, measured, limits = _judge(
            exact, Runtime(draft, provider=provider, precision=precision), reference, sample
        )
        quality.append(found)
        rows += [dataclasses.replace(row, tolerance=limits[row.output]) for row in measured]
        tolerances += [_tolerance(name, precision, limits) for name in (provider, "*")]
    entries = tuple(found.entry for found in quality)
    manifest = save(dataclasses.replace(manifest, tolerances=tuple(tolerances), quality=entries))
    return manifest, tuple(rows), tuple(quality)


def _write(draft: Path, exact: Sequence[Graph], precision: str, reference: Reference) -> list[Graph]:
    """The graphs of one precision, and one file of their weights."""
    parameters = {f"encoder.{name}" for name, _ in reference.encoder.named_parameters()}
    models = {graph.role: onnx.load(draft / graph.file) for graph in exact}
    for model in models.values():
        try:
            convert(model, precision, parameters)
        except ValueError as error:
            raise broken(precision, f"cannot hold the weights: {error}") from error
    weights = f"weights.{precision}.bin"
    share_weights(models.values(), draft / weights)
    written = []
    for graph in exact:
        file = f"{graph.role}.{precision}.onnx"
        onnx.save(models[graph.role], draft / file)
        written.append(dataclasses.replace(graph, precision=precision, file=file, weights=(weights,)))
    return written


def _judge(
    exact: Runtime, variant: Runtime, reference: Reference, sample: Passages
) -> tuple[Quality, list[Row], dict[str, float]]:
    """The quality of a precision, all cases of the parity report in it, and the tolerance to declare for each output.

    That is SLACK times the worst of the report (random ids, which are harder on it than texts are), of real texts and of the
    golden inputs, so that what is declared holds wherever it was tried; never less than fp32 has.
    """
    precision = variant.precision
    quality = compare(exact, variant, sample)
    try:
        rows = measure(variant, reference)
        golden = golden_errors(variant.bundle, variant.engine, variant.provider, precision)
        errors = [(row.output, row.max_error) for row in rows] + [(name, error) for _, name, error in golden]
    except (BundleError, EngineError):
        raise broken(precision, "gives numbers that are not finite") from None
    errors += quality.max_error.items()
    if precision == "fp16":
        errors += _on_a_device(reference, sample).items()
    worst = {output: max(error for name, error in errors if name == output) for output in OUTPUTS}
    if not all(np.isfinite(list(worst.values()))):
        raise broken(precision, "leaves the range of its numbers")
    least = exact.bundle.manifest.tolerance(exact.provider, exact.precision)
    return quality, rows, {name: max(SLACK * error, least.of(name)) for name, error in worst.items()}


def _on_a_device(reference: Reference, sample: Passages) -> dict[str, float]:
    """How far float16 products are from PyTorch's float32 where they are computed as such, by output. See export.rounding."""
    rounded = Reference(in_half(reference.encoder))
    worst = dict.fromkeys(OUTPUTS, 0.0)
    for text in sample.items[:: max(1, len(sample.items) // 16)]:
        exact = reference.outputs(text.ids, text.segments)
        for name, value in rounded.outputs(text.ids, text.segments).items():
            worst[name] = max(worst[name], distance(name, value, exact[name]))
    return worst


def _extend_golden(file: Path, reference: Reference, sample: Passages) -> None:
    """Add a few of the texts, and PyTorch's answers, to the golden inputs, which are random ids."""
    with np.load(file) as golden:
        arrays: dict[str, Any] = dict(golden)
    first = sum(name.startswith("ids_") for name in arrays)
    short = [text for text in sample.items if len(text.ids) <= GOLDEN_LONGEST] or list(sample.items[:1])
    for i, text in enumerate(short[:: max(1, len(short) // GOLDEN_TEXTS)][:GOLDEN_TEXTS], first):
        arrays[f"ids_{i}"] = text.ids
        if text.segments is not None:
            arrays[f"segments_{i}"] = text.segments
        arrays |= {f"{name}_{i}": value for name, value in reference.outputs(text.ids, text.segments).items()}
    np.savez(file, **arrays)


def _tolerance(provider: str, precision: str, limits: Mapping[str, float]) -> Tolerance:
    return Tolerance(provider=provider, precision=precision, **limits)
