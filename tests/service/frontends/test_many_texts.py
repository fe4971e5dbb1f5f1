"""Requests for more vectors than the queue takes at once, through every door that takes lists."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from headlight.pb import headlight_pb2 as pb
from headlight_service.frontends.oip import inference_messages as oip
from headlight_service.frontends.oip.model_views import DATATYPES
from tests.service.conftest import Serve, Service
from tests.service.fakes import DIM
from tests.service.frontends.http.http_service import http_service
from tests.service.frontends.oip.inference_calls import FAKE, InferenceStub, of_ids, of_texts

# As many texts as a request may have, with 65,536 tokens, of which the queue takes 16,384 at once;
# or a hundred, where it takes 512. The first number of a vector is the sum of the words' lengths,
# times 1,000.
MANY = [" ".join(["be"] * 31 + ["x" * (at % 90 + 1)]) for at in range(2048)]
FIRST = [1000.0 * (2 * 31 + at % 90 + 1) for at in range(2048)]
FEW: dict[str, Any] = {"max_items": 100, "max_request_tokens": 512, "max_queue_tokens": 1024}
HTTP: dict[str, tuple[str, Any, Any]] = {
    "openai": (
        "/v1/embeddings",
        lambda texts: {"input": texts},
        lambda body: [each["embedding"] for each in body["data"]],
    ),
    "tei": ("/embed", lambda texts: {"inputs": texts, "normalize": False}, lambda body: body),
    "weaviate": ("/vectors", lambda texts: {"texts": texts}, lambda body: body["vectors"]),
    "contract": (
        "/v1/encode",
        lambda texts: {"inputs": [{"text": text} for text in texts]},
        lambda body: body["pooled"][0]["data"],
    ),
}


@pytest.mark.parametrize("door", HTTP)
def test_any_accepted_number_of_texts_is_answered_over_http(door: str) -> None:
    path, body, rows = HTTP[door]
    with http_service(**FEW) as service:
        reply = service.ask(path, body(MANY[:100]))
        assert reply.status == 200, reply.body[:300]
        found = np.array(rows(reply.json), np.float32).reshape(100, DIM)
        assert found[:, 0].tolist() == FIRST[:100]
        error = service.ask(path, body([*MANY[:99], ""]))
        assert error.status in (400, 422)
        assert "[99]" in str(error.json)


def test_long_lists_of_ids_are_accepted_over_http() -> None:
    with http_service() as service:
        inputs = [{"ids": {"ids": [3] * 128}}] * 2048
        reply = service.ask("/v1/encode", {"inputs": inputs, "dry_run": True})
        assert reply.status == 200, reply.body[:300]
        assert len(reply.json["items"]) == 2048


async def test_any_accepted_number_of_texts_is_answered_over_grpc(service: Service) -> None:
    request = pb.EncodeRequest(inputs=[pb.Input(text=text) for text in MANY])
    answer = await service.stub.Encode(request)
    found = np.frombuffer(answer.pooled[0].data, "<f4").reshape(len(MANY), DIM)
    assert found[:, 0].tolist() == FIRST
    assert [item.token_count for item in answer.items] == [32] * len(MANY)
    assert answer.usage.token_count == 32 * len(MANY)
    stream = service.stub.EncodeStream(iter([pb.EncodeStreamRequest(id="a", encode=request)]))
    [frame] = [frame async for frame in stream]
    assert frame.response.pooled == answer.pooled


async def test_any_accepted_number_of_texts_and_ids_is_answered_in_tensors(serve: Serve) -> None:
    ids = [[2] * 31 + [at % 90 + 1] for at in range(100)]
    async with serve(**FEW) as service:
        stub = InferenceStub(service.channel)
        config = (await stub.ModelConfig(oip.ModelConfigRequest(name=FAKE))).config
        assert config.max_batch_size == 100
        for request in (of_texts(*MANY[:100]), of_ids(ids)):
            answer = await stub.ModelInfer(request)
            [raw] = answer.raw_output_contents
            found = np.frombuffer(raw, DATATYPES["FP32"]).reshape(100, DIM)
            assert found[:, 0].tolist() == FIRST[:100]
