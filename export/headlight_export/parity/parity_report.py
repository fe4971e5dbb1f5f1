"""The parity report: `headlight.runtime` against PyTorch, case by case."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from headlight.description import Parity
from headlight.errors import NotFinite
from headlight.outputs.output import Output
from headlight.outputs.registry import OUTPUTS
from headlight.outputs.spans import SpanChoice, SpanRows
from headlight.outputs.vector_forms import AS_THEY_ARE, unit_length
from headlight.runtime.encode_items import EncodeItem, Selection, everything
from headlight.runtime.parity.golden_inputs import (
    distance,
    distances,
    form_of,
)
from headlight.runtime.runtime import Runtime
from headlight.runtime.values import Ids
from headlight.span_vectors import SpansSpec
from headlight_export.parity.reference import (
    WHOLE,
    Masks,
    Reference,
    lengths_to_try,
    longest_to_try,
    masks_to_try,
    random_head_mask,
    random_ids,
    random_segments,
)
from headlight_export.progress import Progress, silent
from headlight_model.config import EncoderConfig

SEED = 20240
WHOLE_SPAN = SpanChoice(SpansSpec(kind="sentences"), AS_THEY_ARE)
FEW = 48  # tokens, of texts for forms and masks


@dataclasses.dataclass(frozen=True)
class Case:
    """One batch of texts to compare, of the given lengths.

    `weights`: attention and hidden states are compared too.
    """

    name: str
    lengths: tuple[int, ...]
    weights: bool = True
    removed_heads: bool = False  # a random head mask, which `attend` alone takes
    form: tuple[str, str] | None = None  # an output that alone is compared, and its form
    masks: str = ""  # of masks_to_try: the ignored tokens of each text


class _Text(NamedTuple):
    """One text of a case."""

    ids: Ids
    segments: Ids | None
    masks: Masks


@dataclasses.dataclass(frozen=True)
class Row:
    """The result of one case for one output."""

    case: str
    lengths: tuple[int, ...]
    padding: int  # padded positions in the batch
    output: str
    provider: str
    precision: str
    max_error: float
    tolerance: float

    @property
    def passed(self) -> bool:
        return self.max_error <= self.tolerance


def cases(config: EncoderConfig) -> Iterator[Case]:
    """Yield the cases of the report.

    Texts are alone and in batches, equal and ragged, up to the longest accepted. Heads and tokens
    are left out, and attention is compared in its forms.
    """
    lengths = tuple(lengths_to_try(config))
    for length in lengths:
        yield Case("alone", (length,))
    longest = lengths[-1]
    trained = min(config.trained_length, longest)
    yield Case("equal lengths", (trained,) * 4)
    yield Case("ragged", tuple(min(n, longest) for n in (1, trained, 7, 2 * trained, 2)))
    yield Case("ragged, many", tuple(1 + (i * 7) % min(trained, 48) for i in range(48)))
    yield Case("heads removed", (trained, min(7, longest)), removed_heads=True)
    few = (min(trained, FEW), min(7, longest))
    for output in OUTPUTS.values():
        for name in output.forms:
            yield Case(name, few, form=(output.name, name))
    for name in masks_to_try(config, min(few)):
        yield Case(name, few, masks=name)
    if longest_to_try(config) > longest:
        yield Case("longest", (longest_to_try(config),), weights=False)


def measure(runtime: Runtime, reference: Reference, progress: Progress = silent) -> list[Row]:
    """Run every case through the runtime's engine as one batch; compare each text with PyTorch.

    PyTorch encodes each text alone.

    Raises:
        NotFinite: the runtime's numbers are not finite; the message names the case.
    """
    rows = list[Row]()
    for case in cases(reference.encoder.config):
        progress(f"parity, {case.name} {_lengths(case.lengths)}")
        try:
            errors = _measure(case, runtime, reference)
        except NotFinite as error:
            raise NotFinite(
                f"{runtime.precision} on {runtime.provider} gives numbers that are not finite, or "
                f"zeros ({case.name}, {_lengths(case.lengths)})"
            ) from error
        rows += [_row(case, output, error, runtime) for output, error in errors.items()]
    span = Case("whole as a span", (min(reference.encoder.config.trained_length, FEW),))
    return [*rows, _row(span, "pooled", _span_error(span, runtime, reference), runtime)]


def _measure(case: Case, runtime: Runtime, reference: Reference) -> dict[str, float]:
    """Return the worst distance of each output.

    If both `embed` and `attend` give an output, both must agree with PyTorch.
    """
    config = reference.encoder.config
    head_mask = random_head_mask(config, SEED) if case.removed_heads else None
    texts = _texts(case, config)
    if case.form:
        output, name = case.form
        return {output: _form_error(OUTPUTS[output], name, texts, runtime, reference)}
    architecture = runtime.bundle.manifest.architecture
    selections = [] if case.removed_heads else [everything(architecture, "embed")]
    selections += [everything(architecture)] if case.weights else []
    batches = [
        runtime.engine.run([_item(text, selection)._replace(head_mask=head_mask) for text in texts])
        for selection in selections
    ]
    worst = dict[str, float]()
    for i, text in enumerate(texts):
        expected = reference.outputs(
            text.ids, text.segments, head_mask, weights=case.weights, masks=text.masks
        )
        for batch in batches:
            for name, error in distances(batch[i], expected).items():
                worst[name] = max(worst.get(name, 0.0), error)
    return worst


def _form_error(
    output: Output, name: str, texts: Sequence[_Text], runtime: Runtime, reference: Reference
) -> float:
    """Return the worst distance of an output in a form from values derived from PyTorch's."""
    selection = form_of(output, name, runtime.bundle.manifest.architecture)
    results = runtime.engine.run([_item(text, selection) for text in texts])
    answers = (reference.outputs(text.ids, text.segments)[output.name] for text in texts)
    pairs = zip(results, answers, strict=True)
    return max(output.form_error(name, result, answer) for result, answer in pairs)


