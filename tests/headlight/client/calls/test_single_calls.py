"""Retry delays of single unary calls: those of the server, as for lists."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from headlight import AttentionSpec, Overloaded
from headlight.client.call_flow import MOST_RETRIES
from headlight.pb import headlight_pb2 as pb
from tests.headlight.fake_model import REF, tokens_of
from tests.headlight.fake_server import FakeServicer, abort, default_limits, shed

METHODS: list[Callable[[Any], Any]] = [
    lambda client: client.occlusion("one two"),
    lambda client: client.attention_bytes("one two", AttentionSpec()),
    lambda client: client.model(),
    lambda client: client.list_models(),
]


@dataclasses.dataclass
class Shedding(FakeServicer):
    """Fake that refuses every kind of call while refusals are left."""

    calls: int = 0

    def refuse(self, context: Any) -> None:
        self.calls += 1
        if refusal := self.draw():
            abort(context, refusal)

    def GetModel(self, request: pb.GetModelRequest, context: Any) -> pb.GetModelResponse:
        self.refuse(context)
        return super().GetModel(request, context)

    def ListModels(self, request: pb.ListModelsRequest, context: Any) -> pb.ListModelsResponse:
        self.refuse(context)
        return super().ListModels(request, context)

    def Encode(self, request: pb.EncodeRequest, context: Any) -> pb.EncodeResponse:
        self.refuse(context)
        return super().Encode(request, context)

    def Occlude(self, request: pb.OccludeRequest, context: Any) -> pb.OccludeResponse:
        self.refuse(context)
        moved = pb.Tensor(dtype=pb.DATA_TYPE_FLOAT32, shape=[1], data=bytes(4))
        return pb.OccludeResponse(
            model=REF, item=pb.Item(tokens=tokens_of(request.input)), tokens=[1], moved=moved
        )


@pytest.fixture
def servicer() -> Shedding:
    return Shedding(default_limits())


@pytest.mark.parametrize("method", METHODS)
def test_shed_calls_are_retried_after_the_delay_of_the_server(
    either: Any, servicer: Shedding, method: Callable[[Any], Any]
) -> None:
    servicer.refusals.extend([shed(1)] * MOST_RETRIES)
    assert method(either) is not None
    assert servicer.calls == MOST_RETRIES + 1
    servicer.refusals.extend([shed(1)] * (MOST_RETRIES + 1))
    with pytest.raises(Overloaded):
        method(either)
