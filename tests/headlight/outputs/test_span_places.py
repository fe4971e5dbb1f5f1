"""Places of spans in an answer that leave their input, or are not those requested."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headlight import BadAnswer
from headlight.interface.arguments import Input
from headlight.outputs.spans import span_rows
from headlight.pb import headlight_pb2 as pb
from headlight.spec import Span

TEXT = "one two three"
GIVEN = [pb.TextSpan(start=0, end=3), pb.TextSpan(start=4, end=13)]
Change = Callable[[pb.SpanPlaces], object]


def check(change: Change, value: Input = TEXT, *, given: bool = False, beyond: bool = True) -> None:
    """Check two spans in five tokens, read in two windows."""
    places = pb.SpanPlaces(
        characters=GIVEN, token_starts=[1, 2], token_ends=[2, 4], window_starts=[1, 2]
    )
    change(places)
    spans = [Span(each.start, each.end) for each in GIVEN] if given else None
    rows = span_rows("span_places[0]", places, 5, value, spans, beyond=beyond)
    assert rows.spans is not None
    assert rows.spans.token_ranges == (range(1, 2), range(2, 4))


@pytest.mark.parametrize("given", [False, True])
def test_correct_places_are_accepted(given: bool) -> None:
    check(lambda _: None, given=given)


def test_windows_of_ids_have_no_characters() -> None:
    check(lambda places: places.ClearField("characters"), [1, 2, 3, 4, 5])
    with pytest.raises(BadAnswer, match="characters has 2 entries, 0 were expected"):
        check(lambda _: None, [1, 2, 3, 4, 5])


def characters(index: int, **changes: int) -> Change:
    def change(places: pb.SpanPlaces) -> None:
        for name, value in changes.items():
            setattr(places.characters[index], name, value)

    return change


ORDER = "out of order or not requested"
WRONG: dict[str, tuple[dict[str, bool], Change, str]] = {
    "an end too few": ({}, lambda one: one.token_ends.pop(), "has 2 starts, 1 ends"),
    "beyond the tokens": ({}, lambda one: one.token_ends.__setitem__(1, 6), "leaves the 5 tokens"),
    "an empty range": ({}, lambda one: one.token_ends.__setitem__(0, 1), "leaves the 5 tokens"),
    "beyond the text": ({}, characters(1, end=14), "characters leave the text"),
    "of a second text": ({}, characters(1, text=1), "characters leave the text"),
    "no characters": ({}, lambda one: one.ClearField("characters"), "0 entries, 2 were expected"),
    "others than given": ({"given": True}, characters(1, start=3), "are not those given"),
    "windows unasked": ({"beyond": False}, lambda _: None, ORDER),
    "windows out of order": ({}, lambda one: one.window_starts.append(1), ORDER),
    "a window beyond": ({}, lambda one: one.window_starts.append(5), "window_starts leave"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_places_are_refused(case: str) -> None:
    request, change, problem = WRONG[case]
    with pytest.raises(BadAnswer, match=problem):
        check(change, TEXT, **request)
