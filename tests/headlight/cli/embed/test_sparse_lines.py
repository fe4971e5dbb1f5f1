"""`headlight embed --sparse` in process: for people, as lines of JSON, and on tables."""

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

TEXTS = ["red", "a planet, and more of it", "x" * 60]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return scorers.bundle(tmp_path_factory, "sparse")


def test_text_has_the_largest_terms_first(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Runtime(bundle, threads=1) as runtime:
        expected = runtime.encode_sparse(TEXTS[:2], top_k=3, pieces=True)
    options = ["--sparse", "--top-k", "3", "--local", str(bundle)]
    assert main(["embed", *TEXTS[:2], *options]) == 0
    shown = [block.splitlines() for block in capsys.readouterr().out.split("\n\n")]
    assert [block[0] for block in shown] == TEXTS[:2]
    for block, each in zip(shown, expected, strict=True):
        terms = sorted(zip(each.values.tolist(), each.pieces, strict=True), reverse=True)
        assert [line.split() for line in block[1:]] == [[f"{w:.3f}", piece] for w, piece in terms]


def test_lines_of_json_have_ascending_terms(bundle: Path, tmp_path: Path) -> None:
    rows = [json.dumps({"text": text, "id": at}) for at, text in enumerate(TEXTS)]
    (tmp_path / "texts.jsonl").write_text("\n".join(rows))
    out = tmp_path / "out.jsonl"
    options = ["--file", str(tmp_path / "texts.jsonl"), "--id-field", "id", "--truncate", "end"]
    options += ["--sparse", "--pieces", "--local", str(bundle), "--out", str(out)]
    assert main(["embed", *options]) == 0
    with Runtime(bundle, threads=1) as runtime:
        expected = runtime.encode_sparse(TEXTS, truncate="end", pieces=True)
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    for at, (line, each) in enumerate(zip(lines, expected, strict=True)):
        assert (line["id"], line["tokens"]) == (str(at), each.token_count)
        assert line["truncated"] is (at == 2)
        assert line["indices"] == each.indices.tolist()
        assert line["pieces"] == list(each.pieces)
        np.testing.assert_allclose(line["values"], each.values, atol=1e-6)


@pytest.mark.parametrize("pieces", [False, True])
def test_a_table_has_a_list_of_terms_and_one_of_weights(
    bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], pieces: bool
) -> None:
    write(tmp_path / "in.parquet", [*TEXTS[:2], None, TEXTS[2], *"abcdefg"])
    options = ["--text-column", "body", "--id-column", "id", "--part-rows", "4"]
    options += ["--sparse", "--top-k", "5", *["--pieces"] * pieces, "--truncate", "end"]
    options += ["--local", str(bundle), "--out", str(tmp_path / "out.parquet")]
    assert main(["embed", str(tmp_path / "in.parquet"), *options]) == 4
    assert "out.parquet: 10 sparse vectors" in capsys.readouterr().err
    table = pq.read_table(tmp_path / "out.parquet")
    spelled = ["sparse_pieces"] * pieces
    names = ["id", "sparse_indices", "sparse_values", *spelled, "token_count", "truncated"]
    assert table.column_names == names
    assert table["sparse_indices"].type == pa.list_(pa.uint32())
    assert table["sparse_values"].type == pa.list_(pa.float32())
    with Runtime(bundle, threads=1) as runtime:
        expected = runtime.encode_sparse([*TEXTS, *"abcdefg"], top_k=5, truncate="end", pieces=True)
        size = runtime.model().vocab_size
    for row, each in zip(table.to_pylist(), expected, strict=True):
        assert row["sparse_indices"] == each.indices.tolist()
        np.testing.assert_allclose(row["sparse_values"], each.values, atol=1e-6)
        assert row.get("sparse_pieces", list(each.pieces)) == list(each.pieces)
        assert row["token_count"] == each.token_count
        assert row["truncated"] is (each.cut_tokens > 0)
    assert table["truncated"].to_pylist().count(True) == 1
    assert table.schema.metadata[b"headlight.vocabulary"] == str(size).encode()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--top-k", "3"], "--top-k: needs --sparse"),
        (["--sparse", "--dtype", "int8"], "--dtype: is not for --sparse"),
        (["--sparse", "--format", "npz"], "--format npz is binary"),
        (["--sparse", "--format", "json"], "--sparse: writes text or jsonl"),
        (["--sparse", "--spans", "sentences"], "without --skip-bad and --spans"),
        (["--sparse", "--min-weight", "nan"], "--min-weight: must be a number of at least 0"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    bundle: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    assert main(["embed", "red", "--local", str(bundle), *options]) == 2
    assert message in capsys.readouterr().err


def test_a_model_without_terms_is_refused(
    bundle_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["embed", "red", "--local", str(bundle_path), "--sparse"]) == 2
    assert "gives no terms; it gives pooled" in capsys.readouterr().err
