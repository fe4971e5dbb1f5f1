"""LangChain's classes for OpenAI and Cohere on a real service. Run by `nox -s clients-more`."""

from __future__ import annotations

from typing import Any

import cohere
import openai
import pytest
import tiktoken
from langchain_cohere import CohereRerank
from langchain_huggingface import HuggingFaceEndpointEmbeddings
from langchain_openai import OpenAIEmbeddings

from tests.clients.abandoned import LONG, SOON, abandoned, cancel_at_work
from tests.clients.conftest import DOCUMENTS, QUERY, Ranks
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

CLIENTS = ("langchain-openai", "langchain-huggingface", "langchain-cohere")


def embeddings(service: Service, **options: Any) -> OpenAIEmbeddings:
    known = {"model": MODEL, "base_url": f"http://{service.rest}/v1", "api_key": "any"}
    return OpenAIEmbeddings(**known | {"check_embedding_ctx_length": False} | options)


async def test_numbers_equal_those_of_the_grpc_client(service: Service, vectors: Vectors) -> None:
    client = embeddings(service)
    assert_equal(client.embed_documents(TEXTS), vectors(TEXTS))
    assert_equal(client.embed_query(TEXTS[2]), vectors(TEXTS)[2])
    assert_equal(await client.aembed_documents(TEXTS), vectors(TEXTS))


def test_long_lists_in_chunks(service: Service, vectors: Vectors) -> None:
    assert_equal(embeddings(service).embed_documents(MANY), vectors(MANY))
    chunks = [f"{number} " + "read a file " * 48 for number in range(200)]  # of 585 characters
    assert_equal(embeddings(service, chunk_size=512).embed_documents(chunks), vectors(chunks))
    with pytest.raises(openai.BadRequestError, match="2100 entries; give 1 to 2048"):
        embeddings(service, chunk_size=len(MANY)).embed_documents(MANY)


def test_dimensions(service: Service) -> None:
    assert len(embeddings(service, dimensions=64).embed_query("a")) == 64


@pytest.mark.parametrize(
    ("text", "options", "kind", "says"),
    [
        ("", {}, openai.BadRequestError, "is empty"),
        (TOO_LONG, {}, openai.BadRequestError, "tokens"),
        ("a", {"model": "other"}, openai.NotFoundError, MODEL),
    ],
    ids=["empty", "too long", "unknown model"],
)
def test_errors_are_those_of_openai(
    service: Service, text: str, options: dict[str, Any], kind: Any, says: str
) -> None:
    with pytest.raises(kind, match=says):
        embeddings(service, **options).embed_documents([text])


def test_a_timeout_ends_the_work(service: Service) -> None:
    hasty = embeddings(service, timeout=SOON, max_retries=0)
    with abandoned(service, *ENDED), pytest.raises(openai.APITimeoutError):
        hasty.embed_documents(LONG)
    assert len(embeddings(service).embed_query("a")) == 256


async def test_a_cancelled_task_ends_the_work(service: Service) -> None:
    client = embeddings(service)
    with abandoned(service, *ENDED):
        await cancel_at_work(service, client.aembed_documents(LONG))
    assert len(await client.aembed_query("a")) == 256


def test_token_ids_are_refused_with_the_remedy(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A vocabulary of bytes stands in for OpenAI's, which would be downloaded."""
    ranks = {bytes([value]): value for value in range(256)}
    vocabulary = tiktoken.Encoding(
        "bytes", pat_str=r"[\s\S]", mergeable_ranks=ranks, special_tokens={}
    )
    monkeypatch.setattr(tiktoken, "get_encoding", lambda name: vocabulary)
    client = embeddings(service, check_embedding_ctx_length=True)
    with pytest.raises(openai.BadRequestError, match="check_embedding_ctx_length=False"):
        client.embed_documents(["a text"])


def test_refused_requests_are_retried(busy: Service) -> None:
    assert_retried(busy, lambda: embeddings(busy, max_retries=50).embed_query(BUSY))


def test_the_class_for_endpoints_of_hugging_face_refuses_urls(service: Service) -> None:
    with pytest.raises(ValueError, match="must be a HuggingFace repo ID, not a URL"):
        HuggingFaceEndpointEmbeddings(model=f"http://{service.rest}")


def test_the_page_runs_as_written(service: Service, vectors: Vectors) -> None:
    found = run_example("langchain", service)["vectors"]
    assert_equal(found, vectors(["join two paths", "parse a date"]))


def test_documents_are_ranked_as_written(several: Service, ranks: Ranks) -> None:
    known = run_example("langchain", several, 1)
    best = [(DOCUMENTS.index(each.page_content), each.metadata) for each in known["best"]]
    assert [(at, metadata["relevance_score"]) for at, metadata in best] == ranks[:2]
    reranker: CohereRerank = known["reranker"]
    ranked = reranker.rerank(DOCUMENTS, QUERY, top_n=None)
    assert [(each["index"], each["relevance_score"]) for each in ranked] == ranks
    with pytest.raises(cohere.NotFoundError, match="model: not served here"):
        reranker.rerank(DOCUMENTS, QUERY, model="rerank-v3.5")
