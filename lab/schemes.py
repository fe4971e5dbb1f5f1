"""Position schemes that the lab compares, by the names in its tables and plots."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from headlight_model.config import EncoderConfig
from headlight_model.positions.position_schemes import Positions, build_positions

# The fields of an EncoderConfig that make the scheme.
FIELDS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "none": {"positions": "none"},
        "sinusoidal": {"positions": "sinusoidal"},
        "learned": {"positions": "learned"},
        "rope": {"positions": "rope"},
        "alibi": {"positions": "alibi"},
        "alibi signed": {"positions": "alibi", "alibi": "signed"},
    }
)


def config(scheme: str, **changes: Any) -> EncoderConfig:
    """Return the config of a small encoder of a scheme: two layers of four heads, 64 wide.

    `changes` are fields of EncoderConfig.

    Raises:
        KeyError: no such scheme.
        ValueError: a field has a value that is not accepted.
    """
    values = {
        "vocab_size": 32,
        "dim": 64,
        "heads": 4,
        "layers": 2,
        "ffn_dim": 256,
        **FIELDS[scheme],
    }
    return EncoderConfig(**values | changes)


def positions(scheme: str, **changes: Any) -> Positions:
    """Return the scheme by itself, as an encoder of `config(scheme, **changes)` holds it."""
    return build_positions(config(scheme, **changes))