def _span_error(case: Case, runtime: Runtime, reference: Reference) -> float:
    """Return the distance of the vector of a span of a whole text, by the mean of its tokens."""
    config = reference.encoder.config
    [text] = _texts(case, config)
    n, zero = len(text.ids), np.zeros(1, dtype=np.int64)
    item = _item(text, Selection(pooled=False, spans=WHOLE_SPAN))
    rows = SpanRows(np.arange(n), zero, zero + n, zero, 1)
    [result] = runtime.engine.run([item.placed(spans=rows)])
    vectors = runtime.engine.head((result["spans"] / n).astype(np.float32))
    tokens = reference.outputs(text.ids, text.segments, weights=False)["tokens"]
    expected = reference.head(tokens.mean(axis=0, dtype=np.float64)[None].astype(np.float32))
    if config.normalize:
        vectors, expected = unit_length(vectors), unit_length(expected)
    return distance("pooled", vectors, expected)


def _texts(case: Case, config: EncoderConfig) -> list[_Text]:
    """Return random texts."""
    return [
        _Text(
            random_ids(config, n, SEED + i),
            random_segments(config, n, SEED + i),
            masks_to_try(config, n)[case.masks] if case.masks else WHOLE,
        )
        for i, n in enumerate(case.lengths)
    ]


def _item(text: _Text, selection: Selection) -> EncodeItem:
    return EncodeItem(
        text.ids,
        selection,
        text.segments,
        occluded=() if text.masks.occluded is None else (text.masks.occluded,),
        left_out=text.masks.left_out,
    )


def _row(case: Case, output: str, error: float, runtime: Runtime) -> Row:
    provider, precision = runtime.provider, runtime.precision
    limits = runtime.bundle.manifest.tolerance(provider, precision).limits
    padding = max(case.lengths) * len(case.lengths) - sum(case.lengths)
    return Row(
        case=case.name,
        lengths=case.lengths,
        padding=padding,
        output=output,
        provider=provider,
        precision=precision,
        max_error=error,
        tolerance=limits[OUTPUTS[output].tolerance],
    )


def summary(rows: Sequence[Row]) -> tuple[Parity, ...]:
    """Return the worst row of each output, provider and precision, for the manifest."""
    worst: dict[tuple[str, str, str], Row] = {}
    for row in rows:
        key = (row.output, row.provider, row.precision)
        if key not in worst or row.max_error > worst[key].max_error:
            worst[key] = row
    return tuple(
        Parity(output=o, provider=p, precision=q, max_error=row.max_error, tolerance=row.tolerance)
        for (o, p, q), row in worst.items()
    )


def table(rows: Sequence[Row], own_error: Mapping[str, float]) -> str:
    """Return the report as text: a line per case, a column per output."""
    limits = {row.output: row.tolerance for row in rows}
    names = [name for name in OUTPUTS if name in limits]
    lines = [
        f"{'batch':<16}{'lengths':<22}{'padding':>8}" + "".join(f"{name:>12}" for name in names)
    ]
    grouped: dict[tuple[str, tuple[int, ...]], dict[str, Row]] = {}
    for row in rows:
        grouped.setdefault((row.case, row.lengths), {})[row.output] = row
    for (case, lengths), outputs in grouped.items():
        shown = _lengths(lengths)
        padding = next(iter(outputs.values())).padding
        cells = "".join(f"{_cell(outputs.get(name)):>12}" for name in names)
        lines.append(f"{case:<16}{shown:<22}{padding:>8}{cells}")
    lines.append(f"{'tolerance':<46}" + "".join(f"{limits[name]:>12.1e}" for name in names))
    lines.append(
        f"{'PyTorch fp32 against its float64':<46}"
        + "".join(f"{own_error[OUTPUTS[name].tolerance]:>12.1e}" for name in names)
    )
    return "\n".join(lines)


def _lengths(lengths: tuple[int, ...]) -> str:
    if len(lengths) == 1:
        return str(lengths[0])
    if len(set(lengths)) == 1:
        return f"{len(lengths)} x {lengths[0]}"
    return (
        ",".join(map(str, lengths))
        if len(lengths) < 6
        else f"{len(lengths)} of {min(lengths)}..{max(lengths)}"
    )


def _cell(row: Row | None) -> str:
    if row is None:
        return "-"
    return f"{row.max_error:.1e}" + ("" if row.passed else " !")
