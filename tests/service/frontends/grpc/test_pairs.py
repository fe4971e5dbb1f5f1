"""Pairs of texts and ids with segments, over a real socket."""

from __future__ import annotations

from headlight.pb import headlight_pb2 as pb
from tests.service.conftest import Serve
from tests.service.fakes import FakeRuntime

KINDS = ("text", "pair", "ids")


def ids(*values: int, segments: tuple[int, ...] = ()) -> pb.Input:
    return pb.Input(ids=pb.TokenIds(ids=values, segments=segments))


def pair(first: str, second: str) -> pb.Input:
    return pb.Input(pair=pb.TextPair(first=first, second=second))


async def test_pairs_and_segments_reach_the_engine(serve: Serve) -> None:
    inputs = [pair("one two", "three"), ids(4, 5, segments=(0, 1)), ids(4, 5)]
    async with serve(FakeRuntime(accepts=KINDS)) as service:
        assert list((await service.stub.GetModel(pb.GetModelRequest())).info.accepts) == list(KINDS)
        await service.stub.Encode(pb.EncodeRequest(inputs=inputs))
        items = [item for batch in service.engine.batches for item in batch]
        told: dict[tuple[int, ...], list[list[int]]] = {
            tuple(item.ids.tolist()): [] for item in items
        }
        for item in items:
            assert item.segments is not None
            told[tuple(item.ids.tolist())].append(item.segments.tolist())
        assert {key: sorted(value) for key, value in told.items()} == {
            (3, 3, 5): [[0, 0, 1]],
            (4, 5): [[0, 0], [0, 1]],
        }
        tokenized = await service.stub.Tokenize(pb.TokenizeRequest(inputs=inputs[:1]))
        assert list(tokenized.items[0].ids) == [3, 3, 5]
