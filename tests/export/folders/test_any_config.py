"""Any config.json: a folder is opened, or refused in one line."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from headlight_export.folders.model_folder import Refused
from headlight_export.folders.origin import read_origin
from tests.export.families import test_decoders, test_gemma3, test_modernbert

SIZES = test_decoders.CONFIG
FAMILIES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "qwen3": (
        SIZES | {"use_sliding_window": True, "max_window_layers": 2},
        test_decoders.tensors("qwen3"),
    ),
    "gemma3_text": (test_gemma3.CONFIG, test_gemma3.tensors()),
    "modernbert": (
        SIZES
        | {"num_hidden_layers": test_modernbert.LAYERS, "intermediate_size": test_modernbert.FFN},
        test_modernbert.tensors(),
    ),
}
KEYS = (
    *(key for key in SIZES if key != "model_type"),
    *(
        "head_dim",
        "num_key_value_heads",
        "sliding_window",
        "use_sliding_window",
        "max_window_layers",
        "layer_types",
    ),
    *(
        "rms_norm_eps",
        "norm_eps",
        "rope_theta",
        "global_rope_theta",
        "local_rope_theta",
        "partial_rotary_factor",
    ),
    *(
        "rope_scaling",
        "rope_parameters",
        "original_max_position_embeddings",
        "local_attention",
        "pad_token_id",
    ),
    *(
        "global_attn_every_n_layers",
        "auto_map",
        "is_causal",
        "use_bidirectional_attention",
        "attention_bias",
        "sliding_window_pattern",
        "query_pre_attn_scalar",
        "rope_local_base_freq",
    ),
)
NUMBERS = st.sampled_from(
    [0, 1, 2, 3, 4, 8, 32, -1, 3_000_000_000, 10**18, 10**400, 0.5, 1.0, 1e-320, 1e308, math.inf]
)
WORDS = st.sampled_from(["", "4096", "gelu", "full_attention", "yarn", "default"])
PLAIN = st.one_of(st.none(), st.booleans(), NUMBERS, WORDS, st.just(math.nan))
ROPE_KEYS = (
    "rope_theta",
    "factor",
    "original_max_position_embeddings",
    "beta_fast",
    "beta_slow",
    "attention_factor",
)
KINDS = st.sampled_from(["yarn", "llama3", "linear", "dynamic", "default"])
ROPE = st.fixed_dictionaries(
    {},
    optional={"rope_type": KINDS}
    | dict.fromkeys((*ROPE_KEYS, "low_freq_factor", "high_freq_factor"), NUMBERS),
)
BY_KIND = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(("full_attention", "sliding_attention"), st.one_of(ROPE, PLAIN))
)
VALUES = st.one_of(
    PLAIN, st.lists(st.one_of(PLAIN, st.lists(WORDS, max_size=2)), max_size=4), ROPE, BY_KIND
)


@pytest.fixture(scope="module", params=FAMILIES)
def folder(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, dict[str, Any]]:
    """Create weights and a config that fits them."""
    config, tensors = FAMILIES[request.param]
    path = tmp_path_factory.mktemp(request.param)
    save_file(tensors, path / "model.safetensors")
    return path, config | {"model_type": request.param}


def refusal(folder: tuple[Path, dict[str, Any]], said: dict[str, Any]) -> str:
    """Return the refusal of a config with other values; empty if it is opened."""
    path, config = folder
    (path / "config.json").write_text(json.dumps(config | said), encoding="utf-8")
    try:
        read_origin(path, pooling="mean", ids_only=True)
    except Refused as error:
        return str(error)
    return ""


@settings(max_examples=100, deadline=None)
@given(said=st.dictionaries(st.sampled_from(KEYS), VALUES, min_size=1, max_size=3))
def test_any_config_is_opened_or_refused_in_one_line(
    folder: tuple[Path, dict[str, Any]], said: dict[str, Any]
) -> None:
    message = refusal(folder, said)
    assert "\n" not in message
    assert "bug" not in message


@pytest.mark.parametrize(
    ("family", "said", "named"),
    [
        ("qwen3", {"sliding_window": "4096"}, "sliding_window is '4096'; expected int"),
        ("qwen3", {"sliding_window": 1}, "sliding_window is 1; it must be at least 2"),
        ("qwen3", {"layer_types": [["a"], ["b"], ["a"], ["b"]]}, "layer_types must name"),
        ("qwen3", {"hidden_size": 3_000_000_000}, "config.json"),
        ("qwen3", {"hidden_size": 10**400}, "hidden_size is 1000"),
        ("qwen3", {"num_hidden_layers": 0}, "num_hidden_layers is 0; it must be at least 1"),
        (
            "qwen3",
            {"rope_scaling": {"type": "yarn", "factor": 2.0}, "rope_theta": 1},
            "rope_theta is 1.0; it must be",
        ),
        ("qwen3", {"rms_norm_eps": math.nan}, "rms_norm_eps is nan; it must be"),
        (
            "modernbert",
            {"global_attn_every_n_layers": 0},
            "global_attn_every_n_layers is 0; it must be at least 1",
        ),
        ("modernbert", {"local_attention": 1}, "local_attention is 1; it must be at least 2"),
        ("modernbert", {"local_attention": 0}, "local_attention is 0; it must be at least 2"),
    ],
)
def test_a_refusal_names_the_value_at_fault(
    tmp_path: Path, family: str, said: dict[str, Any], named: str
) -> None:
    config, tensors = FAMILIES[family]
    save_file(tensors, tmp_path / "model.safetensors")
    message = refusal((tmp_path, config | {"model_type": family}), said)
    assert named in message
    assert "config.json" in message


def test_windows_of_one_token_are_served_in_bidirectional_models(tmp_path: Path) -> None:
    config, tensors = FAMILIES["qwen3"]
    save_file(tensors, tmp_path / "model.safetensors")
    said = {"sliding_window": 1, "is_causal": False, "model_type": "qwen3"}
    assert not refusal((tmp_path, config), said)
