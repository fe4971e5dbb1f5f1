"""Checks of an output's axes, layers, heads and tokens against what was asked for; see `headlight.wire.answer_checks`."""

from __future__ import annotations

from collections.abc import Sequence

from headlight.description import ModelDescription
from headlight.pb import headlight_pb2 as pb
from headlight.spec import STATISTICS, AttentionSpec, Indices, Run, Span, TokenChoice
from headlight.wire.client_codec import malformed
from headlight.wire.reassembly import Layout


def check_width(output: str, layout: Layout, width: int) -> None:
    """Raise BadAnswer unless each vector of an output has so many numbers."""
    for shape in layout.shapes:
        if shape[-1] != width:
            raise malformed(f"{output} has vectors of {shape[-1]} numbers, and {width} were asked for")


def check_numbers_of(field: str, found: Sequence[object], expected: Sequence[object] | None) -> None:
    """Raise BadAnswer unless a field lists exactly what was asked for; None: the server should have refused it."""
    if expected is not None and tuple(found) != tuple(expected):
        raise malformed(f"{field} is {list(found)[:20]}, and {list(expected)[:20]} was asked for")


def resolved(indices: Indices, count: int) -> tuple[int, ...] | None:
    """Return the absolute numbers of layers or heads, all if none is named; None: one is out of range."""
    if not indices:
        return tuple(range(count))
    found: list[int] = []
    for index in indices:
        run = index if isinstance(index, Run) else Run(index, index + 1 or None)
        begin, end, _ = slice(*run).indices(count)
        if not -count <= run.begin < count or begin >= end or not -count < (run.end or count) <= count:
            return None
        found += range(begin, end)
    return tuple(found)


def check_places(
    field: str,
    response: pb.EncodeResponse,
    places: Sequence[pb.TokenIndices],
    choice: TokenChoice | None,
    *,
    increasing: bool = False,
) -> None:
    """Check which tokens rows are of.

    Args:
        field: that holds them.
        response: with the number of tokens of each input.
        places: of each input; none for all tokens.
        choice: as asked; None: some that the tokenizer tells.
        increasing: whether they are in the order of the text.

    Raises:
        BadAnswer: they are given though all were asked for, or missing though some were; they are no tokens of their
            input, or others than those named.
    """
    expected = 0 if choice == "all" else len(response.items)
    if len(places) != expected:
        raise malformed(f"{field} names tokens of {len(places)} inputs, and {expected} were expected")
    if choice == "all":
        return
    for chosen, item in zip(places, response.items, strict=True):
        check_tokens(field, chosen.indices, item.token_count, choice)
        if increasing and list(chosen.indices) != sorted(chosen.indices):
            raise malformed(f"{field} names tokens in another order than that of the text")


def check_tokens(field: str, tokens: Sequence[int], count: int, choice: TokenChoice | None) -> None:
    """Raise BadAnswer unless tokens are some of `count`, each once, and those that were named."""
    if (
        not tokens
        or len(tokens) > count
        or len(set(tokens)) != len(tokens)
        or not 0 <= min(tokens) <= max(tokens) < count
    ):
        raise malformed(f"{field} names {len(tokens)} tokens, which are not some of {count}, each once")
    if choice == "first":
        check_numbers_of(field, tokens, (0,))
    elif choice == "pooled" and len(tokens) != 1:
        raise malformed(f"{field} names {len(tokens)} tokens, and the pooled one was asked for")
    elif isinstance(choice, tuple) and not isinstance(choice, Span):
        check_numbers_of(field, tokens, resolved(choice, count))


def check_attention(
    model: ModelDescription, spec: AttentionSpec, response: pb.EncodeResponse, layouts: dict[str, Layout]
) -> None:
    """Check axes, layers, heads, rows and columns of attention. Raises BadAnswer if they are not those asked for."""
    told, layout = response.attention_map, layouts["attention"]
    check_numbers_of("attention_map.axes", told.axes, spec.axes)
    layers, heads = resolved(spec.layers, model.layers), resolved(spec.heads, model.heads)
    if spec.pairs:
        layers = tuple(layer % model.layers for layer, _ in spec.pairs)
        heads = tuple(head % model.heads for _, head in spec.pairs)
    check_numbers_of("attention.layers", layout.layers, layers)
    check_numbers_of("attention_map.heads", told.heads, heads)
    check_numbers_of("attention_map.statistics", told.statistics, STATISTICS if "statistics" in spec.reduce else ())
    whole = spec.unit == "token" and not spec.drop_special
    for at, (shape, item) in enumerate(zip(layout.shapes, response.items, strict=True)):
        places = told.places[at] if at < len(told.places) else pb.AttentionPlaces()
        keys = item.token_count
        for field, choice in (("queries", spec.queries), ("keys", spec.keys)):
            if places.HasField(field):
                count = check_units(field, getattr(places, field), item.token_count, choice, whole)
                keys = count if field == "keys" else keys
            elif choice != "all" or spec.unit != "token":
                raise malformed(f"attention_map.places lacks {field}, which were chosen or grouped")
        if spec.top_k and shape[-1] != min(spec.top_k, keys):
            raise malformed(
                f"attention has rows of {shape[-1]} entries, and top_k {spec.top_k} of {keys} was asked for"
            )
    if "attention_indices" in layouts:
        check_numbers_of("attention_indices.shapes", layouts["attention_indices"].shapes, layout.shapes)
    if "attention_scales" in layouts:
        check_numbers_of(
            "attention_scales.shapes", layouts["attention_scales"].shapes, [shape[:-1] for shape in layout.shapes]
        )


def check_units(field: str, units: pb.Units, count: int, choice: TokenChoice, whole: bool) -> int:
    """Return how many rows or columns there are.

    Args:
        field: "queries" or "keys".
        units: that they stand for.
        count: tokens of the input.
        choice: as asked.
        whole: whether each stands for one token, and special ones are not dropped.

    Raises:
        BadAnswer: they are no tokens of their input, or others than those asked for.
    """
    where = f"attention_map.places.{field}"
    if whole and (choice == "all" or units.starts):
        raise malformed(
            f"{where} chooses or groups tokens, and each of {'all' if choice == 'all' else 'some'} was asked for"
        )
    check_tokens(where, units.tokens, count, choice if whole else "all")
    if len(units.starts) > len(units.tokens):
        raise malformed(f"{where} has {len(units.starts)} units of {len(units.tokens)} tokens")
    return len(units.starts or units.tokens)
