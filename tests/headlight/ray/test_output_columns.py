"""Columns of each output, equal to what the encoder's own methods return."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from headlight import AttentionSpec, Client, Windows
from headlight.interface.encoder import Encoder
from headlight.ray import Embedder
from headlight.runtime import Runtime
from headlight.span_vectors import SpansSpec
from headlight.spec import MultiVectorSpec, SparseSpec, TokensSpec
from tests import scorers
from tests.factory import with_options
from tests.headlight.ray.tables import TEXTS, Options, array, table

SPANNED = [f"The first one, of {number}. Then another." for number in range(5)]
LARGEST = AttentionSpec.of(top_k=2)
BYTES = AttentionSpec.of(layers=[0, 1], heads=0, dtype="uint8")


def expect_outputs(found: pa.Table, encoder: Encoder, texts: list[str], options: Options) -> None:
    """Compare all columns with the encoder's own methods."""
    pooled = encoder.encode(texts)
    np.testing.assert_allclose(array(found["embedding"]), pooled, atol=1e-6)
    tokens = encoder.encode_tokens(texts, skip_special=True)
    assert [len(each) for each in found["token_embeddings"].to_pylist()] == list(map(len, tokens))
    for mine, its in zip(found["token_embeddings"].to_pylist(), tokens, strict=True):
        np.testing.assert_allclose(np.array(mine, np.float32), its, atol=1e-6)
    maps = encoder.attention(texts, options["attention"])
    rows = found.select(["attention", "attention_shape", "attention_indices"]).to_pylist()
    for row, each in zip(rows, maps, strict=True):
        assert tuple(row["attention_shape"]) == each.values.shape
        np.testing.assert_allclose(row["attention"], each.values.reshape(-1), atol=1e-6)
        assert each.indices is not None
        assert row["attention_indices"] == each.indices.reshape(-1).tolist()
    assert found["error"].null_count == len(texts)


OPTIONS: Options = {"tokens": TokensSpec(skip_special=True), "attention": LARGEST}


def test_a_bundle_gives_what_the_runtime_gives(runtime: Runtime, bundle_path: Path) -> None:
    found = Embedder(bundle_path, **OPTIONS)(table([*TEXTS]))
    assert found.column_names == [
        *("id", "text", "embedding", "token_embeddings"),
        *("attention", "attention_shape", "attention_indices", "error"),
    ]
    assert found["id"].to_pylist() == list(range(20))
    assert found["text"].to_pylist() == TEXTS
    expect_outputs(found, runtime, TEXTS, OPTIONS)


def test_a_service_gives_what_the_client_gives(client: Client, target: str) -> None:
    found = Embedder(target=target, **OPTIONS)(table([*TEXTS]))
    expect_outputs(found, client, TEXTS, OPTIONS)


@pytest.mark.parametrize(
    "spans", ["sentences", Windows(4, 1), SpansSpec(kind="sentences", dimensions=8)]
)
def test_span_vectors_and_their_characters(runtime: Runtime, bundle_path: Path, spans: Any) -> None:
    found = Embedder(bundle_path, spans=spans)(table([*SPANNED]))
    spec = spans if isinstance(spans, SpansSpec) else SpansSpec(kind=spans)
    expected = runtime.span_vectors(SPANNED, spec.kind, dimensions=spec.dimensions)  # type: ignore[arg-type]
    rows = found.select(["span_embeddings", "span_characters"]).to_pylist()
    assert [len(row["span_embeddings"]) for row in rows] == list(map(len, expected))
    for row, each in zip(rows, expected, strict=True):
        np.testing.assert_allclose(row["span_embeddings"], each.vectors, atol=1e-6)
        assert row["span_characters"] == [[span.start, span.end] for span in each.characters]


TYPES: dict[Any, tuple[pa.DataType, int]] = {
    "float32": (pa.float32(), 16),
    "float16": (pa.float16(), 16),
    "int8": (pa.int8(), 16),
    "binary": (pa.int8(), 2),
    "ubinary": (pa.uint8(), 2),
}


def test_vectors_in_each_type(bundle_path: Path, tmp_path: Path) -> None:
    ranges = {"int8_16": np.stack([-np.ones(16), np.ones(16)]).astype(np.float32)}
    bundle = with_options(bundle_path, tmp_path / "bundle", ranges)
    with Runtime(bundle, threads=1) as runtime:
        for dtype, (kind, width) in TYPES.items():
            found = Embedder(bundle, dimensions=16, dtype=dtype)(table([*TEXTS]))
            assert found["embedding"].type == pa.list_(kind, width)
            expected = runtime.encode(TEXTS, dimensions=16, dtype=dtype)
            np.testing.assert_allclose(array(found["embedding"]), expected, atol=2e-3)


def test_an_option_of_reading_reaches_the_encoder(runtime: Runtime, bundle_path: Path) -> None:
    long = ["x" * 500, "short"]
    found = Embedder(bundle_path, truncate="start", prompt="query: ")(table([*long]))
    expected = runtime.encode(long, truncate="start", prompt="query: ")
    np.testing.assert_allclose(array(found["embedding"]), expected, atol=1e-6)


def test_bytes_of_attention_have_their_scales(runtime: Runtime, bundle_path: Path) -> None:
    found = Embedder(bundle_path, pooled=False, attention=BYTES)(table(["one text"]))
    [maps] = runtime.attention(["one text"], BYTES)
    assert maps.scales is not None
    assert found["attention"].type == pa.list_(pa.uint8())
    assert found["attention"][0].as_py() == maps.values.reshape(-1).tolist()
    np.testing.assert_allclose(found["attention_scales"][0].as_py(), maps.scales.reshape(-1))
    assert "embedding" not in found.column_names


