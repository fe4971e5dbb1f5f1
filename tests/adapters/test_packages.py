"""Adapters compared with the tools themselves.

Run by `nox -s adapters`, in an environment of its own.

A small BERT with random weights is computed twice: by Hugging Face, and by the formula in NumPy
with Headlight's axes.
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from bertviz import head_view, model_view
from lit_nlp.api import types
from transformer_lens import ActivationCache
from transformer_lens.model_bridge.sources import build_bridge_from_module
from transformers import BertConfig, BertForMaskedLM, GPT2Config, GPT2LMHeadModel

from headlight import Attention, Hidden, TokenList
from headlight.adapters import to_bertviz, to_hf, to_lit, to_transformer_lens
from headlight.results import Floats, ModelRef

LAYERS, HEADS, DIM = 3, 2, 8
REF = ModelRef("bert", "1", "ab", "cpu", "fp32")
PAIR = TokenList(
    ids=(1, 9, 2, 8, 7, 2),
    pieces=("[CLS]", "Ġa", "[SEP]", "b", "##c", "[SEP]"),
    starts=(0, 0, 0, 0, 1, 0),
    ends=(0, 1, 0, 1, 2, 0),
    special=(True, False, True, False, False, True),
    segments=(0, 0, 0, 1, 1, 1),
)
IDS = torch.tensor([PAIR.ids])
# BertViz leaves its script files for the garbage collector to close.
leaves_files_open = pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")


@pytest.fixture(scope="module")
def bert() -> Any:
    torch.manual_seed(0)
    sizes = {
        "hidden_size": DIM,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "intermediate_size": 16,
    }
    # Large initial weights: otherwise all are near 1/6 and both orientations look alike.
    config = BertConfig(vocab_size=10, max_position_embeddings=8, initializer_range=1.0, **sizes)
    config._attn_implementation = "eager"
    return BertForMaskedLM(config).eval()


@pytest.fixture(scope="module")
def theirs(bert: Any) -> Any:
    with torch.no_grad():
        return bert(IDS, output_attentions=True, output_hidden_states=True)


@pytest.fixture(scope="module")
def hidden(theirs: Any) -> Hidden:
    states = np.stack([state[0].numpy() for state in theirs.hidden_states])
    return Hidden(states, tuple(range(LAYERS + 1)), PAIR, REF)


@pytest.fixture(scope="module")
def attention(bert: Any, hidden: Hidden) -> Attention:
    pairs = zip(bert.bert.encoder.layer, hidden.states[:-1], strict=True)
    weights = np.stack([softmax_of(layer.attention.self, state) for layer, state in pairs])
    return Attention(weights, tuple(range(LAYERS)), PAIR, REF)


def softmax_of(layer: Any, state: Floats) -> Floats:
    """Return float32 [H, n, n] with Headlight's axes: query on axis -2, key on axis -1."""
    query, key = (
        (state @ part.weight.detach().numpy().T + part.bias.detach().numpy()).reshape(
            len(state), HEADS, -1
        )
        for part in (layer.query, layer.key)
    )
    scores = np.einsum("qhd,khd->hqk", query, key) / np.sqrt(DIM // HEADS)
    raw = np.exp(scores - scores.max(-1, keepdims=True))
    weights: Floats = (raw / raw.sum(-1, keepdims=True)).astype(np.float32)
    return weights


def shown(html: Any) -> dict[str, Any]:
    """Return what a view passes to its script in the browser."""
    _, _, rest = html.data.partition("const params = ")
    params: dict[str, Any] = json.JSONDecoder().raw_decode(rest)[0]
    return params


def some_layers(attention: Attention, layers: tuple[int, ...]) -> Attention:
    return Attention(attention.weights[list(layers)], layers, attention.tokens, attention.model)


def test_hugging_face_output_has_the_same_layout_and_orientation(
    attention: Attention, hidden: Hidden, theirs: Any
) -> None:
    for ours, given in ((attention, theirs.attentions), (hidden, theirs.hidden_states)):
        made = to_hf(ours, torch=True)
        assert type(made) is type(given)
        assert [(one.shape, one.dtype) for one in made] == [(one.shape, one.dtype) for one in given]
        for one, other in zip(made, given, strict=True):
            torch.testing.assert_close(one, other, atol=1e-6, rtol=0)
    turned = np.abs(attention.weights - attention.weights.swapaxes(-1, -2)).max()
    assert turned > 0.1  # otherwise the comparison above could not distinguish queries from keys


@leaves_files_open
@pytest.mark.parametrize("view", [head_view, model_view])
def test_bertviz_shows_each_weight_at_its_query_and_key(attention: Attention, view: Any) -> None:
    params = shown(view(**to_bertviz(attention), html_action="return"))
    whole, *_, across, back = params["attention"]
    assert (
        whole["left_text"] == whole["right_text"] == ["[CLS]", " a", "[SEP]", "b", "##c", "[SEP]"]
    )
    np.testing.assert_array_equal(np.array(whole["attn"], np.float32), attention.weights)
    # left is the query: the names of the parts are BertViz's own words for the direction
    assert (across["name"], back["name"]) == (
        "Sentence A -> Sentence B",
        "Sentence B -> Sentence A",
    )
    assert (across["left_text"], across["right_text"]) == (
        ["[CLS]", " a", "[SEP]"],
        ["b", "##c", "[SEP]"],
    )
    np.testing.assert_array_equal(
        np.array(across["attn"], np.float32), attention.weights[..., :3, 3:]
    )
    np.testing.assert_array_equal(
        np.array(back["attn"], np.float32), attention.weights[..., 3:, :3]
    )


@leaves_files_open
@pytest.mark.parametrize("view", [head_view, model_view])
@pytest.mark.parametrize("layers", [(2,), (2, 0), (0, 1)])
def test_bertviz_numbers_selected_layers_absolutely(
    attention: Attention, view: Any, layers: tuple[int, ...]
) -> None:
    html = view(**to_bertviz(some_layers(attention, layers), ("a", "bc")), html_action="return")
    params = shown(html)
    assert params["include_layers"] == list(layers)
    assert params["attention"][0]["left_text"] == ["[CLS]", "a", "[SEP]", "b", "c", "[SEP]"]
    shown_weights = np.array(params["attention"][0]["attn"], np.float32)
    np.testing.assert_array_equal(shown_weights, attention.weights[list(layers)])
    assert "NaN" not in html.data


def test_transformer_lens_caches_the_same_arrays_under_the_same_names(
    bert: Any, attention: Attention, hidden: Hidden
) -> None:
    bridge = build_bridge_from_module(bert, "BertForMaskedLM", hf_config=bert.config)
    with torch.no_grad():
        _, cache = bridge.run_with_cache(IDS)
    entries = to_transformer_lens(attention, torch=True) | to_transformer_lens(hidden, torch=True)
    assert len(entries) == LAYERS + LAYERS + 1
    for name, entry in entries.items():
        torch.testing.assert_close(cache[name], entry, atol=1e-5, rtol=0)
    ours = ActivationCache(entries, bridge)
    assert ours["pattern", 1].shape == (1, HEADS, 6, 6)
    torch.testing.assert_close(ours["resid_post", 2], cache["resid_post", 2], atol=1e-5, rtol=0)


def test_pre_norm_models_match_the_docstrings() -> None:
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=10, n_positions=8, n_embd=DIM, n_layer=LAYERS, n_head=HEADS)
    config._attn_implementation = "eager"
    gpt2 = GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        _, cache = build_bridge_from_module(
            gpt2, "GPT2LMHeadModel", hf_config=config
        ).run_with_cache(IDS)
        states = gpt2(IDS, output_hidden_states=True).hidden_states
        last = cache[f"blocks.{LAYERS - 1}.hook_resid_post"]
        torch.testing.assert_close(gpt2.transformer.ln_f(last), states[-1])
    torch.testing.assert_close(cache["blocks.0.hook_resid_post"], states[1])
    torch.testing.assert_close(cache["blocks.0.hook_resid_pre"], states[0])
    for one, other in ((last, states[-1]), (cache["hook_embed"], states[0])):
        assert not torch.allclose(one, other, atol=1e-3)


