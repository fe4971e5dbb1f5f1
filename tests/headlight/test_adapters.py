"""Layouts of the adapters, without the tools.

`tests/adapters` compares the same functions with the tools themselves.
"""

from __future__ import annotations

import sys

import numpy as np
import pytest

from headlight import Attention, Client, Hidden, TokenList
from headlight.adapters import to_bertviz, to_hf, to_lit, to_transformer_lens
from headlight.results import ModelRef

REF = ModelRef("m", "1", "ab", "cpu", "fp32")
TEXT = "read Ġ path"
PAIR = TokenList(
    ids=(1, 9, 2, 8, 7, 2),
    pieces=("[CLS]", "a", "[SEP]", "b", "c", "[SEP]"),
    starts=(0, 0, 0, 0, 2, 0),
    ends=(0, 1, 0, 1, 3, 0),
    special=(True, False, True, False, False, True),
    segments=(0, 0, 0, 1, 1, 1),
)


def attention_of(tokens: TokenList, layers: tuple[int, ...] = (0,)) -> Attention:
    """Return random weights, so that no other orientation has the same numbers."""
    raw = np.random.default_rng(1).random((len(layers), 2, len(tokens), len(tokens)), np.float32)
    return Attention(raw / raw.sum(-1, keepdims=True), layers, tokens, REF)


def test_hf_is_a_batch_of_one_for_each_selected_layer(client: Client) -> None:
    attention, hidden = client.attend(TEXT, [2, 0]), client.hidden(TEXT)
    count = len(attention.tokens)
    assert [layer.shape for layer in to_hf(attention)] == [(1, 2, count, count)] * 2
    for layer, weights in zip((2, 0), to_hf(attention), strict=True):
        np.testing.assert_array_equal(weights[0], attention.layer(layer))
    assert [state.shape for state in to_hf(hidden)] == [(1, count, 8)] * 4
    for state, numbers in zip(to_hf(hidden), hidden.states, strict=True):
        np.testing.assert_array_equal(state[0], numbers)


def test_tensors_are_equal_for_any_memory_layout(client: Client) -> None:
    attention = client.attend(TEXT)
    attention.weights.flags.writeable = False  # PyTorch warns of read-only arrays
    mirrored = Attention(
        attention.weights[::-1, :, ::-1], attention.layers, attention.tokens, attention.model
    )
    for value in (attention, mirrored):
        for given, weights in zip(to_hf(value, torch=True), value.weights, strict=True):
            np.testing.assert_array_equal(given.numpy()[0], weights)


def test_bertviz_layers_are_at_their_absolute_index() -> None:
    attention = attention_of(PAIR, (3, 1))
    arguments = to_bertviz(attention)
    assert arguments["include_layers"] == [3, 1]
    assert len(arguments["attention"]) == 4
    for layer in (3, 1):
        np.testing.assert_array_equal(
            arguments["attention"][layer].numpy()[0], attention.layer(layer)
        )
    for layer in (0, 2):  # placeholders are visibly empty
        assert arguments["attention"][layer].shape == (1, 2, 6, 6)
        assert arguments["attention"][layer].isnan().all()


def test_bertviz_receives_the_start_of_a_second_text() -> None:
    assert to_bertviz(attention_of(PAIR))["sentence_b_start"] == 3
    one = TokenList(PAIR.ids, PAIR.pieces, PAIR.starts, PAIR.ends, PAIR.special, (0,) * 6)
    mixed = TokenList(
        PAIR.ids, PAIR.pieces, PAIR.starts, PAIR.ends, PAIR.special, (0, 0, 1, 0, 1, 1)
    )
    only = TokenList(PAIR.ids, PAIR.pieces, PAIR.starts, PAIR.ends, PAIR.special, (1,) * 6)
    for tokens in (one, mixed, only):
        assert "sentence_b_start" not in to_bertviz(attention_of(tokens))


def test_labels_are_wordpieces_or_the_original_text(client: Client) -> None:
    attention = client.attend(TEXT)
    assert "prettify_tokens" not in to_bertviz(attention)
    assert to_bertviz(attention, TEXT)["tokens"] == ["[CLS]", "read", "Ġ", "path", "[SEP]"]
    assert to_bertviz(attention, TEXT)["prettify_tokens"] is False
    assert to_lit(attention_of(PAIR), ("A", "B C"))["tokens"] == [
        "[CLS]",
        "A",
        "[SEP]",
        "B",
        "C",
        "[SEP]",
    ]
    with pytest.raises(ValueError, match="give both texts"):
        to_lit(attention_of(PAIR), "A")


def test_transformer_lens_names_attention_and_states_by_its_own_keys(
    client: Client,
) -> None:
    attention, hidden = client.attend(TEXT, [2, 0]), client.hidden(TEXT)
    patterns, residuals = to_transformer_lens(attention), to_transformer_lens(hidden)
    assert list(patterns) == ["blocks.2.attn.hook_pattern", "blocks.0.attn.hook_pattern"]
    np.testing.assert_array_equal(patterns["blocks.2.attn.hook_pattern"][0], attention.layer(2))
    assert list(residuals) == [
        "blocks.0.hook_resid_pre",
        *(f"blocks.{block}.hook_resid_post" for block in range(3)),
    ]
    np.testing.assert_array_equal(residuals["blocks.1.hook_resid_post"][0], hidden.states[2])
    tensors = to_transformer_lens(attention, torch=True)
    np.testing.assert_array_equal(
        tensors["blocks.0.attn.hook_pattern"].numpy()[0], attention.layer(0)
    )


def test_lit_puts_the_key_first_and_counts_layers_from_one() -> None:
    attention = attention_of(PAIR, (5, 2))
    fields = to_lit(attention)
    assert list(fields) == ["tokens", "layer_6/attention", "layer_3/attention"]
    weights = np.asarray(fields["layer_3/attention"])
    np.testing.assert_array_equal(weights[1, 4, 3], attention.head(2, 1)[3, 4])
    np.testing.assert_allclose(weights.sum(-2), 1, rtol=1e-6)
    assert weights.flags.c_contiguous
    assert not np.shares_memory(weights, attention.weights)


def test_without_pytorch_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    attention = attention_of(PAIR)
    hidden = Hidden(np.zeros((1, 6, 4), np.float32), (0,), PAIR, REF)
    assert len(to_hf(attention)) == len(to_transformer_lens(hidden)) == 1
    with pytest.raises(ImportError, match="pip install torch"):
        to_bertviz(attention)
    with pytest.raises(ImportError, match="pip install torch"):
        to_transformer_lens(hidden, torch=True)
