"""A plan: what to compute for one request, step by step. It knows arrays, but no threads or queues.

A plan is a generator. It yields items, takes their results, and yields more or returns the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from headlight.runtime.encode_items import NOWHERE, EncodeItem, ItemResult, Selection
from headlight.runtime.spans.span_items import SpanItems, merge
from headlight.runtime.values import Floats

T = TypeVar("T")
LARGEST_WAVE = 1024  # items of a wave: all are held at once


class Items(NamedTuple):
    """Items to compute next.

    Attributes:
        items: at least one, all of one graph.
        texts: inputs that they are computed for; None: one for each item.
        wave: whether they multiply the work: they run below interactive requests.
    """

    items: Sequence[EncodeItem]
    texts: int | None = None
    wave: bool = False


Plan = Generator[Items, list[ItemResult], T]


class OccludedUnit(NamedTuple):
    """Tokens that are hidden together.

    Attributes:
        item: index of the item.
        tokens: those of that item.
    """

    item: int
    tokens: tuple[int, ...]


def drive(plan: Plan[T], run: Callable[[Sequence[EncodeItem]], list[ItemResult]]) -> T:
    """Compute a plan with `run`, and return its answer."""
    try:
        step = next(plan)
        while True:
            step = plan.send(run(step.items))
    except StopIteration as end:
        answer: T = end.value
        return answer


def encode(slices: Iterable[Sequence[EncodeItem]]) -> Plan[list[ItemResult]]:
    """Return the result of each item; each slice is made when its turn has come."""
    results = list[ItemResult]()
    for items in slices:
        results += yield Items(items)
    return results


def encode_spans(
    inputs: Sequence[SpanItems], head: Callable[[Floats], Floats], *, normalize: bool
) -> Plan[list[ItemResult]]:
    """Return the result of each input with spans; see `merge`."""
    items = [item for each in inputs for item in each.items]
    return merge(inputs, (yield Items(items, len(inputs))), head, normalize)


def waves(
    items: Sequence[EncodeItem],
    units: Iterable[OccludedUnit],
    outputs: Selection,
    most_tokens: int,
) -> Iterator[Items]:
    """Yield the items with one hidden unit each, in waves of at most so many tokens, or of one.

    Args:
        items: the whole inputs.
        units: what to hide, one after the other.
        outputs: selects what is compared: pooled vectors or scores.
        most_tokens: of one wave.
    """
    wave, tokens = list[EncodeItem](), 0
    for unit in units:
        whole = items[unit.item]
        if wave and (tokens + len(whole.ids) > most_tokens or len(wave) == LARGEST_WAVE):
            yield Items(wave, wave=True)
            wave, tokens = [], 0
        wave.append(hidden_item(whole, unit, outputs))
        tokens += len(whole.ids)
    if wave:
        yield Items(wave, wave=True)


def hidden_item(item: EncodeItem, unit: OccludedUnit, outputs: Selection) -> EncodeItem:
    """Return an item with hidden tokens and other outputs; a hidden token has no vector."""
    places, matched = NOWHERE, item.places.get("multi_vector")
    if matched is not None:
        places = {"multi_vector": np.setdiff1d(matched, unit.tokens)}
    hidden = (*item.occluded, *unit.tokens)
    return item._replace(selection=outputs, places=places, occluded=hidden)


def pooled_rows(results: Sequence[ItemResult]) -> Floats:
    """Return the pooled vectors of some results: float32 [m, D]."""
    return np.stack([each["pooled"] for each in results])
