"""Results that a runtime makes of the engine's arrays, as a client makes them of an answer."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

from headlight.outputs.maps import token_units
from headlight.outputs.maps.token_units import places_of
from headlight.outputs.tokens import rows_of
from headlight.results import AttentionMaps, Hidden, ModelRef, TokenList, TokenVectors, Units
from headlight.runtime.encode_items import EncodeItem, ItemResult
from headlight.runtime.spans.span_items import SpanItems
from headlight.runtime.values import Tokenized
from headlight.span_vectors import SpanVectors
from headlight.spec import STATISTICS, Span


class Prepared(NamedTuple):
    """One input, tokenised, and its item for the engine."""

    tokenized: Tokenized
    item: EncodeItem

    @property
    def tokens(self) -> TokenList:
        """The tokens, which must have been asked for."""
        info = self.tokenized.info
        if info is None:
            raise RuntimeError("an input was prepared without its tokens. This is a bug.")
        # without a tokenizer, ids have no spelling
        return info if info.pieces else dataclasses.replace(info, pieces=("",) * len(info))


def token_vectors(each: Prepared, result: ItemResult, model: ModelRef) -> TokenVectors:
    """Return the vectors of the requested tokens of one input."""
    rows = rows_of(each.item)
    places = range(len(each.item.ids)) if rows is None else rows.tolist()
    return TokenVectors(result["tokens"], tuple(places), each.tokens, model)


def span_vectors(
    each: Prepared, work: SpanItems, result: ItemResult, model: ModelRef
) -> SpanVectors:
    """Return the vectors of the spans of one input."""
    spans = work.spans
    return SpanVectors(
        result["spans"],
        () if spans.characters is None else tuple(Span(*one) for one in spans.characters.tolist()),
        spans.token_ranges,
        each.tokens,
        model,
        work.items[0].places["spans"].window_starts,
    )


def attention_maps(each: Prepared, result: ItemResult, model: ModelRef) -> AttentionMaps:
    """Return the attention of one input in the form of its spec."""
    choice, where = each.item.selection["attention"], places_of(each.item)
    heads = [own[0] for own in choice.heads] if choice.spec.pairs else choice.heads[0]
    return AttentionMaps(
        values=result["attention"],
        axes=choice.axes,
        layers=choice.layers,
        heads=tuple(heads),
        queries=_units(where.queries, where.length),
        keys=_units(where.keys, where.length),
        tokens=each.tokens,
        model=model,
        indices=result.get("attention_indices"),
        scales=result.get("attention_scales"),
        statistics=STATISTICS if "statistics" in choice.spec.reduce else (),
    )


def hidden(each: Prepared, result: ItemResult, model: ModelRef) -> Hidden:
    """Return the hidden states of one input."""
    layers, chosen = each.item.selection["hidden"].layers, each.item.places.get("hidden")
    places = None if chosen is None else tuple(chosen.tolist())
    return Hidden(result["hidden"], layers, each.tokens, model, places)


def _units(units: token_units.Units | None, length: int) -> Units:
    """Return the tokens of each unit of an axis; None: each token of the input."""
    if units is None:
        return Units.of(range(length))
    return Units.of(units.tokens.tolist(), () if units.starts is None else units.starts.tolist())
