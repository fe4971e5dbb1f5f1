"""Attention in the contract: its spec, the meaning of an answer's numbers, and checks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from headlight.outputs.answer_places import check_listed, check_tokens
from headlight.outputs.contract import (
    indices_in,
    known,
    messages,
    numbers_of,
    require,
    selector_of,
    set_indices,
    span_in,
    span_message,
    token_choice,
)
from headlight.outputs.maps.resolved_spec import Choice
from headlight.outputs.maps.token_units import Places, Units, places_of
from headlight.outputs.output import Item
from headlight.spec import NUMBER_BYTES, STATISTICS, AttentionSpec, TokenChoice, Unit

if TYPE_CHECKING:
    from headlight.pb import headlight_pb2 as pb


def attention_spec(message: pb.AttentionOutput) -> AttentionSpec:
    """Decode an attention spec.

    Raises:
        InvalidInput: an enumeration has a value unknown to this side; names the field.
    """
    field = "outputs.attention"
    reduce = [
        known(f"{field}.reduce[{at}]", "Reduction", number)
        for at, number in enumerate(message.reduce)
    ]
    return AttentionSpec(
        layers=indices_in(message.layers, message.layer_runs),
        heads=indices_in(message.heads, message.head_runs),
        pairs=tuple((pair.layer, pair.head) for pair in message.pairs),
        reduce=tuple(reduce),
        queries=token_choice(f"{field}.queries", message.queries)
        if message.HasField("queries")
        else "all",
        keys=token_choice(f"{field}.keys", message.keys) if message.HasField("keys") else "all",
        unit=known(f"{field}.unit", "Unit", message.unit, get_args(Unit), "token"),
        spans=tuple(map(span_in, message.spans)),
        top_k=message.top_k if message.HasField("top_k") else None,
        dtype=known(f"{field}.dtype", "DataType", message.dtype, NUMBER_BYTES, "float32"),
        scores=message.scores,
        drop_special=message.drop_special,
        max_bytes=message.max_bytes if message.HasField("max_bytes") else None,
    )


def attention_message(spec: AttentionSpec) -> pb.AttentionOutput:
    """Encode a checked attention spec."""
    message: pb.AttentionOutput = messages().AttentionOutput(
        queries=selector_of(spec.queries),
        keys=selector_of(spec.keys),
        unit=numbers_of("Unit")[spec.unit],
        dtype=numbers_of("DataType")[spec.dtype],
        reduce=[numbers_of("Reduction")[name] for name in spec.reduce],
        pairs=[messages().LayerHead(layer=layer, head=head) for layer, head in spec.pairs],
        spans=map(span_message, spec.spans),
        top_k=spec.top_k,
        scores=spec.scores,
        drop_special=spec.drop_special,
        max_bytes=spec.max_bytes,
    )
    set_indices(message.layers, message.layer_runs, spec.layers)
    set_indices(message.heads, message.head_runs, spec.heads)
    return message


def announce(response: pb.EncodeResponse, choice: Choice, items: Sequence[Item]) -> None:
    """Put the meaning of the numbers of each item into an answer."""
    spec = choice.spec
    places = [(each.queries, each.keys) for each in map(places_of, items)]
    message = messages()
    described = message.AttentionMap(
        axes=choice.axes,
        heads=choice.common_heads,
        reduce=[numbers_of("Reduction")[name] for name in spec.reduce],
        statistics=STATISTICS if "statistics" in spec.reduce else (),
        scores=spec.scores,
        drop_special=spec.drop_special,
    )
    if any(queries or keys for queries, keys in places):
        described.places.extend(
            message.AttentionPlaces(queries=_units(queries), keys=_units(keys))
            for queries, keys in places
        )
    response.attention_map.CopyFrom(described)


def _units(units: Units | None) -> pb.Units | None:
    return (
        None
        if units is None
        else messages().Units(
            tokens=units.tokens, starts=() if units.starts is None else units.starts
        )
    )


def attention_places(
    described: pb.AttentionMap, choice: Choice, counts: Sequence[int]
) -> list[Places]:
    """Return the rows and columns of each input, of so many tokens, that an answer describes.

    Raises BadAnswer if they, its axes or its heads are not those requested.
    """
    statistics = STATISTICS if "statistics" in choice.spec.reduce else ()
    check_listed("attention_map.axes", described.axes, choice.axes)
    check_listed("attention_map.heads", described.heads, choice.common_heads)
    check_listed("attention_map.statistics", described.statistics, statistics)
    every = described.places or [messages().AttentionPlaces()] * len(counts)
    require(len(every) == len(counts), f"attention_map.places of {len(every)} inputs")
    return [
        Places(
            count,
            _units_in("queries", units, count, choice.spec.queries, choice.spec),
            _units_in("keys", units, count, choice.spec.keys, choice.spec),
        )
        for units, count in zip(every, counts, strict=True)
    ]


def _units_in(
    field: Literal["queries", "keys"],
    places: pb.AttentionPlaces,
    count: int,
    choice: TokenChoice,
    spec: AttentionSpec,
) -> Units | None:
    """Return the units of rows or columns; None: each token.

    Args:
        field: rows (queries) or columns (keys).
        places: their tokens.
        count: tokens of the input.
        choice: the requested tokens.
        spec: the rest of the request.

    Raises:
        BadAnswer: they are not tokens of their input, or not those requested.
    """
    if not places.HasField(field):
        untouched = choice == "all" and spec.unit == "token"
        require(untouched, f"attention_map.places lacks {field}, which were chosen or grouped")
        return None
    where, units = (
        f"attention_map.places.{field}",
        places.queries if field == "queries" else places.keys,
    )
    # each row or column is one token, and special tokens are included
    whole = spec.unit == "token" and not spec.drop_special
    require(
        not whole or (choice != "all" and not units.starts),
        (
            f"{where} chooses or groups tokens, and each of "
            f"{'all' if choice == 'all' else 'some'} was requested"
        ),
    )
    check_tokens(where, units.tokens, count, choice if whole else "all")
    starts = list(units.starts)
    require(
        not starts
        or (starts[0] == 0 and starts == sorted(set(starts)) and starts[-1] < len(units.tokens)),
        f"{where} has units that begin at {starts[:20]}, of {len(units.tokens)} tokens",
    )
    return Units(np.array(units.tokens), np.array(starts) if starts else None)
