"""Quality of a reduced precision: cosines, neighbours, order, independence of the batch."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headlight.description import Quality as QualityEntry
from headlight.errors import EngineError
from headlight.outputs.registry import MEASURED
from headlight.runtime.encode_items import EncodeItem, ItemResult, Selection, everything
from headlight.runtime.engine.batches import plan
from headlight.runtime.parity.golden_inputs import distance
from headlight.runtime.runtime import Runtime
from headlight.runtime.values import Floats
from headlight_export.precision.order import Order, compare_order
from headlight_export.precision.sample_texts import Passages

NEIGHBOURS = 10
FLOAT16_END = 65504
WITH_ATTENTION = 16  # texts whose attention and hidden states are compared
TINY = 1e-30  # a divisor instead of 0
NOT_FINITE = "gives numbers that are not finite, or zeros"
ALONE = 64  # texts that are encoded by themselves, too


@dataclasses.dataclass(frozen=True)
class Nearness:
    """Nearness of an output to fp32, on average and at worst; see `nearness`."""

    mean: float
    worst: float

    def __str__(self) -> str:
        return f"mean {self.mean:.6f}, least {self.worst:.6f}"


# Below it a precision does not suit a model. The shipped models' vectors have at least 0.9999995 in
# fp16. In bf16 they have 0.99995 on average, the least is 0.99988. int8 is further off, and its
# user decides by the neighbours that it keeps.
LEAST = {
    "fp32": Nearness(0.9999, 0.9999),
    "fp16": Nearness(0.9999, 0.9999),
    "bf16": Nearness(0.999, 0.99),
    "int8": Nearness(0.9, -math.inf),
}
JUDGED = ("pooled", "scores", "sparse", "multi_vector")  # if they are of the model's task
Pairs = Mapping[str, Sequence[tuple[Floats, Floats]]]  # by output: of fp32, and of a variant


class BrokenVariantError(ValueError):
    """A precision that does not suit the model; the message has the remedy. Nothing was written."""


@dataclasses.dataclass(frozen=True)
class HalfQuality:
    """The distance of float16 products from PyTorch's float32.

    Attributes:
        errors: the largest by output, as in the rows of parity.json.
        nearness: by output of the model's task, over texts and random ids.
        largest: the largest number that a product reads or gives.
        module: that has it.
    """

    errors: Mapping[str, float]
    nearness: Mapping[str, Nearness]
    largest: float
    module: str

    def __str__(self) -> str:
        return (
            f"fp16 with products in float16, as on a GPU: {_text(self.nearness)}; the largest "
            f"number is {self.largest:.3g}, in {self.module} (float16 ends at {FLOAT16_END})"
        )


@dataclasses.dataclass(frozen=True)
class Quality:
    """The distance of one precision on one provider from fp32 on CPUs, over the same texts.

    Attributes:
        entry: the manifest's entry.
        nearness: by output of the model's task.
        max_error: by output, as in the rows of parity.json, but against fp32.
        attention_mean_error: of attention weights, the mean |Δ| over some of the texts.
        order: of scores; None: the model gives no scores of texts.
        half: of fp16, with products in float16; None: another precision.
    """

    entry: QualityEntry
    nearness: dict[str, Nearness]
    max_error: dict[str, float]
    attention_mean_error: float
    order: Order | None = None
    half: HalfQuality | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the entry for parity.json."""
        return dataclasses.asdict(self.entry) | {
            "nearness": {name: dataclasses.asdict(near) for name, near in self.nearness.items()},
            "max_error": self.max_error,
            "attention_mean_error": self.attention_mean_error,
            **({} if self.order is None else {"order": self.order.size}),
            **({} if self.half is None else {"float16_products": dataclasses.asdict(self.half)}),
        }


def compare(exact: Runtime, variant: Runtime, texts: Passages) -> Quality:
    """Encode the texts with both runtimes and compare.

    Args:
        exact: fp32.
        variant: of the same bundle, in another precision or on another provider.
        texts: more than NEIGHBOURS.

    Raises:
        BrokenVariantError: the variant's numbers are not finite, or too far from fp32.
    """
    try:
        return _compare(exact, variant, texts)
    except EngineError:
        raise broken(variant.provider, variant.precision, NOT_FINITE) from None


def judged(outputs: Collection[str]) -> tuple[str, ...]:
    """Return the outputs of a model's task by which its inputs are compared."""
    return tuple(name for name in JUDGED if name in outputs)


def check_nearness(
    provider: str, precision: str, pairs: Pairs, how: str = ""
) -> dict[str, Nearness]:
    """Return the nearness of each output of a variant to fp32.

    Raises:
        BrokenVariantError: the mean or the smallest is below LEAST.
    """
    least, result = LEAST[precision], dict[str, Nearness]()
    for output, of_output in pairs.items():
        near = nearness(output, of_output)
        result[output] = Nearness(float(near.mean()), float(near.min()))
        measure = "nearness to" if output in ("scores", "sparse") else "cosine with"
        rows = (("on average", near.mean(), least.mean), ("at worst", near.min(), least.worst))
        for name, value, limit in rows:
            if not value >= limit:
                what = f"gives an output {output} whose {measure} fp32 {how}is {value:.6f} {name}"
                raise broken(provider, precision, f"{what}, below {limit:g}")
    return result


