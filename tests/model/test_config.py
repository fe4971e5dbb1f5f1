from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headlight_model.config import EncoderConfig, TokenWeightHead

Build = Callable[..., EncoderConfig]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"vocab_size": 0}, "vocab_size is 0; it must be at least 1"),
        ({"dim": 0}, "dim is 0; it must be at least 1"),
        ({"heads": -2}, "heads is -2; it must be at least 1"),
        ({"layers": 0}, "layers is 0; it must be at least 1"),
        ({"ffn_dim": 0}, "ffn_dim is 0; it must be at least 1"),
        ({"trained_length": 0}, "trained_length is 0; it must be at least 1"),
        ({"max_length": 0}, "max_length is 0; it must be at least 1"),
        ({"dim": 10, "heads": 4}, "dim 10 is not a multiple of heads 4"),
        ({"norm": "rms"}, r"norm is 'rms'; choose one of \('pre', 'post', 'sandwich'\)"),
        ({"pooling": "middle"}, "pooling is 'middle'; choose one of"),
        ({"pad_id": 50}, "pad_id 50 is not a token of a vocabulary of 50"),
        ({"pad_id": -1}, "pad_id -1 is not a token"),
        (
            {"token_weight_head": TokenWeightHead(skipped=(0, 50))},
            "skipped has 50, which is not a token of a vocabulary of 50",
        ),
        ({"norm_eps": 0.0}, "norm_eps is 0.0; it must be above 0 and finite"),
        ({"rope_theta": float("nan")}, "rope_theta is nan; it must be above 0 and finite"),
        ({"sinusoidal_base": 0.0}, "sinusoidal_base is 0.0; it must be above 0 and finite"),
        (
            {"norm": "post", "embedding_norm": True, "first_norm": False},
            "embedding_norm is True and first_norm is False, .* set first_norm to True, or "
            "embedding_norm to False",
        ),
        ({"positions_every_layer": True}, "positions 'rope' are not added; choose sinusoidal or"),
        ({"rope_fraction": float("inf")}, "rope_fraction is inf; it must be above 0 and at most 1"),
        ({"dropout": 1.0}, "^dropout is 1.0; it must be at least 0 and below 1"),
        ({"embedding_dropout": -0.1}, "embedding_dropout is -0.1; it must be at least 0"),
        ({"norm_type": "batch"}, r"norm_type is 'batch'; choose one of \('layer', 'rms'\)"),
        ({"ffn": "wide"}, r"ffn is 'wide'; choose one of \('plain', 'gated'\)"),
        ({"activation": "swish"}, "activation is 'swish'; choose one of"),
        ({"qk_norm": "l2"}, "qk_norm is 'l2'; choose one of"),
        ({"heads": 6, "dim": 24, "kv_heads": 4}, "heads 6 is not a multiple of kv_heads 4"),
        ({"window": 3}, "window 3 and local_layers .. go together"),
        ({"window": 3, "local_layers": (9,)}, "local_layers .9,. must be different layers"),
        ({"alibi": "odd"}, r"alibi is 'odd'; choose one of \('symmetric', 'signed'\)"),
        ({"segments": -1}, "segments is -1; it must be at least 0"),
        ({"rope_offset": -1}, "rope_offset is -1; it must be at least 0"),
        (
            {"dim": 6, "heads": 2},
            r"rope_fraction 1.0 of a head of 3 is 3 dimensions; rope turns pairs",
        ),
        (
            {"rope_fraction": 0.1},
            "is 0 dimensions; rope turns pairs, so it must be an even number from 2 to 8",
        ),
        ({"rope_fraction": 1.5}, "is 12 dimensions; rope turns pairs"),
        (
            {"positions": "alibi", "alibi": "signed", "causal": True},
            "which causal forbids; choose 'symmetric'",
        ),
        ({"relative_buckets": 3}, "relative_buckets is 3; it must be at least 4"),
        (
            {"positions": "relative", "relative_distance": 8},
            "relative_distance is 8; it must be above a quarter of relative_buckets 32",
        ),
        ({"relative_distance": 1 << 21}, "relative_distance is 2097152; it must be at most"),
        ({"trained_length": 65, "max_length": 64}, "trained_length 65 is beyond max_length 64"),
    ],
)
def test_a_bad_value_is_refused_by_name(
    changes: dict[str, Any], message: str, config: Build
) -> None:
    with pytest.raises(ValueError, match=message):
        config(**changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"colour": 1, "aroma": 2}, r"unknown keys \['aroma', 'colour'\]"),
        ({"dim": "16"}, "dim is '16'; expected int"),
        ({"dim": 16.0}, r"dim is 16\.0; expected int"),
        ({"dim": True}, "dim is True; expected int"),
        ({"normalize": 1}, "normalize is 1; expected bool"),
        ({"norm_eps": "small"}, "norm_eps is 'small'; expected float"),
        ({"positions": None}, "positions is None; expected str"),
        ({"dense": [{"width": 0}]}, r"dense\[0\]: dense.width is 0; it must be at least 1"),
        ({"dense": {"width": 3}}, "dense is {'width': 3}; expected a list"),
        (
            {"rope_scaling": {"kind": "more", "factor": 2}},
            "rope_scaling: rope_scaling.kind is 'more'; choose one of",
        ),
        ({"rope_scaling": {"kind": "linear"}}, r"rope_scaling: missing keys \['factor'\]"),
    ],
)
def test_a_bad_key_or_type_is_refused_by_name(
    changes: dict[str, Any], message: str, config: Build
) -> None:
    with pytest.raises(ValueError, match=message):
        EncoderConfig.from_dict(dataclasses.asdict(config()) | changes)


def test_missing_keys_are_named() -> None:
    with pytest.raises(ValueError, match=r"missing keys \['dim', 'ffn_dim', 'heads', 'layers'\]"):
        EncoderConfig.from_dict({"vocab_size": 5, "positions": "rope"})


def test_a_missing_newer_option_has_its_default() -> None:
    old = {"vocab_size": 5, "dim": 8, "heads": 2, "layers": 1, "ffn_dim": 8, "positions": "rope"}
    config = EncoderConfig.from_dict(old)
    assert (config.segments, config.causal, config.norm_type, config.ffn) == (
        0,
        False,
        "layer",
        "plain",
    )
    assert (config.final_norm, config.dense) == (True, ())
    assert (config.first_norm, config.sinusoidal_base) == (True, 10000.0)


def test_constraints_of_one_scheme_do_not_apply_to_others(config: Build) -> None:
    assert config(positions="learned", dim=6, heads=2).head_dim == 3
    assert config(positions="rope", alibi="signed", causal=True).causal


def test_an_integer_is_accepted_as_a_float(config: Build) -> None:
    assert (
        EncoderConfig.from_dict(dataclasses.asdict(config()) | {"rope_theta": 500}).rope_theta
        == 500
    )


def test_a_config_round_trips_through_its_file(tmp_path: Path, config: Build) -> None:
    written = config(
        norm="post", scale_embeddings=True, dropout=0.1, rope_theta=500.0, sinusoidal_base=300.0
    )
    path = tmp_path / "config.json"
    path.write_text(written.to_json(), encoding="utf-8")
    assert EncoderConfig.load(path) == written


@pytest.mark.parametrize("text", ["{", "3", json.dumps({"dim": 4})])
def test_a_bad_file_is_named(text: str, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=r"config\.json: "):
        EncoderConfig.load(path)
