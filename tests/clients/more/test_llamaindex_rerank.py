"""LlamaIndex's classes that rerank against a real service. Run by `nox -s clients-more`."""

from __future__ import annotations

import pytest

from tests.clients.conftest import DOCUMENTS, Ranks
from tests.clients.more.conftest import run_example
from tests.system.processes import Service

CLIENTS = ("llama-index-postprocessor-jinaai-rerank", "llama-index-postprocessor-tei-rerank")


@pytest.mark.parametrize("places", [(2,), (2, 3)], ids=["jina", "tei"])
def test_nodes_are_ranked_as_written(
    several: Service, ranks: Ranks, places: tuple[int, ...]
) -> None:
    best = run_example("llamaindex", several, *places)["best"]
    assert [(DOCUMENTS.index(each.text), each.score) for each in best] == ranks[:2]


def test_refusals_are_raised_with_the_message_of_the_service(several: Service) -> None:
    known = run_example("llamaindex", several, 2)
    with pytest.raises(RuntimeError, match=r"^query: is empty"):
        known["reranker"].postprocess_nodes(known["nodes"], query_str="")
