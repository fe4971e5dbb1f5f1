"""vLLM's /pooling: of texts and of tokens; test_rerank has classes, test_multi_vector vectors."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import pytest

from headlight.runtime import Runtime
from tests.service.fakes import DIM, FakeRuntime
from tests.service.frontends.http.http_service import HttpService, http_service

TEXTS = ["red", "a planet"]


def test_texts_and_their_tokens_have_vectors(runtime: Runtime) -> None:
    with http_service(runtime) as service:

        def data(**fields: Any) -> list[Any]:
            reply = service.ask("/pooling", {"input": TEXTS, **fields})
            assert reply.status == 200, reply.body
            assert (reply.json["object"], reply.json["model"]) == ("list", service.model.name)
            assert [each["index"] for each in reply.json["data"]] == [0, 1]
            assert {each["object"] for each in reply.json["data"]} == {"pooling"}
            return [each["data"] for each in reply.json["data"]]

        expected = runtime.encode(TEXTS, normalize=True)
        for fields in ({}, {"task": "embed", "truncate_prompt_tokens": -1}):
            np.testing.assert_allclose(data(**fields), expected, atol=1e-5)
        raw = runtime.encode(TEXTS, normalize=False, dimensions=8)
        found = data(use_activation=False, dimensions=8)
        np.testing.assert_allclose(found, raw, atol=1e-5)
        rows = runtime.encode_tokens(TEXTS, normalize=True)
        for found, each in zip(data(task="token_embed"), rows, strict=True):
            np.testing.assert_allclose(found, each, atol=1e-5)
        for found, each in zip(
            data(task="token_embed", encoding_format="base64"), rows, strict=True
        ):
            bits = np.frombuffer(base64.b64decode(found), "<f4").reshape(each.shape)
            np.testing.assert_allclose(bits, each, atol=1e-5)


def test_ids_are_taken_for_the_models_own_and_roles_choose_prompts() -> None:
    with http_service(FakeRuntime(prompts={"query": "q q "})) as service:

        def tokens(**body: Any) -> int:
            usage = service.ask("/pooling", body).json["usage"]
            assert usage["prompt_tokens"] == usage["total_tokens"]
            return int(usage["total_tokens"])

        assert tokens(input=[5, 6, 7]) == 3
        assert tokens(input=[[5, 6], [7]]) == 3
        assert tokens(input="a") == 1
        assert tokens(input="a", role="query") == 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"input": None}, "input: is missing"),
        ({"input": []}, "input: is empty"),
        ({"input": ["a", ""]}, "input[1]: is empty"),
        ({"input": ["a", {"text": "b"}]}, "input[1]: must be a text, or a list of token ids"),
        ({"input": [[-1]]}, "input[0]: holds a number that is no token id"),
        ({"input": ["a"] * 3000}, "input: has 3000 entries"),
        ({"task": "plugin"}, "task: must be one of embed, classify, token_embed"),
        ({"task": "classify"}, "task: this model gives no scores"),
        ({"task": "token_classify"}, "task: this model gives no scores"),
        ({"task": "token_embed", "dimensions": 2}, f"dimensions: is 2; these vectors have {DIM}"),
        ({"dimensions": 9}, "dimensions: is 9"),
        ({"messages": [{"role": "user", "content": "a"}]}, "messages: is not applied here"),
        ({"data": {}}, "data: is not applied here"),
        ({"add_special_tokens": False}, "add_special_tokens: is not applied here"),
        ({"embed_dtype": "fp8_e4m3"}, "embed_dtype: is not applied here"),
        ({"endianness": "big"}, "endianness: is not applied here"),
        ({"encoding_format": "bytes"}, "encoding_format: must be float or base64"),
        ({"truncation_side": "up"}, "truncation_side: must be right or left"),
        ({"truncate_prompt_tokens": 8}, "truncate_prompt_tokens: is not applied here"),
        ({"use_activation": 1}, "use_activation: must be true or false"),
        ({"role": "answer"}, "role: must be one of query, document"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_cannot_be_pooled_is_named(
    service: HttpService, change: dict[str, Any], message: str
) -> None:
    reply = service.ask("/pooling", {"input": "a", **change})
    assert reply.status == 400
    assert reply.json["error"]["message"].startswith(message)
    assert service.engine.batches == []