def nearness(output: str, pairs: Sequence[tuple[Floats, Floats]]) -> NDArray[np.floating[Any]]:
    """Return the nearness of an output of each text: 1 if it is equal.

    It is the cosine of each vector. Scores have no direction, and sparse vectors may be almost
    empty: their difference is divided by the usual size, the standard deviation of all scores or
    the RMS length of the vectors. 1 - (|Δ| / size)² / 2 is the cosine of vectors of this size.
    """
    if output not in ("scores", "sparse"):
        return cosines(*map(np.vstack, zip(*pairs, strict=True)))
    changes = [a - b for a, b in pairs]
    if output == "scores":
        size = float(np.var(np.concatenate([each.ravel() for each, _ in pairs])))
        squares = [np.mean(change**2) for change in changes]
    else:
        size = float(np.mean([np.sum(each**2) for each, _ in pairs]))
        squares = [np.sum(change**2) for change in changes]
    return 1 - np.array(squares, np.float64) / (2 * max(size, TINY))


def label(provider: str, precision: str) -> str:
    """Return a variant's name: the export option that requests it."""
    return (
        f"--precision {precision}" if provider == "cpu" else f"--provider {provider} ({precision})"
    )


def broken(provider: str, precision: str, what: str) -> BrokenVariantError:
    """Return the error for a variant, from the problem."""
    instead = ", or give --precision bf16, which has float32's range" if precision == "fp16" else ""
    return BrokenVariantError(
        f"{label(provider, precision)} {what}: it does not suit this model, so leave it out"
        f"{instead}"
    )


def _compare(exact: Runtime, variant: Runtime, texts: Passages) -> Quality:
    every = everything(exact.bundle.manifest.architecture)
    worst = dict.fromkeys((name for name in MEASURED if name in every), 0.0)
    selection = everything(exact.bundle.manifest.architecture, "embed")
    pairs = {name: list[tuple[Floats, Floats]]() for name in judged(exact.bundle.manifest.outputs)}
    rows: dict[Runtime, dict[int, Floats]] = {exact: {}, variant: {}}
    for batch in plan([len(item.ids) for item in texts.items], squared=False):
        expected, got = (_run(runtime, texts, batch, selection) for runtime in (exact, variant))
        _widen(worst, expected, got)
        for name, of_output in pairs.items():
            of_output += [(a[name], b[name]) for a, b in zip(expected, got, strict=True)]
        for runtime, results in ((exact, expected), (variant, got)):
            rows[runtime] |= {i: _pooled(result) for i, result in zip(batch, results, strict=True)}
    means = []
    for i in _spread(len(texts.items), WITH_ATTENTION):
        expected, got = _run(exact, texts, [i], every), _run(variant, texts, [i], every)
        _widen(worst, expected, got)
        means.append(_attention_error(expected[0], got[0]))
    pooled = {
        runtime: np.stack([rows[runtime][i] for i in range(len(texts.items))]) for runtime in rows
    }
    by_output = check_nearness(variant.provider, variant.precision, pairs)
    near = cosines(pooled[exact], pooled[variant])
    before, after = _neighbours(pooled[exact]), _neighbours(pooled[variant])
    order = compare_order(exact, variant, texts)
    entry = QualityEntry(
        provider=variant.provider,
        precision=variant.precision,
        texts=texts.about,
        count=len(texts.items),
        real_text=texts.real,
        cosine_mean=float(near.mean()),
        cosine_p1=float(np.percentile(near, 1)),
        cosine_min=float(near.min()),
        nearest_kept=float(np.mean(before[:, 0] == after[:, 0])),
        ten_nearest_kept=_common_share(before, after),
        batch_drift=batch_drift(variant, texts, pooled[variant]),
        kendall_tau=None if order is None else order.kendall_tau,
        ndcg_at_10=None if order is None else order.ndcg_at_10,
    )
    return Quality(entry, by_output, worst, float(np.mean(means)), order)


def vectors(runtime: Runtime, texts: Passages) -> Floats:
    """Return the pooled vectors of the texts, float32 [N, D].

    Raises:
        EngineError: they are not finite.
    """
    rows = dict[int, Floats]()
    for batch in plan([len(item.ids) for item in texts.items], squared=False):
        results = _run(runtime, texts, batch, Selection())
        rows |= {i: _pooled(result) for i, result in zip(batch, results, strict=True)}
    return np.stack([rows[i] for i in range(len(texts.items))])


