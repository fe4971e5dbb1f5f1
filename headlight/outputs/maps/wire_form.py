"""Attention in the contract: its spec, the meaning of an answer's numbers, and checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, get_args

from headlight.interface.checked_specs import checked_attention
from headlight.outputs.answer_places import check_numbers_of, check_tokens, resolved
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
from headlight.outputs.layout import Layout
from headlight.outputs.maps.resolved_spec import Choice
from headlight.outputs.maps.token_units import Units, places_of
from headlight.outputs.output import Item
from headlight.spec import NUMBER_BYTES, STATISTICS, AttentionSpec, TokenChoice, Unit

if TYPE_CHECKING:
    from headlight.description import ModelDescription
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


def attention_output(spec: AttentionSpec) -> pb.AttentionOutput:
    """Encode an attention spec. Raises InvalidInput as `checked_attention`."""
    spec = checked_attention(spec)
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
    told = message.AttentionMap(
        axes=choice.axes,
        # Each layer has the same heads; pairs have one each.
        heads=[heads[0] for heads in choice.heads] if spec.pairs else choice.heads[0],
        reduce=[numbers_of("Reduction")[name] for name in spec.reduce],
        statistics=STATISTICS if "statistics" in spec.reduce else (),
        scores=spec.scores,
        drop_special=spec.drop_special,
    )
    if any(queries or keys for queries, keys in places):
        told.places.extend(
            message.AttentionPlaces(queries=_units(queries), keys=_units(keys))
            for queries, keys in places
        )
    response.attention_map.CopyFrom(told)


def _units(units: Units | None) -> pb.Units | None:
    return (
        None
        if units is None
        else messages().Units(
            tokens=units.tokens, starts=() if units.starts is None else units.starts
        )
    )


def extents(told: pb.AttentionMap, at: int, count: int) -> dict[str, int]:
    """Return the extents that some axes must have for one input of `count` tokens."""
    places = told.places[at] if at < len(told.places) else messages().AttentionPlaces()
    return {
        "head": len(told.heads),
        "statistic": len(told.statistics),
        "query": len(places.queries.starts or places.queries.tokens)
        if places.HasField("queries")
        else count,
        "key": len(places.keys.starts or places.keys.tokens) if places.HasField("keys") else count,
    }


def check_attention(
    model: ModelDescription,
    spec: AttentionSpec,
    response: pb.EncodeResponse,
    layouts: Mapping[str, Layout],
) -> None:
    """Check axes, layers, heads, rows and columns of attention.

    Raises BadAnswer if they are not those requested.
    """
    told, layout = response.attention_map, layouts["attention"]
    layers, heads = resolved(spec.layers, model.layers), resolved(spec.heads, model.heads)
    if spec.pairs:
        layers = tuple(layer % model.layers for layer, _ in spec.pairs)
        heads = tuple(head % model.heads for _, head in spec.pairs)
    lists: list[tuple[str, Sequence[object], Sequence[object] | None]] = [
        ("attention_map.axes", told.axes, spec.axes),
        ("attention.layers", layout.layers, layers),
        ("attention_map.heads", told.heads, heads),
        (
            "attention_map.statistics",
            told.statistics,
            STATISTICS if "statistics" in spec.reduce else (),
        ),
    ]
    for output, shapes in (
        ("attention_indices", layout.shapes),
        ("attention_scales", [each[:-1] for each in layout.shapes]),
    ):
        if output in layouts:
            lists.append((f"{output}.shapes", layouts[output].shapes, shapes))
    for field, found, expected in lists:
        check_numbers_of(field, found, expected)
    for at, (shape, item) in enumerate(zip(layout.shapes, response.items, strict=True)):
        places = told.places[at] if at < len(told.places) else messages().AttentionPlaces()
        check_units("queries", places, item.token_count, spec.queries, spec)
        keys = check_units("keys", places, item.token_count, spec.keys, spec)
        require(
            not spec.top_k or shape[-1] == min(spec.top_k, keys),
            (
                f"attention has rows of {shape[-1]} entries, "
                f"and top_k {spec.top_k} of {keys} was asked for"
            ),
        )


def check_units(
    field: Literal["queries", "keys"],
    places: pb.AttentionPlaces,
    count: int,
    choice: TokenChoice,
    spec: AttentionSpec,
) -> int:
    """Return the number of rows or columns.

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
        return count
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
            f"{'all' if choice == 'all' else 'some'} was asked for"
        ),
    )
    check_tokens(where, units.tokens, count, choice if whole else "all")
    starts = list(units.starts)
    require(
        not starts
        or (starts[0] == 0 and starts == sorted(set(starts)) and starts[-1] < len(units.tokens)),
        f"{where} has units that begin at {starts[:20]}, of {len(units.tokens)} tokens",
    )
    return len(starts or units.tokens)
