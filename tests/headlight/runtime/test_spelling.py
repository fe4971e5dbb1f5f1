"""The most bytes of spelled terms."""

from __future__ import annotations

import itertools
from typing import Any

import orjson

from headlight.pb import headlight_pb2 as pb
from headlight.runtime.spelling import Spelling

PIECES = ('"', "\x01", "▁a", "", "##word" * 30)


class Vocabulary:
    def pieces(self, ids: Any) -> tuple[str, ...]:
        return tuple(PIECES[i] for i in ids)


def test_no_terms_take_more_than_the_bound() -> None:
    tokenizer: Any = Vocabulary()
    spelling = Spelling(tokenizer, len(PIECES))
    for count in range(1, len(PIECES) + 1):
        sizes = []
        for chosen in itertools.combinations(PIECES, count):
            item = pb.Item(terms=pb.TermInfo(pieces=chosen))
            sizes += [len(orjson.dumps({"terms": {"pieces": chosen}})), item.ByteSize()]
        assert max(sizes) <= spelling.most_bytes(count) <= max(sizes) + 32
    assert spelling.most_bytes(0) == 0
