"""Windows, angles and scales of Gemma 3, read from its config without its code."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from headlight_export.families import FAMILIES
from headlight_export.families.heads import read_token_head
from headlight_export.families.source import Config
from headlight_export.folders.model_folder import Refused
from headlight_model.config import EncoderConfig
from headlight_model.encoder import Encoder

LAYERS, DIM, WIDTH, FFN, VOCABULARY = 3, 8, 4, 12, 11
CONFIG: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": DIM,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": WIDTH,
    "intermediate_size": FFN,
    "max_position_embeddings": 32,
    "sliding_window_pattern": 3,
}
BOTH_WAYS = {"use_bidirectional_attention": True}
FULL, LOCAL = "full_attention", "sliding_attention"
LINEAR = {"rope_type": "linear", "factor": 8.0}


def tensors() -> dict[str, Tensor]:
    """Return the tensors of the family, all zeros."""
    shapes: dict[str, tuple[int, ...]] = {
        "embed_tokens.weight": (VOCABULARY, DIM),
        "norm.weight": (DIM,),
    }
    for layer in (f"layers.{at}" for at in range(LAYERS)):
        widths = {"q": 2 * WIDTH, "k": WIDTH, "v": WIDTH}
        shapes |= {
            f"{layer}.self_attn.{part}_proj.weight": (width, DIM) for part, width in widths.items()
        }
        shapes |= {f"{layer}.self_attn.{part}_norm.weight": (WIDTH,) for part in "qk"}
        shapes |= {f"{layer}.self_attn.o_proj.weight": (DIM, 2 * WIDTH)}
        shapes |= {f"{layer}.mlp.{part}_proj.weight": (FFN, DIM) for part in ("gate", "up")}
        shapes |= {f"{layer}.mlp.down_proj.weight": (DIM, FFN)}
        places = ("input", "post_attention", "pre_feedforward", "post_feedforward")
        shapes |= {f"{layer}.{place}_layernorm.weight": (DIM,) for place in places}
    return {name: torch.zeros(shape) for name, shape in shapes.items()}


def read(**said: Any) -> tuple[Encoder, list[str]]:
    """Return the encoder, and the remarks for the user."""
    config = Config(CONFIG | said)
    return FAMILIES["gemma3_text"](config, tensors(), None), config.remarks


def config_of(**said: Any) -> EncoderConfig:
    return read(**said)[0].config


@pytest.mark.parametrize(
    ("said", "window"),
    [
        (BOTH_WAYS | {"sliding_window": 512}, 256),
        (BOTH_WAYS | {"sliding_window": 2}, 1),
        ({"sliding_window": 512}, 511),
        (BOTH_WAYS, 2048),
        ({}, 4095),
    ],
)
def test_a_bidirectional_window_is_half_on_each_side(said: dict[str, Any], window: int) -> None:
    encoder, remarks = read(**said)
    assert encoder.config.window == window
    assert encoder.config.causal is not said.get("use_bidirectional_attention", False)
    assert not remarks


def test_a_window_that_was_halved_when_it_was_saved_is_reported() -> None:
    """transformers 4 writes 257 for 512, and halves it again when it opens it."""
    encoder, [remark] = read(**BOTH_WAYS, sliding_window=257)
    assert encoder.config.window == 128
    assert "sliding_window 257 is read as transformers does, 128 tokens each way" in remark
    assert "odd numbers for 512, which is 256 each way" in remark
    assert config_of(**BOTH_WAYS, sliding_window=512).window == 256
    assert not read(sliding_window=257)[1]


@pytest.mark.parametrize(
    ("said", "local"),
    [
        ({}, (0, 1)),
        ({"sliding_window_pattern": 2}, (0, 2)),
        ({"sliding_window_pattern": None}, (0, 1, 2)),
        ({"layer_types": [FULL, LOCAL, FULL]}, (1,)),
        ({"layer_types": [FULL] * 3, "sliding_window": None}, ()),
    ],
)
def test_every_nth_layer_is_global_unless_the_config_names_them(
    said: dict[str, Any], local: tuple[int, ...]
) -> None:
    assert config_of(**said).local_layers == local


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({}, (1e6, 1e4, None)),
        ({"rope_theta": 5e5, "rope_local_base_freq": 700}, (5e5, 700.0, None)),
        ({"rope_theta": 5e5, "rope_scaling": LINEAR}, (5e5, 1e4, 8.0)),
        (
            {
                "rope_parameters": {
                    FULL: LINEAR | {"rope_theta": 5e5},
                    LOCAL: {"rope_type": "default", "rope_theta": 700.0},
                },
                "rope_theta": 1.0,
            },
            (5e5, 700.0, 8.0),
        ),
    ],
)
def test_global_layers_alone_are_scaled_and_each_kind_has_its_theta(
    said: dict[str, Any], expected: tuple[float, float, float | None]
) -> None:
    config = config_of(**said)
    scaling = config.rope_scaling
    assert (config.rope_theta, config.rope_local_theta, scaling and scaling.factor) == expected


def test_scales_of_norms_and_scores_are_in_the_weights() -> None:
    """The weights are zeros: norms multiply by 1."""
    state = read(query_pre_attn_scalar=16)[0].state_dict()
    norms = {name: float(value[0]) for name, value in state.items() if "norm" in name}
    assert len(norms) == 6 * LAYERS + 1
    queries = {name for name in norms if "query_norm" in name}
    assert {norms.pop(name) for name in queries} == {0.5}  # sqrt(4 / 16)
    assert set(norms.values()) == {1.0}


@pytest.mark.parametrize(
    ("said", "refusal"),
    [
        ({"attn_logit_softcapping": 50.0}, "attn_logit_softcapping is 50.0, which caps scores"),
        ({"is_causal": False}, "is_causal is False, .* use_bidirectional_attention to true"),
        ({"sliding_window": None}, "sliding_window is null, but layer_types names local layers"),
        (
            {"rope_parameters": {LOCAL: LINEAR}},
            "scaled rope in local layers cannot be served; scale full_attention alone",
        ),
        ({"query_pre_attn_scalar": 0}, "query_pre_attn_scalar is 0.0; it must be at least 1"),
    ],
)
def test_values_that_are_not_served_are_refused_by_name(said: dict[str, Any], refusal: str) -> None:
    with pytest.raises(Refused, match=refusal):
        read(**said)


def test_capped_logits_are_refused_for_scores_by_tokens_alone() -> None:
    """Vectors are computed without them."""
    said = {"final_logit_softcapping": 30.0}
    encoder = read(**said)[0]
    with pytest.raises(Refused, match=r"final_logit_softcapping is 30\.0, which caps scores"):
        read_token_head("gemma3_text", Config(CONFIG | said), {}, encoder, (1, 2))
