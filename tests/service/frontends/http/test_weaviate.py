"""Weaviate's door, by the requests that its module sends."""

from __future__ import annotations

from typing import Any

import pytest

from tests.service.fakes import DIM, FakeRuntime
from tests.service.frontends.http.http_service import HttpService, http_service

# What Weaviate itself sends beside the text.
SENT: dict[str, Any] = {"dims": 0, "vector": None, "error": ""}


def vector_of(service: HttpService, text: str, **config: Any) -> Any:
    body = {"text": text, **SENT, "config": {"pooling_strategy": "masked_mean", **config}}
    return service.ask("//vectors", body, headers={})


def test_a_single_text(service: HttpService) -> None:
    body = vector_of(service, "a bb").json
    assert (body["text"], body["dim"], body["dims"]) == ("a bb", DIM, DIM)
    assert body["vector"][0] == 3000


def test_a_response_without_content_has_no_length(service: HttpService) -> None:
    reply = service.ask("/.well-known/live")
    assert (reply.status, reply.body) == (204, b"")
    assert not {"content-length", "transfer-encoding"} & set(reply.headers)


def test_a_batch_of_texts(service: HttpService) -> None:
    body = service.ask("/vectors", {"texts": ["a", "bb"], "config": {}}).json
    assert ([each[0] for each in body["vectors"]], body["dims"]) == ([1000, 2000], DIM)


@pytest.mark.parametrize(
    ("prompts", "task", "tokens"),
    [
        ({"query": "q ", "document": "d d "}, "query", 2),
        ({"query": "q ", "document": "d d "}, "passage", 3),
        ({"passage": "p ", "document": "d d "}, "passage", 2),
        ({}, "query", 1),
        ({"query": "q "}, "", 1),
    ],
)
def test_the_task_chooses_the_prompt(prompts: dict[str, str], task: str, tokens: int) -> None:
    with http_service(FakeRuntime(prompts=prompts)) as service:
        assert vector_of(service, "a", task_type=task).status == 200
        [[item]] = service.engine.batches
        assert len(item.ids) == tokens


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({}, "text"),
        ({"text": 1}, "text: must be a text"),
        ({"texts": "a"}, "texts: must be a list"),
        ({"texts": [1]}, "texts: must be a list"),
        ({"texts": []}, "texts: has 0 entries"),
        ({"texts": ["a", ""]}, "texts[1]: is empty"),
        ({"text": ""}, "text: is empty"),
        ({"text": "a", "config": []}, "config: must be an object"),
        ({"text": "a", "config": {"pooling_strategy": "cls"}}, "poolingStrategy: masked_mean"),
        ({"text": "a", "config": {"task_type": "other"}}, "query, passage"),
        ({"text": "a", "config": {"dimensions": 9}}, "9"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_errors_have_weaviates_form(service: HttpService, body: Any, says: str) -> None:
    reply = service.ask("/vectors", body)
    assert (reply.status, set(reply.json)) == (400, {"error"})
    assert says in reply.json["error"]
