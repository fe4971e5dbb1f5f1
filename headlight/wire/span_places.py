"""Checks of the places of spans in an answer; see `headlight.wire.answer_checks`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headlight.interface.arguments import Input
from headlight.pb import headlight_pb2 as pb
from headlight.wire.client_codec import malformed, require


def check_spans(spec: pb.SpansOutput, response: pb.EncodeResponse, inputs: Sequence[Input]) -> None:
    """Check the characters, tokens and windows of the spans of each input.

    Args:
        spec: the request, with the spans of these inputs if they were given.
        response: the answer, whose layouts are consistent.
        inputs: the inputs that it answers.

    Raises:
        BadAnswer: they leave their input, or are not those requested.
    """
    for at, (places, item, given) in enumerate(
        zip(response.span_places, response.items, inputs, strict=True)
    ):
        field, text = f"span_places[{at}]", given if isinstance(given, str) else None
        starts, ends = np.array(places.token_starts), np.array(places.token_ends)
        require(len(starts) == len(ends), f"{field} has {len(starts)} starts, {len(ends)} ends")
        inside = (starts < ends).all() and ends.max(initial=0) <= item.token_count
        require(inside, f"{field} leaves the {item.token_count} tokens of its input")
        expected = 0 if text is None else len(starts)
        require(
            len(places.characters) == expected,
            f"{field}.characters has {len(places.characters)} entries, {expected} were expected",
        )
        for each in places.characters if text is not None else ():
            if not each.start <= each.end <= len(text or "") or each.text:
                raise malformed(f"{field}.characters leave the text that was sent")
        if spec.HasField("given"):
            asked = list(spec.given.inputs[at].spans)
            require(list(places.characters) == asked, f"{field}.characters are not those given")
        windows = list(places.window_starts)
        require(
            not windows or (spec.beyond_max_length and windows == sorted(set(windows))),
            f"{field}.window_starts are {windows[:8]}, out of order or not asked for",
        )
        require(
            all(start < item.token_count for start in windows),
            f"{field}.window_starts leave the {item.token_count} tokens of its input",
        )
