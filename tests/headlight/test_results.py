from __future__ import annotations

import json

import numpy as np
import pytest

from headlight import Attention, AttentionSpec, Client, TokenList
from headlight.results import ModelRef

REF = ModelRef("m", "1", "ab", "cpu", "fp32")
TOKENS = TokenList(
    (1, 9, 2), ("[CLS]", "Ġread", ""), (0, 0, 0), (0, 4, 0), (True, False, False), (0, 0, 0)
)


def attention() -> Attention:
    return Attention(
        np.arange(2 * 3 * 3 * 3, dtype=np.float32).reshape(2, 3, 3, 3), (5, 1), TOKENS, REF
    )


def test_layers_are_indexed_absolutely_or_from_the_end_of_the_selection() -> None:
    held = attention()
    assert [held.layer_number(layer) for layer in (5, 1, -1, -2)] == [5, 1, 1, 5]
    np.testing.assert_array_equal(held.layer(5), held.weights[0])
    np.testing.assert_array_equal(held.head(-1, -1), held.weights[1, 2])
    for layer in (0, 2, -3):
        with pytest.raises(ValueError, match=f"layer {layer} is not here; there are 5, 1"):
            held.layer(layer)


def test_head_indices_are_bounded() -> None:
    assert [attention().head_number(head) for head in (0, 2, -1, -3)] == [0, 2, 2, 0]
    for head in (3, -4):
        with pytest.raises(ValueError, match="0 to 2"):
            attention().head(5, head)


def test_means_over_layers_and_heads_match_numpy() -> None:
    held = attention()
    np.testing.assert_array_equal(held.mean(1), held.weights[1].mean(0))
    np.testing.assert_array_equal(held.mean(), held.weights.mean((0, 1)))
    assert held.mean().dtype == np.float32


def test_labels_are_the_text_if_there_is_one() -> None:
    assert TOKENS.labels("read") == ("[CLS]", "read", "#2")
    assert TOKENS.labels() == ("[CLS]", "Ġread", "#2")
    assert len(TOKENS) == 3


def test_a_model_description_is_json_serialisable(client: Client) -> None:
    described = json.loads(json.dumps(client.model().as_dict()))
    assert described["limits"]["max_items"] == 8
    assert described["parity"][0]["output"] == "pooled"


def test_results_are_short_in_a_console(client: Client) -> None:
    found = [
        client.attend("a few words"),
        *client.attention(["a"], AttentionSpec()),
        client.encode_with_info(["a", "b"], dtype=("float32", "ubinary")),
        *client.token_vectors("a b", skip_special=True),
        client.hidden("a b", -1),
        client.occlusion("a b"),
        *client.tokenize("word " * 20),
        client.model(),
    ]
    assert list(map(repr, found)) == [
        "<Attention fake: 3 layers × 2 heads × 5 tokens>",
        "<AttentionMaps fake: 3 layers × 2 heads × 3 queries × 3 keys, float32>",
        "<Embeddings fake: 2 × 8 float32, 2 × 1 ubinary>",
        "<TokenVectors fake: 2 tokens × 8 values, float32>",
        "<Hidden fake: 1 layer × 4 tokens × 8 values, float32>",
        "<Occlusion fake: 1 of 4 tokens>",
        f"<TokenList of 22: [CLS]{' word' * 15} …>",
        "<ModelDescription fake 1, fp32 on cpu: 3 layers × 2 heads, 8 dimensions, 32 tokens>",
    ]
