"""docs/guides/stores.md as written, with Qdrant in its local mode. `nox -s clients-stores`."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pgvector
import pytest

from headlight import SparseVector
from tests import scorers
from tests.system.processes import ROOT, Service

PAGE = (ROOT / "docs/guides/stores.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)
# The grammar of pgvector's sparsevec: indices from 1, no signs here, the size behind a slash.
SPARSEVEC = re.compile(r"\{([1-9]\d*:\d[\d.e+-]*(?:,[1-9]\d*:\d[\d.e+-]*)*)?\}/[1-9]\d*")


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Run the page; return what it defines. The last two models have random weights."""
    bundles: list[Path] = [ROOT / "build/bundles/docs-rope"]
    bundles += [scorers.bundle(tmp_path_factory, name) for name in ("sparse", "multi_vector")]
    known: dict[str, Any] = {}
    with Service(bundles) as service:
        code = "".join(BLOCK.findall(PAGE))
        exec(code.replace("127.0.0.1:50051", service.target).replace("=256", "=60"), known)
    yield known
    known["store"].close()


def weights(vector: SparseVector) -> dict[int, float]:
    return dict(zip(vector.indices.tolist(), vector.values.tolist(), strict=True))


def product(first: SparseVector, second: SparseVector) -> float:
    others = weights(second)
    return sum(weight * others.get(term, 0.0) for term, weight in weights(first).items())


def test_qdrant_ranks_by_each_kind_of_vector_and_by_two(names: dict[str, Any]) -> None:
    terms = [product(names["sparse_query"], each) for each in names["sparse"]]
    vectors = (names["dense"] @ names["dense_query"]).tolist()
    tokens = [float((names["many_query"] @ each.T).max(1).sum()) for each in names["many"]]
    ranks = ("by_terms", terms), ("by_vector", vectors), ("by_tokens", tokens)
    for hits, scores in ranks:
        ranked = [(hit.id, hit.score) for hit in names[hits]]
        expected = sorted(enumerate(scores), key=lambda one: -one[1])
        assert [at for at, _ in ranked] == [at for at, _ in expected]
        np.testing.assert_allclose([s for _, s in ranked], [s for _, s in expected], rtol=1e-5)
    assert {hit.id for hit in names["both"]} == {0, 1, 2}
    assert names["by_terms"][0].payload["text"] in names["TEXTS"]


def test_each_document_has_two_lines_of_a_bulk_body(names: dict[str, Any]) -> None:
    lines = [json.loads(line) for line in names["bulk"].splitlines()]
    assert [line["index"]["_id"] for line in lines[::2]] == ["0", "1", "2"]
    fields = names["elasticsearch_index"]["mappings"]["properties"]
    for line, vector, row in zip(lines[1::2], names["sparse"], names["dense"], strict=True):
        assert line.keys() == fields.keys()
        assert len(line["dense"]) == fields["dense"]["dims"] == len(row)
        assert not [name for name in line["terms"] if "." in name or not name]
        assert sorted(line["terms"].values()) == sorted(vector.values.tolist())
    dotted = dataclasses.replace(
        names["sparse_query"],
        indices=np.array([3, 7, 9], np.uint32),
        values=np.array([0.5, 1, 2], np.float32),
        pieces=("a.b", "", "a"),
    )
    assert names["named"](dotted) == {"term 3": 0.5, "term 7": 1, "a": 2}


def test_rows_of_milvus_and_lines_of_vespa_have_the_weights(names: dict[str, Any]) -> None:
    body = json.loads(names["milvus_body"])["data"]
    lines = [json.loads(line) for line in names["vespa_feed"].splitlines()]
    for row, line, vector in zip(body, lines, names["sparse"], strict=True):
        assert {int(term): weight for term, weight in row["terms"].items()} == weights(vector)
        spelled = dict(zip(vector.pieces, vector.values.tolist(), strict=True))
        assert line["fields"]["terms"] == spelled
        assert len(spelled) == len(vector.indices)
    for line, rows in zip(lines, names["many"], strict=True):
        blocks = line["fields"]["many"]["blocks"]
        assert list(blocks) == [str(token) for token in range(len(rows))]
        np.testing.assert_array_equal(np.array([*blocks.values()], np.float32), rows)


def test_pgvector_reads_its_text(names: dict[str, Any]) -> None:
    for line, vector, row in zip(
        names["copied"].splitlines(), names["sparse"], names["dense"], strict=True
    ):
        _, dense, sparse = line.split("\t")
        assert SPARSEVEC.fullmatch(sparse)
        read = pgvector.SparseVector.from_text(sparse)
        assert (read.dimensions(), read.indices()) == (vector.size, vector.indices.tolist())
        np.testing.assert_array_equal(np.float32(read.values()), vector.values)
        np.testing.assert_array_equal(np.float32(pgvector.Vector.from_text(dense).to_list()), row)
