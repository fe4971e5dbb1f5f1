"""Occlusion over a real socket: what it asks for, what it holds, and what becomes of it where others ask too."""

from __future__ import annotations

import math
import tracemalloc

import grpc
import pytest

from headlight.errors import InvalidInput
from headlight.pb import headlight_pb2 as pb
from service.occlusion import occlude
from tests.service.calls import details_of, refused, text_of
from tests.service.conftest import Serve
from tests.service.fakes import MAX_LENGTH


def naming(count: int) -> pb.OccludeRequest:
    """A request that names so many tokens, all the same."""
    return pb.OccludeRequest(input=text_of(3), tokens=pb.TokenSelector(indices=pb.TokenIndices(indices=[300] * count)))


async def test_more_tokens_than_an_input_can_have_are_refused_by_their_number(serve: Serve) -> None:
    async with serve() as service:
        error = await refused(service.stub.Occlude(naming(MAX_LENGTH + 1)), grpc.StatusCode.INVALID_ARGUMENT)
        told = f"tokens: has {MAX_LENGTH + 1} entries, of which there are at most {MAX_LENGTH}; name each once"
        assert error.details() == told
        assert details_of(error)["BadRequest"].field_violations[0].field == "tokens"
        error = await refused(service.stub.Occlude(naming(MAX_LENGTH)), grpc.StatusCode.INVALID_ARGUMENT)
        assert "this input has 3" in (error.details() or "")


async def test_millions_of_tokens_are_refused_without_becoming_objects(serve: Serve) -> None:
    async with serve() as service:
        many, model = naming(1_000_000), service.models.get("")
        tracemalloc.start()
        try:
            with pytest.raises(InvalidInput):
                await occlude(model, many, math.inf)
            assert tracemalloc.get_traced_memory()[1] < 1 << 20
        finally:
            tracemalloc.stop()
