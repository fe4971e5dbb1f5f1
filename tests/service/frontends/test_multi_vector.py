"""Vectors that are matched one by one, by each door, and by role."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from headlight import AsyncClient, InvalidInput
from headlight.runtime import Runtime
from headlight.spec import InputRole
from tests import scorers
from tests.service.conftest import Serve
from tests.service.frontends.http.http_service import http_service

TEXTS = ["red", "a planet, and more", "abcde"]
ROLES: tuple[InputRole | None, ...] = ("query", "document", None)


@pytest.fixture(scope="module")
def matching(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    with Runtime(scorers.bundle(tmp_path_factory, "multi_vector"), threads=1) as runtime:
        yield runtime


async def test_the_contract_has_vectors_by_role(serve: Serve, matching: Runtime) -> None:
    async with serve(matching) as service, AsyncClient(service.target) as client:
        described = await client.model()
        assert (described.multi_vector_dim, described.query_tokens) == (16, 12)
        for role in ROLES:
            texts = [text[:10] for text in TEXTS]
            expected = matching.encode_multi_vector(texts, role=role)
            answers = await client.encode_multi_vector(texts, role=role)
            for ours, each in zip(answers, expected, strict=True):
                np.testing.assert_allclose(ours, each, atol=1e-5)
            [binary, *_] = await client.encode_multi_vector(texts, role=role, dtype="ubinary")
            np.testing.assert_array_equal(binary, np.packbits(expected[0] > 0, axis=-1))
        with pytest.raises(InvalidInput, match="has 15 tokens"):
            await client.encode_multi_vector("planetplanets", role="query")
        tokens = await client.tokenize(TEXTS[:1], role="query")
        assert tokens == matching.tokenize(TEXTS[:1], role="query")


def test_json_has_vectors_by_role(matching: Runtime) -> None:
    expected = matching.encode_multi_vector(TEXTS, role="document")
    with http_service(matching) as service:
        body = {
            "inputs": [{"text": text} for text in TEXTS],
            "outputs": {"multi_vector": {}},
            "role": "INPUT_ROLE_DOCUMENT",
        }
        answer = service.ask("/v1/encode", body)
        assert answer.status == 200, answer.body
        for row, each in zip(answer.json["multi_vector"]["data"], expected, strict=True):
            np.testing.assert_allclose(row, each, atol=1e-5)
        refused = service.ask("/v1/encode", body | {"role": "answer"})
        assert refused.status == 400
        assert "role" in refused.json["error"]["message"]
