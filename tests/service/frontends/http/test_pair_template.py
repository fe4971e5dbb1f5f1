"""Models with a template of pairs, behind HTTP: it is applied as in the runtime."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from headlight.runtime import Runtime
from tests import scorers
from tests.factory import with_options
from tests.service.frontends.http.http_service import HttpService, http_service

TEMPLATE = {"plain": ["q ", " d ", " end"], "prompted": ["do ", " q ", " d ", " end"]}
DOCUMENTS = ["red", "a planet", "x" * 60, "green"]
BODY = {"query": "red", "documents": DOCUMENTS, "raw_scores": True}
PAIRS = [("red", document) for document in DOCUMENTS]


@pytest.fixture(scope="module")
def ranking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    plain = scorers.bundle(tmp_path_factory, "reranker")
    folder = tmp_path_factory.mktemp("template") / "bundle"
    with_options(plain, folder, pair_template=TEMPLATE, prompts={"a": "it"}, default_prompt="a")
    with Runtime(folder, threads=1) as runtime:
        yield runtime


@pytest.fixture(scope="module")
def service(ranking: Runtime) -> Iterator[HttpService]:
    with http_service(ranking) as service:
        yield service


def scores(service: HttpService, **change: str) -> list[float]:
    """Return the logits in the order of the documents."""
    reply = service.ask("/rerank", BODY | change)
    assert reply.status == 200, reply.body
    ranks = sorted(reply.json["results"], key=lambda each: each["index"])
    return [each["relevance_score"] for each in ranks]


def test_the_template_and_its_instruction_are_applied(
    service: HttpService, ranking: Runtime
) -> None:
    expected = {
        prompt: [each.logits[0] for each in ranking.scores(PAIRS, prompt=prompt, truncate="end")]
        for prompt in (None, "it", "find")
    }
    assert expected[None] == expected["it"] != expected["find"]
    np.testing.assert_allclose(scores(service), expected["it"], atol=1e-5)
    np.testing.assert_allclose(scores(service, instruction="find"), expected["find"], atol=1e-5)
    body = {"text_1": "red", "text_2": DOCUMENTS, "use_activation": False}
    options = {"truncate_prompt_tokens": -1, "instruction": "find"}
    data = service.ask("/score", body | options).json["data"]
    np.testing.assert_allclose([each["score"] for each in data], expected["find"], atol=1e-5)


def test_the_query_is_never_cut_and_named_if_it_leaves_no_room(service: HttpService) -> None:
    reply = service.ask("/rerank", BODY | {"query": "x" * 60})
    assert reply.status == 422
    assert reply.json["error"].startswith("query: ")


def test_a_long_instruction_is_refused_by_its_name(service: HttpService) -> None:
    pairs = {"text_1": "red", "text_2": "a", "instruction": "x" * 5000}
    for path, body, status in (("/rerank", BODY | pairs, 422), ("/score", pairs, 400)):
        reply = service.ask(path, body)
        assert reply.status == status
        assert "instruction: has 5000" in reply.body.decode()
