"""What hides tokens: requests that are refused before anything is made of them."""

from __future__ import annotations

import grpc
import pytest

from headlight.pb import headlight_pb2 as pb
from tests.service.calls import refused, text_of
from tests.service.conftest import Serve

INVALID = grpc.StatusCode.INVALID_ARGUMENT
MANY = [1] * 20_000
IDS, SEGMENTS = pb.TokenIds(ids=MANY), pb.TokenIds(ids=[1], segments=MANY)
CHOSEN = pb.TokenSelector(indices=pb.TokenIndices(indices=MANY))


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (pb.OccludeRequest(input=pb.Input(ids=IDS)), "input.ids"),
        (pb.OccludeRequest(input=pb.Input(ids=SEGMENTS)), "input.ids.segments"),
        (pb.OccludeRequest(input=text_of(3), tokens=CHOSEN), "tokens"),
    ],
    ids=["ids", "segments", "tokens"],
)
async def test_lists_longer_than_any_input_are_refused_uncopied(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, request_: pb.OccludeRequest, field: str
) -> None:
    monkeypatch.setattr("service.occlusion.has_unknown", None)  # it copies
    async with serve(max_request_tokens=10_000) as service:
        error = await refused(service.stub.Occlude(request_), INVALID)
    assert error.details() == f"{field}: has 20000 entries; send at most 10000"


async def test_what_a_newer_client_wants_is_refused(serve: Serve) -> None:
    request = pb.OccludeRequest(input=text_of(3))
    request.MergeFromString(b"\xa0\x06\x01")  # field 100
    async with serve() as service:
        error = await refused(service.stub.Occlude(request), INVALID)
    assert "asks for something that this server does not know" in (error.details() or "")
