"""LiteLLM's providers against a real service. Run by `nox -s clients-more`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import litellm
import pytest

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

CLIENTS = ("litellm",)
# LiteLLM's own types, which it imports at the first call.
pytestmark = pytest.mark.filterwarnings("ignore:.*`ReadOnly` qualifier:UserWarning")


def asked(service: Service, texts: Sequence[str], **options: Any) -> dict[str, Any]:
    known = {"api_base": f"http://{service.rest}/v1", "api_key": "any"}
    return {"model": f"openai/{MODEL}", "input": list(texts)} | known | options


def rows(answer: Any) -> list[list[float]]:
    return [each["embedding"] for each in answer.data]


@pytest.mark.parametrize("form", [None, "float"])
async def test_numbers_equal_those_of_the_grpc_client(
    service: Service, vectors: Vectors, form: str | None
) -> None:
    request = asked(service, TEXTS, encoding_format=form)
    answer = litellm.embedding(**request)
    assert_equal(rows(answer), vectors(TEXTS))
    assert answer.usage.prompt_tokens == answer.usage.total_tokens > 4
    assert_equal(rows(await litellm.aembedding(**request)), vectors(TEXTS))


def test_the_longest_list(service: Service, vectors: Vectors) -> None:
    found = rows(litellm.embedding(**asked(service, MANY[:2048])))
    assert_equal(found, vectors(MANY[:2048]))
    with pytest.raises(litellm.BadRequestError, match="2100 entries; give 1 to 2048"):
        litellm.embedding(**asked(service, MANY))


def test_dimensions(service: Service) -> None:
    with pytest.raises(litellm.UnsupportedParamsError):
        litellm.embedding(**asked(service, ["a"], dimensions=64))
    allowed = asked(service, ["a"], dimensions=64, allowed_openai_params=["dimensions"])
    assert len(rows(litellm.embedding(**allowed))[0]) == 64


@pytest.mark.parametrize(
    ("text", "options", "kind", "says"),
    [
        ("", {}, litellm.BadRequestError, "is empty"),
        (TOO_LONG, {}, litellm.BadRequestError, "tokens"),
        ("a", {"model": "openai/other"}, litellm.NotFoundError, MODEL),
    ],
    ids=["empty", "too long", "unknown model"],
)
def test_errors_are_those_of_the_client(
    service: Service, text: str, options: dict[str, Any], kind: Any, says: str
) -> None:
    with pytest.raises(kind, match=says):
        litellm.embedding(**asked(service, [text], **options))


def test_a_timeout_ends_the_work(service: Service) -> None:
    """LiteLLM reads `max_retries=0` as 2."""
    with abandoned(service, *ENDED, requests=2), pytest.raises(litellm.Timeout):
        litellm.embedding(**asked(service, LONG, timeout=SOON, max_retries=1))
    assert rows(litellm.embedding(**asked(service, ["a"])))


async def test_a_cancelled_task_ends_the_work(service: Service) -> None:
    with abandoned(service, *ENDED):
        await cancel_at_work(service, litellm.aembedding(**asked(service, LONG)))
    assert rows(await litellm.aembedding(**asked(service, ["a"])))


def test_refused_requests_are_retried(busy: Service) -> None:
    request = asked(busy, [BUSY], max_retries=50)
    assert_retried(busy, lambda: rows(litellm.embedding(**request))[0])


def test_the_page_runs_as_written(service: Service, vectors: Vectors) -> None:
    found = rows(run_example("litellm", service)["answer"])
    assert_equal(found, vectors(["join two paths", "parse a date"]))


@pytest.mark.parametrize("provider", ["cohere", "hosted_vllm", "jina_ai", "huggingface"])
async def test_documents_are_ranked(several: Service, ranks: Ranks, provider: str) -> None:
    request: dict[str, Any] = {"query": QUERY, "documents": DOCUMENTS, "top_n": 2}
    request |= {"api_base": f"http://{several.rest}", "api_key": "any", "return_documents": True}
    for answer in (
        litellm.rerank(f"{provider}/reranker", **request),
        await litellm.arerank(f"{provider}/reranker", **request),
    ):
        assert [(each["index"], each["relevance_score"]) for each in answer.results] == ranks[:2]
        for each in answer.results:
            assert each["document"] == {"text": DOCUMENTS[each["index"]]}
    with pytest.raises(litellm.BadRequestError, match="is empty"):
        litellm.rerank(f"{provider}/reranker", **request | {"query": ""})


def test_documents_are_ranked_as_written(several: Service, ranks: Ranks) -> None:
    results = run_example("litellm", several, 1)["ranked"].results
    assert [(each["index"], each["relevance_score"]) for each in results] == ranks[:2]
