"""Requests for more vectors than the queue takes at once, through every door that takes lists."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from headlight.pb import headlight_pb2 as pb
from headlight_service.frontends.oip import inference_messages as oip
from headlight_service.frontends.oip.model_views import DATATYPES
from tests.service.conftest import Serve
from tests.service.fakes import DIM
from tests.service.frontends.http.http_service import http_service
from tests.service.frontends.oip.inference_calls import FAKE, InferenceStub, of_ids, of_texts

# 20,000 tokens, of which the queue takes 16,384 of one request; and as many texts as it may have,
# with 65,536 tokens. The first number of a vector is the sum of the words' lengths, times 1,000.
WORDS = [" ".join(["word"] * 199 + ["x" * (at % 90 + 1)]) for at in range(100)]
MANY = [" ".join(["be"] * 31 + ["x" * (at % 90 + 1)]) for at in range(2048)]
IDS = [[2] * 31 + [at % 90 + 1] for at in range(2048)]
FIRST = {
    100: [1000.0 * (4 * 199 + at % 90 + 1) for at in range(100)],
    2048: [1000.0 * (2 * 31 + at % 90 + 1) for at in range(2048)],
}
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


@pytest.mark.parametrize(("door", "texts"), [("contract", WORDS), *((door, MANY) for door in HTTP)])
def test_any_accepted_number_of_texts_is_answered_over_http(door: str, texts: list[str]) -> None:
    path, body, rows = HTTP[door]
    with http_service() as service:
        reply = service.ask(path, body(texts))
        assert reply.status == 200, reply.body[:300]
        found = np.array(rows(reply.json), np.float32).reshape(len(texts), DIM)
        assert found[:, 0].tolist() == FIRST[len(texts)]
        error = service.ask(path, body([*texts[:-1], ""]))
        assert error.status in (400, 422)
        assert f"[{len(texts) - 1}]" in str(error.json)


def test_long_lists_of_ids_are_answered_over_http() -> None:
    with http_service() as service:
        inputs = [{"ids": {"ids": [3] * 128}}] * 2048
        reply = service.ask("/v1/encode", {"inputs": inputs, "encoding": "base64"})
        assert reply.status == 200, reply.body[:300]
        assert len(reply.json["items"]) == 2048


@pytest.mark.parametrize("texts", [WORDS, MANY], ids=len)
async def test_any_accepted_number_of_texts_is_answered_over_grpc(
    serve: Serve, texts: list[str]
) -> None:
    async with serve() as service:
        request = pb.EncodeRequest(inputs=[pb.Input(text=text) for text in texts])
        answer = await service.stub.Encode(request)
        found = np.frombuffer(answer.pooled[0].data, "<f4").reshape(len(texts), DIM)
        assert found[:, 0].tolist() == FIRST[len(texts)]
        lengths = [len(text.split()) for text in texts]
        assert [item.token_count for item in answer.items] == lengths
        assert answer.usage.token_count == sum(lengths)
        stream = service.stub.EncodeStream(iter([pb.EncodeStreamRequest(id="a", encode=request)]))
        [frame] = [frame async for frame in stream]
        assert frame.response.pooled == answer.pooled


async def test_any_accepted_number_of_texts_and_ids_is_answered_in_tensors(serve: Serve) -> None:
    async with serve() as service:
        stub = InferenceStub(service.channel)
        config = (await stub.ModelConfig(oip.ModelConfigRequest(name=FAKE))).config
        assert config.max_batch_size == len(MANY)
        for request in (of_texts(*MANY), of_ids(IDS)):
            answer = await stub.ModelInfer(request)
            [raw] = answer.raw_output_contents
            found = np.frombuffer(raw, DATATYPES["FP32"]).reshape(len(MANY), DIM)
            assert found[:, 0].tolist() == FIRST[len(MANY)]
