"""`headlight embed --multi-vector` in process: as lines of JSON, and on tables."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headlight.cli.commands import main
from headlight.runtime import Runtime
from tests import scorers
from tests.headlight.cli.tables.making import write

TEXTS = ["red", "a planet", "x" * 60]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return scorers.bundle(tmp_path_factory, "multi_vector")


def test_lines_of_json_have_the_vectors_of_a_role(
    bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--multi-vector", "--role", "query", "--truncate", "end", "--format", "jsonl"]
    assert main(["embed", *TEXTS, *options, "--local", str(bundle)]) == 0
    with Runtime(bundle, threads=1) as runtime:
        expected = runtime.multi_vectors(TEXTS, role="query", truncate="end")
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    for line, each in zip(lines, expected, strict=True):
        assert (line["tokens"], line["truncated"]) == (each.token_count, each.cut_tokens > 0)
        np.testing.assert_allclose(line["vectors"], each.vectors, atol=1e-6)
    assert [line["truncated"] for line in lines] == [False, False, True]


def test_a_table_has_a_list_of_vectors(bundle: Path, tmp_path: Path) -> None:
    write(tmp_path / "in.parquet", [*TEXTS[:2], None, *"abcdefgh"])
    options = ["--text-column", "body", "--id-column", "id", "--part-rows", "4"]
    options += ["--multi-vector", "--dtype", "int8", "--role", "document", "--local", str(bundle)]
    out = tmp_path / "out.parquet"
    assert main(["embed", str(tmp_path / "in.parquet"), *options, "--out", str(out)]) == 4
    table = pq.read_table(out)
    assert table.column_names == ["id", "multi_vector", "token_count", "truncated"]
    assert table["multi_vector"].type == pa.list_(pa.list_(pa.int8(), 16))
    with Runtime(bundle, threads=1) as runtime:
        texts = [*TEXTS[:2], *"abcdefgh"]
        expected = runtime.encode_multi_vector(texts, role="document", dtype="int8")
    for row, each in zip(table["multi_vector"].to_pylist(), expected, strict=True):
        np.testing.assert_array_equal(row, each)
    facts = table.schema.metadata
    assert facts[b"headlight.role"] == b"document"
    assert facts[b"headlight.dimensions"] == b"16"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--multi-vector"], "--multi-vector: writes --format jsonl or a table"),
        (["--multi-vector", "--sparse"], "--multi-vector: gives one type, without --sparse"),
        (["--multi-vector", "--dimensions", "8"], "--dimensions: is not for --multi-vector"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    bundle: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    assert main(["embed", "red", "--local", str(bundle), *options]) == 2
    assert message in capsys.readouterr().err


def test_a_model_without_them_is_refused(
    bundle_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--local", str(bundle_path), "--multi-vector", "--format", "jsonl"]
    assert main(["embed", "red", *options]) == 2
    assert "gives none; it gives pooled" in capsys.readouterr().err
