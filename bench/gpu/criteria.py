"""Criteria for a GPU, and the values measured: all of one run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bench.attention_forms import VECTORS_ALONE, WHOLE_MAPS
from bench.gpu.field import BARE, ENGINE
from bench.gpu.peers import COMPILED, FUSED
from bench.gpu.served import ALONE, BATCHES, GROUP, SERVED
from bench.gpu.sizes import BASE, MINILM, TRAINED
from bench.gpu.speed import DOCSTRINGS
from bench.serving.criteria import Criterion

FP32_RELATIVE = 1e-4
COSINES = {"fp16": 0.9999, "bf16": 0.9995}
# texts of each model: with fewer, a maximum or minimum says little
FEWEST_WHOLE, FEWEST_COSINES = 12, 100
ALIKE = 0.999  # cosine with PyTorch in float32: below it, something else is computed
OF_COMPILED, OF_FUSED, OF_PEAK, SHORT_MS, OF_ENGINE = 1.0, 1.5, 0.45, 1.0, 0.8
PEAK_LENGTH = 512
Rows = list[dict[str, Any]]


def criteria(run: dict[str, Any]) -> list[Criterion]:
    """Return each criterion with its value; None if it could not be measured."""
    return [*numbers(run), *throughput(run), *short_text(run), *over_the_wire(run), *attention(run)]


def numbers(run: dict[str, Any]) -> list[Criterion]:
    """Return the parity criteria, over all trained models together."""
    by_model = run.get("parity", {})
    enough = _of_trained(by_model, "fp32", _relative, lambda one: one["whole"] >= FEWEST_WHOLE)
    worst = _largest(enough, len(TRAINED))
    all_ = [
        Criterion(
            "parity in fp32, every output: largest relative distance",
            FP32_RELATIVE,
            worst,
            at_most=True,
        )
    ]
    for precision, limit in COSINES.items():
        enough = _of_trained(
            by_model, precision, _least, lambda one: one["cosine"]["texts"] >= FEWEST_COSINES
        )
        least = _smallest(enough, len(TRAINED))
        all_.append(
            Criterion(f"parity in {precision}: least cosine of pooled vectors", limit, least)
        )
    gates = [
        value
        for p in ("fp32", *COSINES)
        for value in _of_trained(by_model, p, lambda one: float(one["gate"] == ""))
    ]
    passed = sum(gates) / len(gates) if len(gates) == len(TRAINED) * (1 + len(COSINES)) else None
    return [*all_, Criterion("share of start-up gates passed, in each precision", 1.0, passed)]


def _of_trained(
    by_model: dict[str, Any], precision: str, value: Any, counts: Any = lambda _: True
) -> list[float]:
    """Return the value of each trained model that took part and satisfies `counts`."""
    parts = [by_model.get(name, {}).get(precision, {"error": ""}) for name in TRAINED]
    return [float(value(part)) for part in parts if "error" not in part and counts(part)]


def _relative(one: dict[str, Any]) -> float:
    return max(float(each["relative"]) for each in one["outputs"].values())


def _least(one: dict[str, Any]) -> float:
    return float(one["cosine"]["least"])


def _largest(values: list[float], count: int) -> float | None:
    return max(values) if len(values) == count else None


def _smallest(values: list[float], count: int) -> float | None:
    return min(values) if len(values) == count else None


def throughput(run: dict[str, Any]) -> list[Criterion]:
    """Return the throughput criteria, of BERT-base in fp16."""
    rows = [
        row
        for row in run.get("speed", [])
        if row.get("size") == BASE and row.get("precision") == "fp16"
    ]
    mix = [row for row in rows if row.get("kind") == DOCSTRINGS]
    ours = best_rate(mix, ENGINE)
    named = f"{BASE}, fp16, {DOCSTRINGS}: the engine's tokens/s over"
    batches = [
        row for row in rows if row.get("kind") == "length" and row.get("length") == PEAK_LENGTH
    ]
    peak = run.get("ceilings", {}).get("fp16")
    result = [
        Criterion(f"{named} torch.compile's", OF_COMPILED, ratio(ours, best_rate(mix, COMPILED))),
        Criterion(
            f"{named} those of eager torch with the fused kernel",
            OF_FUSED,
            ratio(ours, best_rate(mix, FUSED)),
        ),
    ]
    for name, limit in ((ENGINE, OF_PEAK), (BARE, None)):
        what = (
            f"{BASE}, fp16, batches of {PEAK_LENGTH} tokens: share of the measured "
            f"matrix peak, {name}"
        )
        result.append(
            Criterion(
                what, limit, ratio(best_flops(batches, name), None if peak is None else peak * 1e12)
            )
        )
    return result


def ratio(over: float | None, under: float | None) -> float | None:
    return None if over is None or not under else over / under


def milliseconds(row: dict[str, Any], name: str) -> float | None:
    """Return a contestant's time in a row, if it was measured and its vectors are right."""
    cosine = row.get("cosines", {}).get(name)
    ms = row.get("times", {}).get(name, {}).get("ms")
    return float(ms) if ms is not None and isinstance(cosine, float) and cosine >= ALIKE else None


def best_rate(rows: Iterable[dict[str, Any]], name: str) -> float | None:
    """Return tokens/s at the best batch size."""
    rates = [1000 * row["tokens"] / ms for row in rows if (ms := milliseconds(row, name))]
    return max(rates, default=None)


def best_flops(rows: Iterable[dict[str, Any]], name: str) -> float | None:
    """Return FLOP/s of real tokens."""
    return max(
        (1000 * row["flops"] / ms for row in rows if (ms := milliseconds(row, name))), default=None
    )


def short_text(run: dict[str, Any]) -> list[Criterion]:
    """Return the criterion of a short text; the fastest precision counts, and is named."""
    section = run.get("one short text", {})
    precisions = section.get("precisions", {}) if section.get("encoder") == MINILM else {}
    p50 = {name: one["p50_ms"] for name, one in precisions.items() if "p50_ms" in one}
    best = min(p50, key=lambda name: p50[name], default=None)
    what = f"{MINILM}: one short text in the engine, p50 in ms"
    return [
        Criterion(what, SHORT_MS, None if best is None else p50[best], best or "", at_most=True)
    ]


def over_the_wire(run: dict[str, Any]) -> list[Criterion]:
    """Return the criterion of requested batches, beside the engine at its best batch size."""
    served = run.get("served", {})
    comparable = served.get("encoder") == MINILM and served.get("group") == GROUP
    measured = served.get("measured", {}) if comparable else {}
    ours = measured.get(SERVED, {}).get(BATCHES, {}).get("texts_per_s")
    alone = measured.get(ALONE, {})
    share, what = (
        ratio(ours, alone.get("texts_per_s")),
        f"{MINILM}: batches of {GROUP} texts over the wire",
    )
    note = "" if share is None else f"the engine in batches of {alone['batch_tokens']} tokens"
    return [Criterion(f"{what}, over the engine's rate at its best", OF_ENGINE, share, note)]


def attention(run: dict[str, Any]) -> list[Criterion]:
    """Return the cost of attention, which has no threshold."""
    result, title = [], f"{WHOLE_MAPS} of all layers, over {VECTORS_ALONE}"
    for row in run.get("attention", []):
        times = row.get("times", {})
        whole, alone = (times.get(name, {}).get("ms") for name in (WHOLE_MAPS, VECTORS_ALONE))
        what = f"{row['size']}, {row['texts']} x {row['length']}: {title}"
        result.append(Criterion(what, None, ratio(whole, alone)))
    return result or [Criterion(title, None, None)]
