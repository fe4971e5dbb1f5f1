"""The parity report: `headlight.runtime` against PyTorch, case by case."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from headlight.description import Parity
from headlight.runtime.encode_items import EncodeItem, Selection, everything
from headlight.runtime.parity.golden_inputs import (
    FORMS,
    OUTPUTS,
    distance,
    distances,
    form,
    form_error,
)
from headlight.runtime.runtime import Runtime
from headlight.runtime.spans.span_choice import SpanChoice
from headlight.runtime.spans.span_sums import SpanRows
from headlight.runtime.values import Ids
from headlight.runtime.vectors.vector_forms import AS_THEY_ARE, unit_length
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
    form: str = ""  # of FORMS: attention alone is compared, in this form
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
    for name in FORMS:
        yield Case(name, few, form=name)
    for name in masks_to_try(config, min(few)):
        yield Case(name, few, masks=name)
    if longest_to_try(config) > longest:
        yield Case("longest", (longest_to_try(config),), weights=False)


def measure(runtime: Runtime, reference: Reference, progress: Progress = silent) -> list[Row]:
    """Run every case through the runtime's engine as one batch; compare each text with PyTorch.

    PyTorch encodes each text alone.
    """
    rows = []
    for case in cases(reference.encoder.config):
        progress(f"parity, {case.name} {_lengths(case.lengths)}")
        for output, error in _measure(case, runtime, reference).items():
            rows.append(_row(case, output, error, runtime))
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
        return {"attention": _form_error(case.form, texts, runtime, reference)}
    selections = [] if case.removed_heads else [Selection(tokens=True)]
    selections += [everything(runtime.bundle.manifest.architecture)] if case.weights else []
    batches = [
        runtime.engine.run([_item(text, selection)._replace(head_mask=head_mask) for text in texts])
        for selection in selections
    ]
    worst = dict.fromkeys(OUTPUTS if case.weights else ("pooled", "tokens"), 0.0)
    for i, text in enumerate(texts):
        expected = reference.outputs(
            text.ids, text.segments, head_mask, weights=case.weights, masks=text.masks
        )
        for batch in batches:
            have = {
                name: value
                for name, value in expected.items()
                if getattr(batch[i], name) is not None
            }
            for name, error in distances(batch[i], have).items():
                worst[name] = max(worst[name], error)
    return worst


def _form_error(name: str, texts: Sequence[_Text], runtime: Runtime, reference: Reference) -> float:
    """Return the worst distance of attention in a form from values derived from PyTorch's maps."""
    selection = form(name, runtime.bundle.manifest.architecture)
    results = runtime.engine.run([_item(text, selection) for text in texts])
    maps = (reference.outputs(text.ids, text.segments)["attention"] for text in texts)
    return max(form_error(name, result, whole) for result, whole in zip(results, maps, strict=True))


def _span_error(case: Case, runtime: Runtime, reference: Reference) -> float:
    """Return the distance of the vector of a span of a whole text, by the mean of its tokens."""
    config = reference.encoder.config
    [text] = _texts(case, config)
    n, zero = len(text.ids), np.zeros(1, dtype=np.int64)
    item = _item(text, Selection(pooled=False, spans=WHOLE_SPAN))
    rows = SpanRows(np.arange(n), zero, zero + n, zero, 1)
    [result] = runtime.engine.run([item._replace(spans=rows)])
    assert result.spans is not None
    found = runtime.engine.head((result.spans / n).astype(np.float32))
    tokens = reference.outputs(text.ids, text.segments, weights=False)["tokens"]
    expected = reference.head(tokens.mean(axis=0, dtype=np.float64)[None].astype(np.float32))
    if config.normalize:
        found, expected = unit_length(found), unit_length(expected)
    return distance("pooled", found, expected)


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
    tolerance = runtime.bundle.manifest.tolerance(provider, precision).of(output)
    padding = max(case.lengths) * len(case.lengths) - sum(case.lengths)
    return Row(case.name, case.lengths, padding, output, provider, precision, error, tolerance)


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
    lines = [
        f"{'batch':<16}{'lengths':<22}{'padding':>8}" + "".join(f"{name:>12}" for name in OUTPUTS)
    ]
    grouped: dict[tuple[str, tuple[int, ...]], dict[str, Row]] = {}
    for row in rows:
        grouped.setdefault((row.case, row.lengths), {})[row.output] = row
    for (case, lengths), outputs in grouped.items():
        shown = _lengths(lengths)
        padding = next(iter(outputs.values())).padding
        cells = "".join(f"{_cell(outputs.get(name)):>12}" for name in OUTPUTS)
        lines.append(f"{case:<16}{shown:<22}{padding:>8}{cells}")
    limits = {row.output: row.tolerance for row in rows}
    lines.append(f"{'tolerance':<46}" + "".join(f"{limits[name]:>12.1e}" for name in OUTPUTS))
    lines.append(
        f"{'PyTorch fp32 against its float64':<46}"
        + "".join(f"{own_error[name]:>12.1e}" for name in OUTPUTS)
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
