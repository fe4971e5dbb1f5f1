"""Scores over the wire: those of the runtime, for both clients."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest

from headlight import AsyncClient, Client, InvalidInput
from headlight.runtime import Runtime
from tests import scorers
from tests.once import once
from tests.system.processes import Service

DOCUMENTS = ["red", "a planet, and more of it", "x" * 60, "green", *"abcdefg"]
QUERY = "what is red"


def test_a_service_ranks_as_the_runtime(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder: Path = once(
        tmp_path_factory, "reranker", lambda out: scorers.write(out, scorers.reranker())
    )

    async def best(target: str) -> list[int]:
        async with AsyncClient(target) as client:
            found = await client.rerank(QUERY, DOCUMENTS, top_n=3)
        return [each.index for each in found]

    with Runtime(folder / "bundle", threads=1) as runtime:
        expected = runtime.rerank(QUERY, DOCUMENTS)
    with (
        Service(folder / "bundle", "--max-items", "4") as service,
        Client(service.target) as client,
    ):
        found = client.rerank(QUERY, DOCUMENTS)  # three calls
        assert asyncio.run(best(service.target)) == [each.index for each in found[:3]]
        model = client.model()
        with pytest.raises(InvalidInput, match=r"^query: has 40 tokens with special tokens"):
            client.rerank("q" * 37, DOCUMENTS, truncate="only_second")
        with pytest.raises(InvalidInput, match=r"^documents\[6\]: is empty"):
            client.rerank(QUERY, [*DOCUMENTS[:6], ""])
        assert client.classify(DOCUMENTS, truncate="end")[5][0].logit == pytest.approx(
            client.scores(DOCUMENTS[5:6])[0].logits[0], abs=1e-5
        )
        with pytest.raises(InvalidInput, match="gives no pooled"):
            client.encode("a text")
    assert (model.task, model.labels, model.activation) == ("rerank", ("relevance",), "sigmoid")
    assert {each.index for each in found} == set(range(len(DOCUMENTS)))
    by_index = {each.index: each for each in expected}
    for each in found:
        assert each.logit == pytest.approx(by_index[each.index].logit, abs=1e-5)
        assert each.cut_tokens == by_index[each.index].cut_tokens


def test_each_token_is_scored_by_a_service(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder: Path = once(
        tmp_path_factory, "tagger", lambda out: scorers.write(out, scorers.tagger())
    )
    texts = ["ab", "a planet is red"]
    with Runtime(folder / "bundle", threads=1) as runtime:
        expected = runtime.scores(texts)
    with Service(folder / "bundle") as service, Client(service.target) as client:
        for ours, theirs in zip(client.scores(texts), expected, strict=True):
            np.testing.assert_allclose(ours.logits, theirs.logits, atol=1e-5)
            np.testing.assert_allclose(ours.values, theirs.values, atol=1e-5)
            assert (ours.labels, ours.token_count) == (theirs.labels, theirs.token_count)
