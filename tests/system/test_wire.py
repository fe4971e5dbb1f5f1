"""Today's service with requests of clients of published versions: answers mean the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from google.protobuf import json_format

from headlight.pb import headlight_pb2 as pb
from headlight.pb import headlight_pb2_grpc as pb_grpc
from tests.system.conftest import bundle_of
from tests.system.processes import Service
from tests.wire.golden import Recorded, as_known_to, recorded
from tests.wire.today.sameness import differences

RECORDED = recorded()
UNKNOWN = b"\xfa\xff\x01\x03new"  # field 4095 of type bytes
# The weights that answer, and the words of an error, are no part of the meaning.
VOLATILE = ("model", "message")


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    """Serve a model of each task."""
    with Service([bundle_of("docs-rope"), bundle_of("docs-rerank")]) as running:
        yield running


def check(now: list[Any], then: list[Any]) -> None:
    """Compare messages except VOLATILE, and numbers within tolerance."""
    both = [[without(json_format.MessageToDict(each)) for each in side] for side in (then, now)]
    assert differences(*both) == []


def without(body: Any) -> Any:
    if isinstance(body, dict):
        return {name: without(value) for name, value in body.items() if name not in VOLATILE}
    return [without(each) for each in body] if isinstance(body, list) else body


def whole(frames: list[Any]) -> list[Any]:
    """Return the answers of a stream by id, assembled from their chunks as the contract says.

    By offset alone.
    """
    outputs = {
        pb.OUTPUT_KIND_TOKENS: "tokens",
        pb.OUTPUT_KIND_ATTENTION: "attention",
        pb.OUTPUT_KIND_HIDDEN: "hidden",
    }
    outputs |= {pb.OUTPUT_KIND_ATTENTION_INDICES: "attention_indices"}
    outputs |= {pb.OUTPUT_KIND_ATTENTION_SCALES: "attention_scales"}
    answers: dict[str, Any] = {}
    for frame in frames:
        kind = frame.WhichOneof("frame")
        if kind in ("response", "error", "header"):
            answers[frame.id] = getattr(frame, kind)
        elif kind == "chunk":
            answer, chunk = answers[frame.id], frame.chunk
            pooled = chunk.output == pb.OUTPUT_KIND_POOLED
            tensor = answer.pooled[chunk.item] if pooled else getattr(answer, outputs[chunk.output])
            assert len(tensor.data) == chunk.offset_bytes
            tensor.data += chunk.data
    return [answers[name] for name in sorted(answers)]


def ask(stub: Any, call: Recorded, more: bytes = b"") -> list[Any]:
    requests = [
        type(each).FromString(raw + more)
        for each, raw in zip(call.parsed("requests"), call.requests, strict=True)
    ]
    if call.method != "EncodeStream":
        return [getattr(stub, call.method)(requests[0], timeout=60)]
    return whole(list(stub.EncodeStream(iter(requests), timeout=60)))


def answers_of(call: Recorded) -> list[Any]:
    answers = call.parsed("responses")
    return whole(answers) if call.method == "EncodeStream" else answers


def described(answers: list[Any]) -> list[Any]:
    """Return the fixed part of a model's description: limits and measurements may change."""
    return [
        answer.info if isinstance(answer, pb.GetModelResponse) else answer for answer in answers
    ]


def check_recorded(call: Recorded, found: list[Any]) -> None:
    """Compare answers with those recorded. A model may have got more outputs since."""
    now = described([as_known_to(call.version, each) for each in found])
    then = described(answers_of(call))
    for one, other in zip(now, then, strict=True):
        if isinstance(one, pb.ModelInfo):
            one.outputs[:] = [name for name in one.outputs if name in other.outputs]
    check(now, then)


@pytest.mark.parametrize("call", RECORDED, ids=[f"{call.version}-{call.name}" for call in RECORDED])
def test_an_old_request_gets_the_recorded_answer(service: Service, call: Recorded) -> None:
    with grpc.insecure_channel(service.target) as channel:
        found = ask(pb_grpc.HeadlightServiceStub(channel), call)
    check_recorded(call, found)


@pytest.mark.parametrize(
    "call", [call for call in RECORDED if call.name in ("pooled", "tokenize", "model")]
)
def test_unknown_fields_outside_specs_are_ignored(service: Service, call: Recorded) -> None:
    with grpc.insecure_channel(service.target) as channel:
        found = ask(pb_grpc.HeadlightServiceStub(channel), call, UNKNOWN)
    check_recorded(call, found)


def test_unknown_fields_in_specs_are_refused_by_name(service: Service) -> None:
    """Otherwise the answer would differ from the request."""
    newer = pb.EncodeRequest(inputs=[pb.Input(text="open")], outputs=pb.Outputs.FromString(UNKNOWN))
    occlude = pb.OccludeRequest.FromString(
        pb.OccludeRequest(input=pb.Input(text="open")).SerializeToString() + UNKNOWN
    )
    with grpc.insecure_channel(service.target) as channel:
        stub = pb_grpc.HeadlightServiceStub(channel)
        for ask_for, request in ((stub.Encode, newer), (stub.Occlude, occlude)):
            with pytest.raises(grpc.RpcError) as refused:
                ask_for(request, timeout=60)
            error: Any = refused.value
            assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
            assert "asks for something" in error.details()
