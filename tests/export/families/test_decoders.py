"""Attention direction and windows of decoders, read from their configs without their code."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from headlight_export.families import FAMILIES
from headlight_export.families.source import Config
from headlight_export.folders.model_folder import Refused
from headlight_model.config import EncoderConfig

LAYERS, DIM, FFN, VOCABULARY = 4, 8, 12, 11
CONFIG: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": DIM,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 2,
    "intermediate_size": FFN,
    "max_position_embeddings": 32,
    "hidden_act": "silu",
}


def tensors(family: str) -> dict[str, Tensor]:
    """Return the tensors of a family, all zeros."""
    shapes: dict[str, tuple[int, ...]] = {
        "embed_tokens.weight": (VOCABULARY, DIM),
        "norm.weight": (DIM,),
    }
    for layer in (f"layers.{at}" for at in range(LAYERS)):
        shapes |= {f"{layer}.self_attn.{part}_proj.weight": (DIM, DIM) for part in "qkvo"}
        shapes |= {f"{layer}.mlp.{part}_proj.weight": (FFN, DIM) for part in ("gate", "up")}
        shapes |= {f"{layer}.mlp.down_proj.weight": (DIM, FFN)}
        shapes |= {
            f"{layer}.{norm}_layernorm.weight": (DIM,) for norm in ("input", "post_attention")
        }
        if family == "qwen2":
            shapes |= {f"{layer}.self_attn.{part}_proj.bias": (DIM,) for part in "qkv"}
        if family == "qwen3":
            shapes |= {f"{layer}.self_attn.{part}_norm.weight": (DIM // 2,) for part in "qk"}
    return {name: torch.zeros(shape) for name, shape in shapes.items()}


def read(family: str, **said: Any) -> EncoderConfig:
    config = Config({"model_type": family} | CONFIG | said)
    return FAMILIES[family](config, tensors(family), None).config


@pytest.mark.parametrize(
    ("family", "said", "local"),
    [
        ("mistral", {"sliding_window": 5}, (0, 1, 2, 3)),
        ("mistral", {"sliding_window": None}, ()),
        (
            "mistral",
            {
                "sliding_window": 5,
                "layer_types": ["full_attention"] * LAYERS,
                "max_window_layers": 9,
            },
            (0, 1, 2, 3),
        ),
        ("qwen2", {"sliding_window": 5, "use_sliding_window": True, "max_window_layers": 3}, (3,)),
        ("qwen2", {"sliding_window": 5, "use_sliding_window": True, "max_window_layers": 28}, ()),
        ("qwen2", {"sliding_window": 5, "use_sliding_window": False, "max_window_layers": 0}, ()),
        (
            "qwen3",
            {
                "sliding_window": 5,
                "use_sliding_window": True,
                "max_window_layers": 3,
                "layer_types": [
                    "full_attention",
                    "sliding_attention",
                    "full_attention",
                    "full_attention",
                ],
            },
            (1,),
        ),
        ("llama", {"sliding_window": 5}, ()),
        ("eurobert", {"sliding_window": 5}, ()),
    ],
)
def test_local_layers_are_those_of_the_reference_code(
    family: str, said: dict[str, Any], local: tuple[int, ...]
) -> None:
    config = read(family, **said)
    assert config.local_layers == local
    assert config.window == (4 if local else 0)


@pytest.mark.parametrize("family", ["mistral", "qwen3"])
def test_a_bidirectional_window_does_not_count_the_token_itself(family: str) -> None:
    said = {"sliding_window": 5, "use_sliding_window": True, "max_window_layers": 0}
    assert read(family, **said, is_causal=False).window == 5
    own = {"auto_map": {"AutoModel": "modeling_own.Model"}}
    assert read(family, **said, **own, use_bidirectional_attention=True).window == 5
    assert read(family, **said).window == 4


def test_a_missing_window_takes_the_default_of_transformers() -> None:
    """As in transformers' configuration classes:

    4,096 if the key is missing, none if it is null.
    """
    assert (read("mistral").window, read("mistral").local_layers) == (4095, (0, 1, 2, 3))
    used = read("qwen2", use_sliding_window=True, max_window_layers=2)
    assert (used.window, used.local_layers) == (4095, (2, 3))
    assert (
        read("qwen2", use_sliding_window=True, max_window_layers=2, sliding_window=None).window == 0
    )
    assert read("qwen2").window == read("llama").window == 0


@pytest.mark.parametrize(
    "buffer", ["rotary_emb.inv_freq", "rotary_emb.original_inv_freq", "position_ids"]
)
def test_stored_buffers_of_old_files_are_recomputed(buffer: str) -> None:
    """Also if every layer had its own."""
    for family in ("llama", "mistral", "qwen2"):
        found = {f"model.{name}": tensor for name, tensor in tensors(family).items()}
        old = {f"model.layers.{at}.self_attn.{buffer}": torch.ones(2) for at in range(LAYERS)}
        FAMILIES[family](Config(CONFIG), found | old | {f"model.{buffer}": torch.ones(2)}, None)
        with pytest.raises(Refused, match="do not belong to this family"):
            FAMILIES[family](
                Config(CONFIG),
                found | {f"model.layers.0.self_attn.{buffer}_more": torch.ones(2)},
                None,
            )


@pytest.mark.parametrize("family", ["llama", "mistral", "qwen2", "qwen3"])
def test_a_decoder_with_custom_code_must_declare_its_attention_direction(family: str) -> None:
    own = {"auto_map": {"AutoModel": "modeling_qwen.Qwen2Model"}}
    with pytest.raises(Refused, match=r"auto_map .* add is_causal true or false"):
        read(family, **own)
    assert not read(family, **own, is_causal=False).causal
    assert read(family, **own, is_causal=True).causal
    assert not read(family, **own, use_bidirectional_attention=True).causal
    assert read(family, **own, use_bidirectional_attention=False).causal
    assert read(
        family, auto_map={"AutoTokenizer": ["tokenization_qwen.Qwen2Tokenizer", None]}
    ).causal


@pytest.mark.parametrize("family", ["llama", "mistral", "qwen2", "qwen3"])
def test_a_flag_that_no_code_reads_is_refused(
    family: str,
) -> None:
    flag = {"use_bidirectional_attention": True}
    for said in (
        {},
        {"is_causal": True},
        {"is_causal": True, "auto_map": {"AutoModel": "modeling_own.Model"}},
    ):
        with pytest.raises(
            Refused, match=r"use_bidirectional_attention is true, .* set is_causal to false"
        ):
            read(family, **flag, **said)
    assert not read(family, **flag, is_causal=False).causal
    assert read(family, use_bidirectional_attention=False).causal
    assert not read("eurobert", **flag).causal


@pytest.mark.parametrize(
    ("family", "said"),
    [
        ("llama", {"architectures": ["LlamaBidirectionalModel"]}),
        (
            "qwen3",
            {"auto_map": {"AutoModel": "modeling_qwen3_bidirectional.Qwen3BidirectionalModel"}},
        ),
        ("qwen3", {"architectures": ["VoyageQwen3BidirectionalEmbedModel"], "is_causal": True}),
        ("llama_bidirec", {}),
    ],
)
def test_a_model_that_is_bidirectional_by_name_is_not_causal(
    family: str, said: dict[str, Any]
) -> None:
    for word, pooling in (("avg", "mean"), ("cls", "cls"), ("last", "last")):
        config = read(family, **said, pooling=word)
        assert (config.causal, config.pooling) == (False, pooling)
    assert read(family, **said).pooling == "mean"
    with pytest.raises(Refused, match=r"pooling 'colbert' cannot be served; served are avg, cls"):
        read(family, **said, pooling="colbert")
    module = {"auto_map": {"AutoModel": "Bidirectional.Model"}, "is_causal": True}
    assert read("llama", **module).causal


def test_an_encoder_with_custom_code_is_read_as_its_family() -> None:
    assert not read("eurobert", auto_map={"AutoModel": "modeling_eurobert.EuroBertModel"}).causal
