"""Families with a relative bias: MPNet, T5."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from headlight_export.families import FAMILIES
from headlight_export.families.source import Config, Unfit
from headlight_export.folders.model_folder import Refused
from headlight_export.folders.origin import read_origin
from headlight_export.writer.bundle_writer import export_origin

T5: dict[str, Any] = {
    "vocab_size": 20,
    "d_model": 8,
    "d_kv": 5,
    "d_ff": 12,
    "num_layers": 2,
    "num_heads": 3,
    "n_positions": 40,
}


def tensors(**changes: Tensor | None) -> dict[str, Tensor]:
    """Return the weights of an encoder of T5 with a decoder; None removes one."""
    shapes = {"shared.weight": (20, 8), "encoder.final_layer_norm.weight": (8,)}
    shapes |= {"lm_head.weight": (20, 8), "decoder.final_layer_norm.weight": (8,)}
    for block in ("encoder.block.0", "encoder.block.1"):
        attention, networks = f"{block}.layer.0", f"{block}.layer.1"
        shapes |= {f"{attention}.SelfAttention.{part}.weight": (15, 8) for part in "qkv"}
        shapes[f"{attention}.SelfAttention.o.weight"] = (8, 15)
        shapes |= {f"{layer}.layer_norm.weight": (8,) for layer in (attention, networks)}
        shapes[f"{networks}.DenseReluDense.wi.weight"] = (12, 8)
        shapes[f"{networks}.DenseReluDense.wo.weight"] = (8, 12)
    shapes["encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"] = (32, 3)
    torch.manual_seed(3)
    made: dict[str, Tensor | None] = {name: torch.randn(shape) for name, shape in shapes.items()}
    return {name: tensor for name, tensor in (made | changes).items() if tensor is not None}


@pytest.mark.parametrize(
    ("family", "values", "message"),
    [
        ("t5", {"feed_forward_proj": "gated-mish"}, "feed_forward_proj 'gated-mish' cannot be"),
        ("t5", {"is_decoder": True}, "is_decoder is True, which makes it causal"),
        ("umt5", {"d_kv": 0}, "d_kv is 0; it must be at least 1"),
        ("mt5", {"num_layers": 5000}, "num_layers is 5000; at most 1024 is read"),
        (
            "mpnet",
            {"relative_attention_num_buckets": 64},
            "relative_attention_num_buckets is 64, which this family has no code for; only 32",
        ),
        ("mpnet", {"max_position_embeddings": 2}, "max_position_embeddings is 2; it must be at"),
    ],
)
def test_what_a_family_does_not_have_is_refused(
    family: str, values: dict[str, Any], message: str
) -> None:
    with pytest.raises(Refused, match=message):
        FAMILIES[family](Config(T5 | values), {}, None)


def test_umt5_needs_a_table_for_each_layer() -> None:
    FAMILIES["t5"](Config(T5), tensors(), None)
    with pytest.raises(Unfit, match=r"no encoder\.block\.1\..*relative_attention_bias"):
        FAMILIES["umt5"](Config(T5), tensors(), None)


def test_networks_without_a_kind_are_those_of_the_family() -> None:
    """As in transformers' configuration classes: relu in T5, gated-gelu in mT5 and umT5."""
    assert FAMILIES["t5"](Config(T5), tensors(), None).config.ffn == "plain"
    table = "encoder.block.1.layer.0.SelfAttention.relative_attention_bias.weight"
    for family, more in (("mt5", {}), ("umt5", {table: torch.zeros(32, 3)})):
        with pytest.raises(Unfit, match=r"no encoder\.block\.0\.layer\.1\.DenseReluDense\.wi_0"):
            FAMILIES[family](Config(T5), tensors(**more), None)


@pytest.mark.parametrize(
    "changes",
    [
        lambda made: {"encoder.embed_tokens.weight": made["shared.weight"]},
        lambda made: {
            "encoder.embed_tokens.weight": made["shared.weight"],
            "shared.weight": None,
        },
    ],
)
def test_embeddings_have_either_name_or_both(
    changes: Callable[[dict[str, Tensor]], dict[str, Tensor | None]],
) -> None:
    plain = FAMILIES["t5"](Config(T5), tensors(), None).state_dict()
    other = FAMILIES["t5"](Config(T5), tensors(**changes(tensors())), None).state_dict()
    assert all(torch.equal(other[name], value) for name, value in plain.items())


def test_a_relative_bias_has_no_longest_text() -> None:
    encoder = FAMILIES["t5"](Config(T5), tensors(), 300)
    assert (encoder.config.trained_length, encoder.config.max_length) == (40, 300)
    with torch.inference_mode():
        assert encoder(torch.ones(1, 300, dtype=torch.int64)).tokens.isfinite().all()


def test_float16_is_refused_for_t5(make_checkpoint: Callable[[str], Path], tmp_path: Path) -> None:
    """Before anything is traced."""
    origin = dataclasses.replace(read_origin(make_checkpoint("relative")), family="t5")
    with pytest.raises(ValueError, match=r"--precision fp16 overflows: .* of t5 .* bf16"):
        export_origin(origin, tmp_path / "bundle", precisions=("fp16",))
    assert not list(tmp_path.iterdir())
