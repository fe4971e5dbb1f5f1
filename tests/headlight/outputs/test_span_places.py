"""Places of spans in an answer that leave their input, or are not those requested."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headlight import BadAnswer
from headlight.interface.arguments import Input
from headlight.outputs.spans import check_spans
from headlight.pb import headlight_pb2 as pb

TEXT = "one two three"
GIVEN = [pb.TextSpan(start=0, end=3), pb.TextSpan(start=4, end=13)]
Change = Callable[[pb.SpanPlaces], object]


def spec(*, given: bool = False, beyond: bool = True) -> pb.SpansOutput:
    lists = pb.GivenSpans(inputs=[pb.TextSpans(spans=GIVEN)])
    return pb.SpansOutput(given=lists if given else None, beyond_max_length=beyond)


def answer() -> pb.EncodeResponse:
    """Return an answer of two spans in five tokens, read in two windows."""
    places = pb.SpanPlaces(
        characters=GIVEN, token_starts=[1, 2], token_ends=[2, 4], window_starts=[1, 2]
    )
    return pb.EncodeResponse(items=[pb.Item(token_count=5)], span_places=[places])


def check(request: pb.SpansOutput, change: Change, given: Input = TEXT) -> None:
    response = answer()
    change(response.span_places[0])
    check_spans(request, response, [given])


@pytest.mark.parametrize("given", [False, True])
def test_correct_places_are_accepted(given: bool) -> None:
    check(spec(given=given), lambda _: None)


def test_windows_of_ids_have_no_characters() -> None:
    check(spec(), lambda places: places.ClearField("characters"), [1, 2, 3, 4, 5])
    with pytest.raises(BadAnswer, match="characters has 2 entries, 0 were expected"):
        check(spec(), lambda _: None, [1, 2, 3, 4, 5])


WRONG: dict[str, tuple[pb.SpansOutput, Change, str]] = {
    "an end too few": (spec(), lambda one: one.token_ends.pop(), "has 2 starts, 1 ends"),
    "beyond the tokens": (
        spec(),
        lambda one: one.token_ends.__setitem__(1, 6),
        "leaves the 5 tokens",
    ),
    "an empty range": (
        spec(),
        lambda one: one.token_ends.__setitem__(0, 1),
        "leaves the 5 tokens",
    ),
    "beyond the text": (
        spec(),
        lambda one: setattr(one.characters[1], "end", 14),
        "characters leave the text",
    ),
    "of a second text": (
        spec(),
        lambda one: setattr(one.characters[1], "text", 1),
        "characters leave the text",
    ),
    "no characters": (
        spec(),
        lambda one: one.ClearField("characters"),
        "has 0 entries, 2 were expected",
    ),
    "others than given": (
        spec(given=True),
        lambda one: setattr(one.characters[1], "start", 3),
        "are not those given",
    ),
    "windows unasked": (spec(beyond=False), lambda _: None, "out of order or not asked for"),
    "windows out of order": (
        spec(),
        lambda one: one.window_starts.append(1),
        "out of order or not asked for",
    ),
    "a window beyond": (spec(), lambda one: one.window_starts.append(5), "window_starts leave"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_places_are_refused(case: str) -> None:
    request, change, problem = WRONG[case]
    with pytest.raises(BadAnswer, match=problem):
        check(request, change)
