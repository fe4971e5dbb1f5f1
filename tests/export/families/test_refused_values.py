"""Values of a config.json that a family is not served with."""

from __future__ import annotations

from typing import Any

import pytest

from headlight_export.families import FAMILIES, encoder_config
from headlight_export.folders.model_folder import Refused

USUAL: dict[str, Any] = {
    "vocab_size": 9,
    "hidden_size": 8,
    "num_attention_heads": 2,
    "num_hidden_layers": 1,
    "intermediate_size": 8,
    "relative_attention": True,
    "position_biased_input": False,
    "position_buckets": 4,
    "pos_att_type": ["c2p", "p2c"],
}


@pytest.mark.parametrize(
    ("family", "said", "cause"),
    [
        ("new", {"position_embedding_type": "absolute"}, "only rope is"),
        ("new", {"layer_norm_type": "rms_norm"}, "only layer_norm is"),
        ("new", {"pack_qkv": False}, "only True is"),
        ("gte", {"logn_attention_scale": True}, "only False is"),
        ("deberta-v2", {"relative_attention": False}, "not served without it"),
        ("deberta-v2", {"position_biased_input": True}, "together with relative ones"),
        ("deberta-v2", {"conv_kernel_size": 3}, r"cannot be served \(deberta-v2-xlarge\)"),
        ("deberta-v2", {"position_buckets": -1}, "distances are served in buckets"),
        ("deberta-v2", {"pos_att_type": "p2c"}, "only both of .* are served"),
        ("deberta-v2", {"embedding_size": 9}, "projected embeddings are not served here"),
        ("gpt2", {"add_cross_attention": True}, "decoders alone are served"),
    ],
)
def test_a_value_that_changes_the_arithmetic_is_refused(
    family: str, said: dict[str, Any], cause: str
) -> None:
    [name] = said
    with pytest.raises(Refused, match=rf"^config.json: {name} is .*{cause}$"):
        encoder_config(family, USUAL | said)


@pytest.mark.parametrize("family", FAMILIES)
def test_each_family_checks_its_values_without_tensors(family: str) -> None:
    sizes = dict.fromkeys(("d_model", "dim", "n_embd"), 8)
    sizes |= dict.fromkeys(("num_heads", "num_layers", "n_head", "n_layer", "n_layers"), 2)
    sizes |= {
        "d_kv": 4,
        "d_ff": 8,
        "hidden_dim": 8,
        "num_key_value_heads": 2,
        "max_position_embeddings": 16,
    }
    values = USUAL | sizes
    assert encoder_config(family, values).vocab_size == values["vocab_size"]
    names = ("hidden_act", "activation", "activation_function", "hidden_activation")
    unknown = dict.fromkeys((*names, "feed_forward_proj"), "cube")
    with pytest.raises(Refused, match=r"config.json: .* 'cube' cannot be served"):
        encoder_config(family, values | unknown)