def mean_cosine(exact: Floats, variant: Floats) -> float:
    """Return the mean cosine of vectors: float32 [N, D], twice."""
    return float(cosines(exact, variant).mean())


def common_neighbours(exact: Floats, variant: Floats) -> float:
    """Return the share of nearest texts that both have: vectors float32 [N, D], twice."""
    return _common_share(_neighbours(exact), _neighbours(variant))


def batch_drift(runtime: Runtime, texts: Passages, batched: Floats) -> float:
    """Return max |Δ| between a text's vector alone and in a batch.

    `batched` is float32 [N, D], of all texts in batches.
    """
    alone = _spread(len(texts.items), ALONE)
    return max(
        distance(
            "pooled", _pooled(_run(runtime, texts, [i], Selection(tokens=True))[0]), batched[i]
        )
        for i in alone
    )


def _run(
    runtime: Runtime, texts: Passages, batch: Sequence[int], selection: Selection
) -> list[ItemResult]:
    items = [texts.items[i] for i in batch]
    return runtime.engine.run([EncodeItem(item.ids, selection, item.segments) for item in items])


def _widen(
    worst: dict[str, float], expected: Sequence[ItemResult], got: Sequence[ItemResult]
) -> None:
    """Raise the worst distance of each output to those of these results."""
    for a, b in zip(expected, got, strict=True):
        for name in worst.keys() & a.keys():
            worst[name] = max(worst[name], distance(name, b[name], a[name]))


def _attention_error(expected: ItemResult, got: ItemResult) -> float:
    return float(np.abs(got["attention"] - expected["attention"]).mean())


def _common_share(before: NDArray[np.int64], after: NDArray[np.int64]) -> float:
    """Return the mean share of common neighbours of each text: int64 [N, NEIGHBOURS], twice."""
    pairs = zip(before, after, strict=True)
    return float(np.mean([len(np.intersect1d(a, b)) / a.size for a, b in pairs]))


def _pooled(result: ItemResult) -> Floats:
    return result["pooled"]


def _spread(count: int, few: int) -> list[int]:
    """Return at most `few` of 0 .. count-1, evenly spread."""
    return list(range(count)) if count <= few else [i * count // few for i in range(few)]


def _unit(vectors: Floats) -> Floats:
    """Scale [N, D] to length 1; a zero vector stays zero, and is similar to none."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: Floats = vectors / np.maximum(lengths, np.float32(TINY))
    return unit


def cosines(a: Floats, b: Floats) -> Floats:
    """Return the cosine of each pair of vectors, 1 if they are equal: float32 [N, D], twice."""
    near: Floats = (_unit(a) * _unit(b)).sum(axis=1)
    return np.where((a == b).all(axis=1), np.float32(1), near)


def _neighbours(vectors: Floats) -> NDArray[np.int64]:
    """Return the texts of the largest cosines, falling: float32 [N, D] -> int64 [N, NEIGHBOURS].

    A text is no neighbour of itself.
    """
    unit = _unit(vectors)
    similar = unit @ unit.T
    np.fill_diagonal(similar, -2.0)
    return np.argsort(-similar, axis=1, kind="stable")[:, :NEIGHBOURS].astype(np.int64)


def table(rows: Sequence[Quality]) -> str:
    """Return the qualities as text, a line per precision."""
    first = rows[0].entry
    lines = [
        f"against fp32 on {first.count} texts: {first.texts}"
        + ("" if first.real_text else "; neighbour figures do not apply to texts"),
        f"{'':<14}{'cosine mean':>12}{'1st pct':>10}{'least':>10}"
        f"{'nearest':>10}{'10 nearest':>12}{'with the batch':>16}"
        f"{'attention: mean, largest':>26}"
        + ("" if rows[0].order is None else f"{'order: tau, NDCG@10':>22}"),
    ]
    for quality in rows:
        e = quality.entry
        name = e.precision if e.provider == first.provider else f"{e.provider} {e.precision}"
        kept = f"{e.nearest_kept:>10.1%}{e.ten_nearest_kept:>12.1%}"
        order = quality.order
        ordered = "" if order is None else f"{order.kendall_tau:>12.4f}{order.ndcg_at_10:>10.4f}"
        lines.append(
            f"{name:<14}{e.cosine_mean:>12.6f}{e.cosine_p1:>10.6f}{e.cosine_min:>10.6f}"
            f"{kept}{e.batch_drift:>16.1e}"
            f"{quality.attention_mean_error:>17.1e}{quality.max_error['attention']:>9.1e}"
            f"{ordered}"
        )
        if tuple(quality.nearness) != ("pooled",):
            lines.append(f"{'':<14}{_text(quality.nearness)}")
    return "\n".join([*lines, *(str(quality.half) for quality in rows if quality.half)])


def _text(near: Mapping[str, Nearness]) -> str:
    return ", ".join(f"{name} {value}" for name, value in near.items())
