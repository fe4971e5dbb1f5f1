"""Precedence of the rotary position keys of a config.json that has several."""

from __future__ import annotations

from typing import Any

import pytest

from headlight_export.families.rotary import NTK, SCALINGS, rotary
from headlight_export.families.source import Config
from headlight_export.folders.model_folder import Refused
from headlight_model.positions.rope import RopeScaling

LINEAR: dict[str, Any] = {"rope_type": "linear", "factor": 2.0}
TRAINED = 32
OF_GTE = (*SCALINGS, NTK)
FULL, LOCAL = "full_attention", "sliding_attention"


def fields(kind: str | None, values: dict[str, Any]) -> dict[str, Any]:
    return rotary(Config(values), default_theta=1000.0, trained=TRAINED, longest=TRAINED, kind=kind)


def read(kind: str | None = None, **values: Any) -> tuple[float, float, str | None]:
    """Return theta, fraction and the kind of scaling."""
    found = fields(kind, values)
    scaling = found["rope_scaling"]
    return found["rope_theta"], found["rope_fraction"], scaling and scaling.kind


def scaled(kind: str | None = None, **values: Any) -> RopeScaling | None:
    scaling: RopeScaling | None = fields(kind, values)["rope_scaling"]
    return scaling


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, (1000.0, 1.0, None)),
        ({"rope_theta": 5e4, "rope_scaling": None}, (5e4, 1.0, None)),
        ({"rope_theta": 5e4, "rope_scaling": LINEAR}, (5e4, 1.0, "linear")),
        (
            {"rope_theta": 5e4, "rope_parameters": LINEAR | {"rope_theta": 7e4}},
            (7e4, 1.0, "linear"),
        ),
        # The older key applies alone, without parts of the newer one.
        (
            {
                "rope_scaling": LINEAR,
                "rope_parameters": {"rope_type": "default", "rope_theta": 7e4},
            },
            (1000.0, 1.0, "linear"),
        ),
        (
            {"rope_scaling": LINEAR, "rope_parameters": {"partial_rotary_factor": 0.5}},
            (1000.0, 1.0, "linear"),
        ),
        ({"rope_scaling": {}, "rope_parameters": {"rope_theta": 7e4}}, (7e4, 1.0, None)),
    ],
)
def test_one_rope_key_is_used_without_mixing_in_the_other(
    values: dict[str, Any], expected: tuple[float, float, str | None]
) -> None:
    assert read(**values) == expected


@pytest.mark.parametrize("word", ["rope_scaling", "rope_parameters"])
@pytest.mark.parametrize("kind", ["yarn", "llama3"])
def test_the_top_level_original_length_takes_precedence(word: str, kind: str) -> None:
    own = {"rope_type": kind, "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    for inside, outside, expected in (
        (None, 24, 24),
        (48, 24, 24),
        (48, None, 48),
        (None, None, TRAINED),
    ):
        values = {word: own | {"original_max_position_embeddings": inside}}
        scaling = scaled(None, **values, original_max_position_embeddings=outside)
        assert scaling is not None
        assert scaling.trained_length == expected
    nested = {FULL: own | {"original_max_position_embeddings": 48}}
    scaling = scaled(FULL, rope_parameters=nested, original_max_position_embeddings=24)
    assert scaling is not None
    assert scaling.trained_length == 48


@pytest.mark.parametrize(
    "words", [{}, {"rope_scaling": LINEAR}, {"rope_scaling": {"rope_type": "default"}}]
)
def test_the_original_length_is_ignored_if_no_scaling_needs_it(words: dict[str, Any]) -> None:
    for length in (0, 8192.0, "many"):
        assert read(**words, original_max_position_embeddings=length) == read(**words)


def test_each_layer_type_has_its_own_parameters() -> None:
    nested = {FULL: {"rope_theta": 7e4}, LOCAL: {"rope_theta": 300.0}}
    assert read(FULL, rope_parameters=nested) == (7e4, 1.0, None)
    assert read(LOCAL, rope_parameters=nested) == (300.0, 1.0, None)
    assert read(FULL, rope_parameters=nested, rope_scaling=LINEAR) == (7e4, 1.0, "linear")
    assert read(LOCAL, rope_parameters={FULL: {"rope_theta": 7e4}, LOCAL: None}) == (
        1000.0,
        1.0,
        None,
    )


def test_per_type_parameters_are_refused_if_there_are_no_layer_types() -> None:
    for word in ("rope_parameters", "rope_scaling"):
        with pytest.raises(
            Refused,
            match=r"by kind of layer \('full_attention, sliding_attention'\) cannot be served",
        ):
            read(None, **{word: {FULL: {"rope_theta": 7e4}, LOCAL: {"rope_theta": 300.0}}})


@pytest.mark.parametrize("longest", [TRAINED, 8 * TRAINED])
def test_ntk_is_the_same_at_every_length_unlike_dynamic(longest: int) -> None:
    for kind, expected in (("ntk", {TRAINED: 8.0, 8 * TRAINED: 8.0}), ("dynamic", {256: 57.0})):
        config = Config({"rope_scaling": {"type": kind, "factor": 8.0}})
        fields = rotary(
            config,
            default_theta=1000.0,
            trained=TRAINED,
            longest=longest,
            scalings=OF_GTE,
        )
        scaling = fields["rope_scaling"]
        assert (scaling and scaling.factor) == expected.get(longest)
        if scaling is not None:
            assert scaling.kind == {"ntk": "fixed_ntk", "dynamic": "ntk"}[kind]


def test_scalings_that_are_not_implemented_are_refused_by_name() -> None:
    for own, scalings, name in (
        ({"type": "longrope", "factor": 2.0}, SCALINGS, "'longrope'"),
        ({"type": "ntk", "factor": 2.0}, SCALINGS, "'ntk' cannot be served; served are linear, "),
        ({"type": "ntk", "factor": 2.0, "mixed_b": 0.5}, OF_GTE, "mixed_b"),
    ):
        config = Config({"rope_scaling": own})
        with pytest.raises(Refused, match=name):
            rotary(config, default_theta=1.0, trained=TRAINED, longest=TRAINED, scalings=scalings)


@pytest.mark.parametrize("kind", [None, FULL])
@pytest.mark.parametrize(
    "values", [{"rope_scaling": "linear"}, {"rope_parameters": [1]}, {"rope_parameters": 5}]
)
def test_parameters_that_are_no_object_are_refused(
    kind: str | None, values: dict[str, Any]
) -> None:
    with pytest.raises(Refused, match="must be objects"):
        read(kind, **values)
