"""Sparse encoders in this process, compared with sentence-transformers, which wrote the folders."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from sentence_transformers import SparseEncoder
from sentence_transformers.base.modules import Router
from sentence_transformers.sparse_encoder.modules import SparseStaticEmbedding, SpladePooling

from headlight.runtime import Runtime
from headlight.spec import INPUT_ROLES
from headlight_export.folders.model_folder import Refused
from headlight_export.folders.origin import read_origin
from headlight_export.writer.bundle_writer import export_origin
from tests.families.scorers import write_scorer

transformers.logging.set_verbosity_error()

# Ragged, two alike, and one of more tokens than the model takes.
TEXTS = ["a planet is red", "mars", "green is a colour of grass, and of leaves", "mars", "x" * 90]


# Model, pooling, activation, whether the decoder is the embedding.
SPARSE = [
    ("bert", "max", "relu", True),
    ("distilbert", "sum", "relu", True),
    ("plain roberta", "max", "log1p_relu", True),
    ("modernbert", "max", "relu", True),
    ("mpnet", "max", "relu", True),
    ("gte", "max", "relu", True),
    ("bert", "sum", "log1p_relu", False),
]


def sparse_encoder(
    folder: Path, name: str, pooling: str, activation: str, *, tied: bool = True
) -> SparseEncoder:
    """Write a masked language model, and a sparse encoder of it; return the latter."""
    model = write_scorer(folder / "masked", name, "MaskedLM", 2, {"tie_word_embeddings": tied})
    if not tied:
        decoder = model.get_output_embeddings()
        decoder.weight = torch.nn.Parameter(torch.randn_like(decoder.weight) * 0.3)
        model.config.tie_word_embeddings = False
        model.save_pretrained(folder / "masked")
    made = SparseEncoder(str(folder / "masked"), device="cpu")
    splade = SpladePooling(pooling_strategy=pooling, activation_function=activation)
    made = SparseEncoder(modules=[made[0], splade], device="cpu")
    made.save_pretrained(str(folder / "model"))
    return made


@pytest.mark.parametrize(("name", "pooling", "activation", "tied"), SPARSE)
def test_terms_have_the_weights_of_the_reference(
    name: str, pooling: str, activation: str, tied: bool, tmp_path: Path
) -> None:
    theirs = sparse_encoder(tmp_path, name, pooling, activation, tied=tied)
    expected = theirs.encode(TEXTS, convert_to_sparse_tensor=False).numpy()
    exported = export_origin(read_origin(tmp_path / "model"), tmp_path / "bundle")
    assert max(row.max_error for row in exported.rows if row.output == "sparse") <= 1e-5
    with Runtime(tmp_path / "bundle") as runtime:
        model = runtime.model()
        vectors = runtime.encode_sparse(TEXTS, truncate="end")
        [short] = runtime.encode_sparse(TEXTS[0], top_k=3)
    assert (model.task, model.vocab_size, model.similarity) == ("sparse", expected.shape[1], "dot")
    assert "pooled" not in model.outputs
    assert 0 < np.count_nonzero(expected) < expected.size
    for ours, row in zip(vectors, expected, strict=True):
        dense = np.zeros_like(row)
        dense[ours.indices] = ours.values
        np.testing.assert_allclose(dense, row, rtol=1e-5, atol=1e-5)
        # Rounding may put a term's logit on the other side of 0.
        assert not set(np.flatnonzero(row > 1e-5)) ^ set(np.flatnonzero(dense > 1e-5))
    assert set(short.indices) == set(np.argsort(-expected[0])[:3])


def test_terms_of_queries_may_need_no_model(tmp_path: Path) -> None:
    documents = sparse_encoder(tmp_path, "bert", "max", "relu")
    tokenizer = documents.tokenizer
    torch.manual_seed(1)
    static = SparseStaticEmbedding(tokenizer, torch.rand(len(tokenizer)), frozen=True)
    router = Router.for_query_document([static], [*documents])
    theirs = SparseEncoder(modules=[router], device="cpu")
    theirs.save_pretrained(str(tmp_path / "router"))
    export_origin(read_origin(tmp_path / "router"), tmp_path / "bundle")
    expected = {
        "query": theirs.encode_query(TEXTS[:4], convert_to_sparse_tensor=False).numpy(),
        "document": theirs.encode_document(TEXTS[:4], convert_to_sparse_tensor=False).numpy(),
    }
    with Runtime(tmp_path / "bundle") as runtime:
        for role in INPUT_ROLES:
            for ours, row in zip(
                runtime.encode_sparse(TEXTS[:4], role=role), expected[role], strict=True
            ):
                dense = np.zeros_like(row)
                dense[ours.indices] = ours.values
                np.testing.assert_allclose(dense, row, rtol=1e-5, atol=1e-5)


def test_a_masked_language_model_weights_terms_on_request(tmp_path: Path) -> None:
    write_scorer(tmp_path, "bert", "MaskedLM", 2)
    head = read_origin(tmp_path, task="sparse").encoder.config.term_head
    assert head is not None
    assert (head.pooling, head.logarithms, head.tied) == ("max", 1, True)
    with pytest.raises(Refused, match="--pooling"):  # else its vectors are meant
        read_origin(tmp_path)


def test_what_is_not_such_a_model_is_refused(tmp_path: Path) -> None:
    write_scorer(tmp_path / "scorer", "bert", "SequenceClassification", 2)
    with pytest.raises(Refused, match=r"ends with ForMaskedLM.* --task embed and --pooling mean"):
        read_origin(tmp_path / "scorer", task="sparse")
    sparse_encoder(tmp_path, "bert", "max", "relu")
    settings = tmp_path / "model/1_SpladePooling/config.json"
    settings.write_text(json.dumps({"pooling_strategy": "mean"}), encoding="utf-8")
    with pytest.raises(Refused, match="pooling_strategy 'mean'"):
        read_origin(tmp_path / "model")
