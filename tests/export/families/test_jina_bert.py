"""Feed-forward variants of JinaBERT, read from its config."""

from __future__ import annotations

from typing import Any

import pytest

from headlight_export.families import jina_bert
from headlight_export.families.source import Config
from tests.bert_folder import CONFIG, tensors


@pytest.mark.parametrize(
    ("said", "activation"),
    [
        ({}, "gelu"),
        ({"hidden_act": "relu"}, "relu"),
        ({"feed_forward_type": "original", "hidden_act": "silu"}, "silu"),
    ],
)
def test_the_plain_feed_forward_is_that_of_bert(said: dict[str, Any], activation: str) -> None:
    values = {name: value for name, value in CONFIG.items() if name != "hidden_act"} | {
        "position_embedding_type": "alibi"
    }
    found = {
        name: tensor for name, tensor in tensors().items() if "position_embeddings" not in name
    }
    config = jina_bert.convert(Config(values | said), found, None).config
    assert (config.ffn, config.activation) == ("plain", activation)
