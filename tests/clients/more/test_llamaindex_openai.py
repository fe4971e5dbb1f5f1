"""LlamaIndex's class for servers like OpenAI's. Run by `nox -s clients-more`."""

from __future__ import annotations

from typing import Any

import openai
import pytest
from llama_index.embeddings.openai_like import OpenAILikeEmbedding

from tests.clients.abandoned import LONG, SOON, abandoned, cancel_at_work
from tests.clients.more.conftest import (
    ENDED,
    MANY,
    MODEL,
    TEXTS,
    TOO_LONG,
    Vectors,
    assert_equal,
    assert_retried,
    run_example,
)
from tests.clients.overload import BUSY
from tests.system.processes import Service

CLIENTS = ("llama-index-embeddings-openai-like",)


def embedding(service: Service, **options: Any) -> OpenAILikeEmbedding:
    known = {"model_name": MODEL, "api_base": f"http://{service.rest}/v1", "api_key": "any"}
    return OpenAILikeEmbedding(**known | options)


async def test_numbers_equal_those_of_the_grpc_client(service: Service, vectors: Vectors) -> None:
    client = embedding(service)
    assert_equal(client.get_text_embedding_batch(TEXTS), vectors(TEXTS))
    assert_equal(client.get_query_embedding(TEXTS[2]), vectors(TEXTS)[2])
    assert_equal(await client.aget_text_embedding(TEXTS[0]), vectors(TEXTS)[0])


def test_long_lists_in_batches(service: Service, vectors: Vectors) -> None:
    client = embedding(service, embed_batch_size=512)
    assert_equal(client.get_text_embedding_batch(MANY), vectors(MANY))


def test_dimensions(service: Service) -> None:
    assert len(embedding(service, dimensions=64).get_text_embedding("a")) == 64


@pytest.mark.parametrize(
    ("text", "options", "kind", "says"),
    [
        ("", {}, openai.BadRequestError, "is empty"),
        (TOO_LONG, {}, openai.BadRequestError, "tokens"),
        ("a", {"model_name": "other"}, openai.NotFoundError, MODEL),
    ],
    ids=["empty", "too long", "unknown model"],
)
def test_errors_are_those_of_openai(
    service: Service, text: str, options: dict[str, Any], kind: Any, says: str
) -> None:
    with pytest.raises(kind, match=says):
        embedding(service, **options).get_text_embedding(text)


def test_a_timeout_ends_the_work(service: Service) -> None:
    hasty = embedding(service, timeout=SOON, max_retries=0, embed_batch_size=len(LONG))
    with abandoned(service, *ENDED), pytest.raises(openai.APITimeoutError):
        hasty.get_text_embedding_batch(LONG)
    assert len(embedding(service).get_text_embedding("a")) == 256


async def test_a_cancelled_task_ends_the_work(service: Service) -> None:
    client = embedding(service, embed_batch_size=len(LONG))
    with abandoned(service, *ENDED):
        await cancel_at_work(service, client.aget_text_embedding_batch(LONG))
    assert len(await client.aget_text_embedding("a")) == 256


def test_refused_requests_are_retried(busy: Service) -> None:
    assert_retried(busy, lambda: embedding(busy, max_retries=50).get_text_embedding(BUSY))


def test_the_page_runs_as_written(service: Service, vectors: Vectors) -> None:
    found = run_example("llamaindex", service)["vector"]
    assert_equal(found, vectors(["join two paths"])[0])
