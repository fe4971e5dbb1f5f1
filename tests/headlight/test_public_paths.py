"""Public import paths: they stay, wherever the code behind them is."""

from __future__ import annotations

import importlib

import pytest

import headlight

PUBLIC = {
    "headlight.runtime": ("Bundle", "Engine", "Runtime", "Tokenizer"),
    "headlight.analysis": ("Analysis", "Importance", "analyse", "importance"),
    "headlight.adapters": ("to_bertviz", "to_hf", "to_lit", "to_transformer_lens"),
    "headlight.archive": ("read_npz", "read_safetensors", "write_npz", "write_safetensors"),
    "headlight.errors": ("HeadlightError", "InvalidInput", "Overloaded"),
    "headlight.results": ("Attention", "Hidden"),
    "headlight.spec": ("AttentionSpec", "PooledSpec", "Run", "Span"),
}


@pytest.mark.parametrize("module", sorted(PUBLIC))
def test_public_paths_can_be_imported(module: str) -> None:
    found = importlib.import_module(module)
    assert [name for name in PUBLIC[module] if not callable(getattr(found, name, None))] == []


def test_every_name_in_all_exists() -> None:
    assert {"AsyncClient", "Client", "Embeddings"} <= set(headlight.__all__)
    assert [name for name in headlight.__all__ if not hasattr(headlight, name)] == []