def test_lit_accepts_its_fields(attention: Attention) -> None:
    fields = to_lit(some_layers(attention, (2, 0)))
    spec: dict[str, Any] = {"tokens": types.Tokens()}
    spec |= {
        name: types.AttentionHeads(align_in="tokens", align_out="tokens")
        for name in fields
        if name != "tokens"
    }
    assert set(spec) == {"tokens", "layer_3/attention", "layer_1/attention"}
    for name, kind in spec.items():
        kind.validate_output(fields[name], spec, fields, {}, {}, {})
    with pytest.raises(ValueError, match="ndim"):
        spec["layer_1/attention"].validate_output(
            np.asarray(fields["layer_1/attention"])[0], spec, fields, {}, {}, {}
        )


def test_lit_transposes_attention_as_its_own_example_does(attention: Attention) -> None:
    package = importlib.util.find_spec("lit_nlp.examples.glue")
    assert package is not None
    assert package.submodule_search_locations
    example = (Path(package.submodule_search_locations[0]) / "models.py").read_text(
        encoding="utf-8"
    )
    # The example needs TensorFlow, so it is read and not run: this fails when LIT changes its mind.
    assert "output[key] = output[key][:, :ntok, :ntok].transpose((0, 2, 1))" in example
    assert 'ret[f"layer_{i+1}/attention"] = lit_types.AttentionHeads(' in example
    for layer, weights in enumerate(to_hf(attention)):
        np.testing.assert_array_equal(
            to_lit(attention)[f"layer_{layer + 1}/attention"], weights[0].transpose((0, 2, 1))
        )