EVERYTHING: list[Options] = [
    {"tokens": TokensSpec(dtype="float16"), "dtype": "float16", "dimensions": 8},
    {"spans": "sentences", "attention": LARGEST},
    {"attention": BYTES, "pooled": False},
    {"dtype": "ubinary", "dimensions": 8},
]


@pytest.mark.parametrize("options", EVERYTHING)
def test_types_of_columns_do_not_depend_on_the_rows(bundle_path: Path, options: Options) -> None:
    embedder = Embedder(bundle_path, **options)
    usual = embedder(table([*SPANNED]))
    batches: list[list[str | None]] = [[], [None, None], ["", "a good text."], ["x" * 500]]
    for texts in batches:
        found = embedder(table(texts))
        assert found.schema == usual.schema
        assert len(found) == len(texts)
        found.validate(full=True)


@pytest.mark.parametrize("mode", ["bundle", "target"])
def test_rows_that_cannot_be_encoded_have_a_reason(
    runtime: Runtime, client: Client, bundle_path: Path, mode: str, request: pytest.FixtureRequest
) -> None:
    encoder: Encoder = runtime if mode == "bundle" else client
    source = bundle_path if mode == "bundle" else request.getfixturevalue("target")
    good = [f"good text {number}" for number in range(40)]
    rows: list[str | None] = [*good]
    rows[3:3], rows[20:20], rows[30:30] = [None], ["w " * 300], ["", "w " * 400]
    options: Options = {mode: source, "tokens": True}
    found = Embedder(**options)(table(rows))
    reasons = found["error"].to_pylist()
    bad = [place for place, reason in enumerate(reasons) if reason is not None]
    assert bad == [3, 20, 30, 31]
    assert reasons[3] == "is null; give a text"
    assert reasons[30] == "is empty; give at least one character"
    assert "has 302 tokens" in reasons[20]
    assert "has 402 tokens" in reasons[31]
    assert found["text"].to_pylist() == rows
    for name in ("embedding", "token_embeddings"):
        assert [place for place in range(44) if not found[name][place].is_valid] == bad
    vectors = np.array([each for each in found["embedding"].to_pylist() if each is not None])
    np.testing.assert_allclose(vectors, encoder.encode(good), atol=1e-6)


def test_pairs_have_scores(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = scorers.bundle(tmp_path_factory, "classifier")
    rows = pa.table({"query": ["a", "b", None], "text": ["c", "", "d"]})
    pairs: Options = {"text_column": "query", "pair_column": "text"}
    found = Embedder(folder, **pairs, pooled=False, scores=True)(rows)
    with Runtime(folder, threads=1) as runtime:
        [expected] = runtime.scores([("a", "c")])
        [[best, *_]] = runtime.classify([("a", "c")])
    names = ["query", "text", "label", "score", "logit", "scores", "error"]
    assert found.column_names == names
    first, *others = found.to_pylist()
    assert (first["label"], first["error"]) == (best.label, None)
    assert first["logit"] == pytest.approx(best.logit, abs=1e-5)
    np.testing.assert_allclose(first["scores"], expected.values, atol=1e-6)
    assert [each["scores"] for each in others] == [None, None]
    assert [each["score"] for each in others] == [None, None]
    assert [each["error"].partition(";")[0] for each in others] == [
        "text: is empty",
        "query: is null",
    ]


def test_sparse_vectors_are_lists_of_terms_and_weights(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    bundle = scorers.bundle(tmp_path_factory, "sparse")
    embedder = Embedder(bundle, pooled=False, sparse=SparseSpec(top_k=4, pieces=True))
    found = embedder(table([*TEXTS[:3], None]))
    assert found.schema == embedder(table([])).schema
    assert found["sparse_indices"].type == pa.list_(pa.uint32())
    assert found["sparse_values"].type == pa.list_(pa.float32())
    with Runtime(bundle, threads=1) as runtime:
        expected = runtime.encode_sparse(TEXTS[:3], top_k=4, pieces=True)
    for row, each in zip(found.to_pylist()[:3], expected, strict=True):
        assert row["sparse_indices"] == each.indices.tolist()
        assert row["sparse_pieces"] == list(each.pieces)
        np.testing.assert_allclose(row["sparse_values"], each.values, atol=1e-6)
    assert found["sparse_values"][3].as_py() is None


def test_multi_vectors_are_lists_of_vectors(tmp_path_factory: pytest.TempPathFactory) -> None:
    bundle = scorers.bundle(tmp_path_factory, "multi_vector")
    spec = MultiVectorSpec(dtype="ubinary")
    embedder = Embedder(bundle, pooled=False, multi_vector=spec, role="query", truncate="end")
    found = embedder(table([*TEXTS[:3], ""]))
    assert found["multi_vector"].type == pa.list_(pa.list_(pa.uint8(), 2))
    with Runtime(bundle, threads=1) as runtime:
        expected = runtime.encode_multi_vector(
            TEXTS[:3], dtype="ubinary", role="query", truncate="end"
        )
    for row, each in zip(found["multi_vector"].to_pylist()[:3], expected, strict=True):
        np.testing.assert_array_equal(row, each)
    assert found["multi_vector"][3].as_py() is None
