"""Cohere's client for Python against the real service. Run by `nox -s clients-http`."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path
from typing import Any

import cohere
import pytest

from tests import scorers
from tests.clients.conftest import DOCUMENTS, QUERY, Ranks
from tests.system.processes import ROOT, Service

BODY: dict[str, Any] = {"model": "reranker", "query": QUERY, "documents": DOCUMENTS}
TOKEN = "0123456789" * 4


def options(service: Service, token: str = "any") -> dict[str, Any]:
    return {"api_key": token, "base_url": f"http://{service.rest}"}


def test_the_version_is_the_pinned_one() -> None:
    pinned = Path(__file__).with_name("requirements.txt").read_text(encoding="utf-8")
    assert f"cohere=={importlib.metadata.version('cohere')}" in pinned.splitlines()


async def test_documents_are_ranked_in_both_versions(several: Service, ranks: Ranks) -> None:
    objects = [{"text": each} for each in DOCUMENTS]
    with cohere.Client(**options(several)) as client:
        first = client.rerank(**BODY | {"documents": objects}, top_n=2, return_documents=True)
    async with cohere.AsyncClientV2(**options(several)) as client:
        second = await client.rerank(**BODY)
    for answer, expected in ((first, ranks[:2]), (second, ranks)):
        assert [(each.index, each.relevance_score) for each in answer.results] == expected
        assert answer.meta.tokens.input_tokens > 40
    for each in first.results:
        assert each.document.text == DOCUMENTS[each.index]


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        ({"model": "rerank-v3.5"}, cohere.NotFoundError, "model: not served here; there is docs"),
        ({"model": "docs-rope"}, cohere.BadRequestError, "model: this model gives no scores"),
        ({"documents": ["a", ""]}, cohere.BadRequestError, "documents[1]: is empty"),
        ({"relevant_spans": {"mode": "enabled"}}, cohere.BadRequestError, "relevant_spans: is not"),
    ],
)
def test_errors_are_those_of_the_client(
    several: Service, change: dict[str, Any], kind: Any, message: str
) -> None:
    with (
        cohere.ClientV2(**options(several)) as client,
        pytest.raises(kind) as caught,
    ):
        client.rerank(**BODY | change)
    assert caught.value.body["message"].startswith(message)


def test_a_token(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text(f"reader {TOKEN}\n", encoding="ascii")
    tokens.chmod(0o600)
    bundle = scorers.bundle(tmp_path_factory, "reranker")
    with Service(bundle, "--auth-tokens", str(tokens)) as service:
        with cohere.ClientV2(**options(service, TOKEN)) as client:
            assert client.rerank(**BODY).results
        with (
            cohere.ClientV2(**options(service, "wrong")) as client,
            pytest.raises(cohere.UnauthorizedError),
        ):
            client.rerank(**BODY)


def test_the_page_runs_as_written(several: Service, ranks: Ranks) -> None:
    page = (ROOT / "docs/clients/cohere.md").read_text(encoding="utf-8")
    example = page.split("```python\n")[1].split("```")[0]
    known: dict[str, Any] = {}
    exec(example.replace("127.0.0.1:8000", several.rest), known)
    results = known["answer"].results
    assert [(each.index, each.relevance_score) for each in results] == ranks[:2]
