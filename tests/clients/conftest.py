"""A service with three models, for clients that rank and classify beside those that embed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from headlight import Client
from tests import scorers
from tests.system.processes import ROOT, Service

QUERY = "read the day"
DOCUMENTS = ["join two paths", "parse a date", "close a file"]
Ranks = list[tuple[int, Any]]  # places and scores of DOCUMENTS, the best first


@pytest.fixture(scope="session")
def several(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Serve docs-rope, `classifier` and `reranker`; the last two have random weights."""
    scoring = [scorers.bundle(tmp_path_factory, name) for name in ("classifier", "reranker")]
    with Service([ROOT / "build/bundles/docs-rope", *scoring]) as running:
        yield running


@pytest.fixture(scope="session")
def ranks(several: Service) -> Ranks:
    """Return what the gRPC client gets for QUERY; scores of others may differ by 1e-6."""
    with Client(several.target, model="reranker") as client:
        ranked = client.rerank(QUERY, DOCUMENTS)
    assert len({each.logit for each in ranked}) == len(DOCUMENTS)
    return [(each.index, pytest.approx(each.score, abs=1e-6)) for each in ranked]
