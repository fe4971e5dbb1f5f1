"""`headlight classify` on tables, in process and by a service: labels of texts and of pairs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from headlight.cli.commands import main
from headlight.runtime import Runtime
from tests import scorers
from tests.headlight.cli.tables.making import write

TEXTS = ["red", None, "a planet", "x" * 60, "green", *"abcdefg"]
QUERIES = [*(f"what is {at}" for at in range(len(TEXTS) - 1)), ""]


def classify(folder: Path, bundle: Path, *options: str) -> int:
    arguments = ("--id-column", "id", "--part-rows", "5", "--local", str(bundle))
    out = ("--out", str(folder / "out.parquet"))
    return main(["classify", str(folder / "in.parquet"), *arguments, *out, *options])


def test_rows_have_their_likeliest_label_and_all_scores(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle = scorers.bundle(tmp_path_factory, "classifier")
    write(tmp_path / "in.parquet", TEXTS)
    assert classify(tmp_path, bundle, "--text-column", "body") == 4
    good = [at for at, text in enumerate(TEXTS) if text and len(text) < 40]
    with Runtime(bundle, threads=1) as runtime:
        expected = runtime.scores([TEXTS[at] or "" for at in good])
        labels = runtime.model().labels
    table = pq.read_table(tmp_path / "out.parquet")
    names = ["id", "label", "score", "logit", "scores", "token_count", "truncated"]
    assert table.column_names == names
    assert table["id"].to_pylist() == good
    for row, each in zip(table.to_pylist(), expected, strict=True):
        best = int(each.logits.argmax())
        assert row["label"] == labels[best]
        assert row["score"] == pytest.approx(each.values[best], abs=1e-6)
        assert row["logit"] == pytest.approx(each.logits[best], abs=1e-5)
        np.testing.assert_allclose(row["scores"], each.values, atol=1e-6)
        assert row["token_count"] == each.token_count
    metadata = table.schema.metadata
    assert json.loads(metadata[b"headlight.labels"]) == list(labels)
    assert metadata[b"headlight.activation"] == b"softmax"
    err = capsys.readouterr().err
    assert f"wrote {tmp_path / 'out.parquet'}: {len(good)} scores" in err
    assert "2 of 12 rows could not be encoded" in err


def test_pairs_of_two_columns_have_a_score(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    bundle = scorers.bundle(tmp_path_factory, "reranker")
    write(tmp_path / "in.parquet", TEXTS, query=QUERIES)
    columns = ["--text-column", "query", "--pair-column", "body", "--truncate", "end"]
    columns += ["--prompt", "find "]
    assert classify(tmp_path, bundle, *columns) == 4
    good = [at for at in range(len(TEXTS)) if TEXTS[at] and QUERIES[at]]
    with Runtime(bundle, threads=1) as runtime:
        pairs = [(QUERIES[at], TEXTS[at] or "") for at in good]
        expected = runtime.scores(pairs, truncate="end", prompt="find ")
    table = pq.read_table(tmp_path / "out.parquet")
    assert table.column_names == ["id", "score", "logit", "token_count", "truncated"]
    assert table["id"].to_pylist() == good
    np.testing.assert_allclose(
        table["logit"].to_numpy(), [each.logits[0] for each in expected], atol=1e-5
    )
    assert table["truncated"].to_pylist() == [at == 3 for at in good]
    assert table.schema.metadata[b"headlight.prompt"] == b"find "
    lines = (tmp_path / "out.rejected.jsonl").read_text(encoding="utf-8").splitlines()
    reasons = [json.loads(line) for line in lines]
    assert [(each["id"], each["error"].partition(";")[0]) for each in reasons] == [
        (1, "body: is null"),
        (len(TEXTS) - 1, "query: is empty"),
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--text-column", "body", "--pair-column", "nobody"), "has no column 'nobody'"),
        (("--text-column", "body", "--pair-column", "id"), "not text; name another by --pair-col"),
        (("--text-column", "body", "--top-n", "1"), "--top-n: a table has all labels"),
        (("--pair-column", "body"), "--id-column: is for tables"),
    ],
)
def test_wrong_columns_are_refused(
    tmp_path_factory: pytest.TempPathFactory,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    options: tuple[str, ...],
    message: str,
) -> None:
    write(tmp_path / "in.parquet", ["a"])
    assert classify(tmp_path, scorers.bundle(tmp_path_factory, "reranker"), *options) == 2
    assert message in capsys.readouterr().err


def test_a_model_without_scores_is_refused(
    bundle_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "in.parquet", ["a"])
    assert classify(tmp_path, bundle_path, "--text-column", "body") == 2
    assert "gives no scores; it gives pooled" in capsys.readouterr().err
