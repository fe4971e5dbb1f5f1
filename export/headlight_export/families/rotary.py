"""Rotary positions in config.json: `rope_parameters`, formerly `rope_theta` and `rope_scaling`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from headlight_export.families.source import GLOBAL, LOCAL, Config
from headlight_export.folders.model_folder import Refused
from headlight_model.positions.rope import RopeScaling

ORIGINAL = "original_max_position_embeddings"
SCALINGS = ("linear", "dynamic", "yarn", "llama3")  # of all families
NTK = "ntk"  # of GTE's own code, which has a formula for it


def rotary_by_kind(
    config: Config,
    keys: Mapping[str, tuple[str, float]],
    *,
    trained: int,
    longest: int,
    scaled: Collection[str] = (GLOBAL, LOCAL),
) -> dict[str, Any]:
    """Return the rope_ fields of a model whose global and local layers have their own.

    Args:
        keys: of each kind, the former key of its theta and the family's default.
        config, trained, longest: see `rotary`.
        scaled: the kinds that the former `rope_scaling` is for.

    Raises:
        Refused: as `rotary`, or local layers are scaled.
    """
    fields: dict[str, dict[str, Any]] = {}
    for kind, (name, default) in keys.items():
        null = kind == LOCAL and name in config.values  # if null, local layers are like global ones
        theta = config.get(float, name, default=fields[GLOBAL]["rope_theta"] if null else default)
        kind_config = config if kind in scaled else Config({**config.values, "rope_scaling": None})
        fields[kind] = rotary(
            kind_config, default_theta=theta, trained=trained, longest=longest, kind=kind
        )
    if fields[LOCAL]["rope_scaling"] is not None:
        raise Refused(
            "config.json: scaled rope in local layers cannot be served; scale full_attention alone"
        )
    return fields[GLOBAL] | {"rope_local_theta": fields[LOCAL]["rope_theta"]}


def rotary(
    config: Config,
    *,
    default_theta: float,
    trained: int,
    longest: int,
    kind: str | None = None,
    scalings: Collection[str] = SCALINGS,
) -> dict[str, Any]:
    """Return the rope_ fields of an EncoderConfig.

    Args:
        config: of the folder.
        default_theta: of the family, or of the kind of layers, if the file has none.
        trained: tokens, the config's max_position_embeddings.
        longest: tokens, the most to be served; above `trained` a "dynamic" scaling is fixed for
            this length.
        kind: of layers ("full_attention"), if each kind has its own parameters.
        scalings: that the family has.

    Raises:
        Refused: another scaling, or parameters by kind of layer in a family without kinds.
    """
    values = Config(_rope_fields(config, kind))
    if kind is None:
        default_theta = config.get(float, "rope_theta", default=default_theta)
    theta = values.get(float, "rope_theta", default=default_theta)
    fraction = values.get(
        float,
        "partial_rotary_factor",
        default=config.get(float, "partial_rotary_factor", default=1.0),
    )
    # Phi-3's field outside takes precedence over the parameters' own, but not over those by kind of
    # layer.
    outside = kind is None and config.values.get(ORIGINAL) is not None
    scaling = _scaling(values, config if outside else values, trained, longest, scalings)
    if scaling is not None and scaling.kind == "yarn" and theta <= 1:
        raise Refused(
            f"config.json: rope_theta is {theta}; it must be more than 1 to be scaled by yarn"
        )
    return {"rope_theta": theta, "rope_fraction": fraction, "rope_scaling": scaling}


def _rope_fields(config: Config, kind: str | None) -> Mapping[str, Any]:
    """Return the rope parameters from both fields.

    rope_scaling alone counts if it is set. With kinds of layers, it overrides the kind's own
    parameters.
    """
    old, new = (config.values.get(name) or {} for name in ("rope_scaling", "rope_parameters"))
    of_kind = new.get(kind) or {} if isinstance(new, dict) and kind is not None else {}
    if not all(isinstance(each, dict) for each in (old, new, of_kind)):
        raise Refused(
            "config.json: rope_scaling and rope_parameters must be objects; save the model again"
        )
    if kind is not None:
        return {**of_kind, **old}
    each: dict[str, Any] = old or new
    kinds = sorted(name for name, value in each.items() if isinstance(value, dict))
    if kinds:
        raise Refused(
            f"config.json: rope parameters by kind of layer ({', '.join(kinds)!a:.80}) cannot be "
            "served with this family, whose layers turn alike; "
            "put rope_theta and the rest into rope_parameters itself"
        )
    return each


def _scaling(
    scaling: Config, place: Config, trained: int, longest: int, scalings: Collection[str]
) -> RopeScaling | None:
    """Return the scaling, if any.

    `place` has the length before scaling, if set; only some kinds read it.
    """
    kind = scaling.get(str, "rope_type", "type", default="default")
    if kind == "default":
        return None
    if kind not in scalings:
        raise Refused(
            f"config.json: rope scaling {kind!a:.40} cannot be served; served are "
            f"{', '.join(scalings)}"
        )
    if kind == "linear":
        return RopeScaling(kind="linear", factor=scaling.get(float, "factor"))
    if kind == NTK:  # the same at every length
        if scaling.values.get("mixed_b") is not None:
            raise Refused("config.json: rope scaling with mixed_b cannot be served")
        return RopeScaling(kind="fixed_ntk", factor=scaling.get(float, "factor"))
    if kind == "dynamic":
        # Scaled by the current length, a text's vector would depend on its batch. We scale by the
        # longest to be served.
        factor = scaling.get(float, "factor") * max(longest, trained) / trained - (
            scaling.get(float, "factor") - 1
        )
        return RopeScaling(kind="ntk", factor=factor) if factor > 1 else None
    original = place.get(int, ORIGINAL, default=trained, least=1)
    if kind == "yarn":
        if scaling.values.get("mscale_all_dim"):
            raise Refused(
                "config.json: rope scaling with mscale_all_dim cannot be served; "
                "it needs an attention variant that is not supported"
            )
        return RopeScaling(
            kind="yarn",
            factor=scaling.get(float, "factor", default=trained / original),
            trained_length=original,
            beta_fast=scaling.get(float, "beta_fast", default=32.0),
            beta_slow=scaling.get(float, "beta_slow", default=1.0),
            attention_factor=scaling.get(float, "attention_factor", default=0.0),
            truncate=scaling.get(bool, "truncate", default=True),
        )
    low, high = scaling.get(float, "low_freq_factor"), scaling.get(float, "high_freq_factor")
    return RopeScaling(
        kind="llama3",
        factor=scaling.get(float, "factor"),
        trained_length=original,
        low=low,
        high=high,
    )
