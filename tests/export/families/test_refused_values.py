"""Values of a config.json that a family is not served with."""

from __future__ import annotations

from typing import Any

import pytest

from headlight_export.families import FAMILIES
from headlight_export.families.source import Config
from headlight_export.folders.model_folder import Refused


@pytest.mark.parametrize(
    ("family", "said", "cause"),
    [
        ("new", {"position_embedding_type": "absolute"}, "only rope is"),
        ("new", {"layer_norm_type": "rms_norm"}, "only layer_norm is"),
        ("new", {"pack_qkv": False}, "only True is"),
        ("gte", {"logn_attention_scale": True}, "only False is"),
        ("gpt2", {"add_cross_attention": True}, "decoders alone are served"),
    ],
)
def test_a_value_that_changes_the_arithmetic_is_refused(
    family: str, said: dict[str, Any], cause: str
) -> None:
    [name] = said
    with pytest.raises(Refused, match=rf"^config.json: {name} is .*{cause}$"):
        FAMILIES[family](Config(said), {}, None)
