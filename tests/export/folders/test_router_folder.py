"""Sparse encoders whose queries need no model: the folder of their Router."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from tokenizers import processors

from headlight_export.folders.model_folder import Refused
from headlight_export.folders.router_folder import query_rules, read_query_terms
from headlight_export.folders.sentence_folder import read_recipe, transformer_folder
from tests.factory import VOCABULARY, small_tokenizer
from tests.folders import chain, refusal, write

SIZE = len(VOCABULARY) + 3  # some models have more ids than their tokenizer
QUERY, DOCUMENT, POOLING = "query_0_SparseStaticEmbedding", "document_0_Transformer", "document_1"
OF_SPARSE = "sentence_transformers.sparse_encoder.modules."
TYPES = {
    QUERY: f"{OF_SPARSE}SparseStaticEmbedding",
    DOCUMENT: f"{OF_SPARSE}MLMTransformer",
    POOLING: f"{OF_SPARSE}SpladePooling",
}
MODULES = {"query": [QUERY], "document": [DOCUMENT, POOLING]}


@pytest.fixture
def router(tmp_path: Path) -> Path:
    chain(tmp_path, "sentence_transformers.base.modules.router.Router")
    write(tmp_path / "config_sentence_transformers.json", {"model_type": "SparseEncoder"})
    write(tmp_path / DOCUMENT / "config.json", {"max_position_embeddings": 64})
    write(tmp_path / POOLING / "config.json", {"pooling_strategy": "sum"})
    write(tmp_path / QUERY / "config.json", {"frozen": True})
    save_file({"weight": torch.arange(len(VOCABULARY)) / 7}, tmp_path / QUERY / "model.safetensors")
    write(tmp_path / "router_config.json", {"types": TYPES, "structure": MODULES})
    return tmp_path


def test_modules_and_weights_are_those_of_each_role(router: Path) -> None:
    recipe = read_recipe(router)
    assert (recipe.transformer, recipe.terms) == (router / DOCUMENT, ("sum", 1))
    assert transformer_folder(router) == router / DOCUMENT
    assert recipe.query_terms == router / QUERY
    weights = read_query_terms(router / QUERY, small_tokenizer().to_str(), SIZE)
    expected = np.arange(SIZE, dtype=np.float32) / np.float32(7)
    np.testing.assert_array_equal(weights[:-3], expected[:-3])
    assert not weights[-3:].any()


def test_weights_may_be_a_list_of_words(router: Path) -> None:
    write(router / QUERY / "config.json", {"path": "idf.json"})
    write(router / QUERY / "idf.json", {"a": 2, "##b": 0.5, "no such token": 3.0})
    weights = read_query_terms(router / QUERY, small_tokenizer().to_str(), SIZE)
    assert np.flatnonzero(weights).tolist() == [VOCABULARY.index("a"), VOCABULARY.index("##b")]
    assert weights[VOCABULARY.index("a")] == 2
    write(router / QUERY / "idf.json", {"a": "2"})
    with pytest.raises(Refused, match="the weight of 'a' is no number"):
        read_query_terms(router / QUERY, small_tokenizer().to_str(), SIZE)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"structure": {"query": [QUERY]}}, "has no modules for query and document"),
        ({"structure": []}, "has no modules for query and document"),
        ({"types": {}}, "has no modules for query and document"),
        ({"parameters": {"route_mappings": {"a": "query"}}}, "route_mappings cannot be served"),
        (
            {"structure": MODULES | {"query": [DOCUMENT, POOLING]}},
            "queries go through MLMTransformer, SpladePooling; only SparseStaticEmbedding",
        ),
        (
            {"types": TYPES | {"../x": TYPES[QUERY]}, "structure": MODULES | {"query": ["../x"]}},
            "only a folder inside",
        ),
    ],
)
def test_other_routes_are_refused(router: Path, changes: dict[str, Any], message: str) -> None:
    write(router / "router_config.json", {"types": TYPES, "structure": MODULES} | changes)
    assert message in refusal(router)


def test_weights_must_fit_documents(router: Path) -> None:
    tokenizer = small_tokenizer()
    with pytest.raises(Refused, match="has weights of shape"):
        read_query_terms(router / QUERY, tokenizer.to_str(), len(VOCABULARY) - 1)
    save_file({"weight": -torch.ones(5)}, router / QUERY / "model.safetensors")
    with pytest.raises(Refused, match="has weights of shape"):
        read_query_terms(router / QUERY, tokenizer.to_str(), SIZE)
    tokenizer.save(str(router / QUERY / "tokenizer.json"))
    tokenizer.add_tokens(["more"])
    with pytest.raises(Refused, match="another tokenizer than documents"):
        read_query_terms(router / QUERY, tokenizer.to_str(), SIZE)


def test_queries_are_known_by_the_special_tokens_around_them() -> None:
    tokenizer = small_tokenizer()
    assert query_rules(tokenizer.to_str(), 40).skiplist == (2, 3)
    with pytest.raises(Refused, match="leave --ids-only out"):
        query_rules(None, 40)
    tokenizer.post_processor = processors.TemplateProcessing(single="$A", pair="$A $B")
    with pytest.raises(Refused, match="puts no special tokens around a text"):
        query_rules(tokenizer.to_str(), 40)
