"""Checks of an output's axes, layers, heads and tokens against the request.

See `headlight.wire.answer_checks`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from headlight.description import ModelDescription
from headlight.pb import headlight_pb2 as pb
from headlight.spec import STATISTICS, AttentionSpec, Indices, Run, Span, TokenChoice
from headlight.wire.client_codec import malformed, require
from headlight.wire.output_layouts import Layout


def check_numbers_of(
    field: str, found: Sequence[object], expected: Sequence[object] | None
) -> None:
    """Raise BadAnswer unless a field lists exactly the expected numbers.

    None: no check, because the server should have refused the request.
    """
    if expected is not None and tuple(found) != tuple(expected):
        raise malformed(f"{field} is {list(found)[:20]}, and {list(expected)[:20]} was asked for")


def resolved(indices: Indices, count: int) -> tuple[int, ...] | None:
    """Return absolute numbers of layers or heads, all if none is named; None: one out of range."""
    if not indices:
        return tuple(range(count))
    found: list[int] = []
    for index in indices:
        run = index if isinstance(index, Run) else Run(index, index + 1 or None)
        begin, end, _ = slice(*run).indices(count)
        if (
            not -count <= run.begin < count
            or begin >= end
            or not -count < (run.end or count) <= count
        ):
            return None
        found += range(begin, end)
    return tuple(found)


def check_places(
    field: str,
    response: pb.EncodeResponse,
    places: Sequence[pb.TokenIndices],
    choice: TokenChoice | None,
) -> None:
    """Check the tokens that rows belong to.

    Args:
        field: the field that holds them.
        response: the answer, with the number of tokens of each input.
        places: tokens of each input; no entries if all tokens were requested.
        choice: the requested tokens; None: a choice of the tokenizer, in the order of the text.

    Raises:
        BadAnswer: they are given although all were requested, or missing although some were. Or
            they are not tokens of their input, or not those requested.
    """
    expected = [] if choice == "all" else response.items
    require(
        len(places) == len(expected),
        f"{field} names tokens of {len(places)} inputs, and {len(expected)} were expected",
    )
    for chosen, item in zip(places, expected, strict=True):
        check_tokens(field, chosen.indices, item.token_count, choice)
        ordered = choice is not None or list(chosen.indices) == sorted(chosen.indices)
        require(ordered, f"{field} names tokens in another order than that of the text")


def check_tokens(field: str, tokens: Sequence[int], count: int, choice: TokenChoice | None) -> None:
    """Raise BadAnswer unless tokens are some of `count`, each once, and as requested."""
    some = 0 < len(tokens) == len(set(tokens)) <= count and 0 <= min(tokens) <= max(tokens) < count
    require(some, f"{field} names {len(tokens)} tokens, which are not some of {count}, each once")
    require(
        choice != "pooled" or len(tokens) == 1,
        f"{field} names {len(tokens)} tokens, and the pooled one was asked for",
    )
    named = (0,) if choice == "first" else choice
    if isinstance(named, tuple) and not isinstance(named, Span):
        check_numbers_of(field, tokens, resolved(named, count))


def check_attention(
    model: ModelDescription,
    spec: AttentionSpec,
    response: pb.EncodeResponse,
    layouts: dict[str, Layout],
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
        places = told.places[at] if at < len(told.places) else pb.AttentionPlaces()
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
