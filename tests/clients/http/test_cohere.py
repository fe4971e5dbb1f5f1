"""Cohere's client for Python against the real service. Run by `nox -s clients-http`."""

from __future__ import annotations

import base64
import importlib.metadata
from pathlib import Path
from typing import Any

import cohere
import numpy as np
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


async def test_texts_have_vectors_in_both_versions(several: Service) -> None:
    body: dict[str, Any] = {
        "model": "docs-rope",
        "texts": ["read the day", "close a file"],
        "input_type": "search_query",
    }
    types = ["float", "binary", "ubinary", "base64"]
    with cohere.Client(**options(several)) as client:
        first = client.embed(**body)
    async with cohere.AsyncClientV2(**options(several)) as client:
        second = await client.embed(**body, embedding_types=types)
        cut = await client.embed(**body, output_dimension=64)
    vectors = np.array(second.embeddings.float_, np.float32)
    np.testing.assert_allclose(first.embeddings, vectors, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    bits = np.packbits(vectors > 0, axis=1).astype(int)
    assert second.embeddings.ubinary == bits.tolist()
    assert second.embeddings.binary == (bits - 128).tolist()
    for text, vector in zip(second.embeddings.base64, vectors, strict=True):
        assert base64.b64decode(text) == vector.tobytes()
    assert (first.texts, second.texts) == (body["texts"], body["texts"])
    assert second.meta.billed_units.input_tokens > 6
    part = vectors[:, :64] / np.linalg.norm(vectors[:, :64], axis=1, keepdims=True)
    np.testing.assert_allclose(cut.embeddings.float_, part, atol=1e-5)


async def test_what_is_not_embedded_is_an_error_of_the_client(several: Service) -> None:
    image = {"content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}]}
    async with cohere.AsyncClientV2(**options(several)) as client:
        for change, message in (
            ({"texts": ["a", ""]}, "texts[1]: is empty"),
            ({"images": ["data:image/png;base64,AA"]}, "images: is not applied here"),
            ({"inputs": [image]}, "inputs[0]: must be an object as"),
        ):
            with pytest.raises(cohere.BadRequestError) as caught:
                await client.embed(model="docs-rope", input_type="search_query", **change)
            assert caught.value.body["message"].startswith(message)


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
    known: dict[str, Any] = {}
    answers = []
    for part in page.split("```python\n")[1:]:
        exec(part.split("```")[0].replace("127.0.0.1:8000", several.rest), known)
        answers.append(known["answer"])
    ranked, embedded = answers
    assert [(each.index, each.relevance_score) for each in ranked.results] == ranks[:2]
    assert [len(each) for each in embedded.embeddings.ubinary] == [32, 32]
