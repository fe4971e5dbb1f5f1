"""Model types that are not read: each is refused in one line with its cause."""

from __future__ import annotations

import re

import pytest

from headlight_export.families import family_of
from headlight_export.families.unsupported import CAUSES
from headlight_export.folders.model_folder import Refused


@pytest.mark.parametrize("name", CAUSES)
def test_a_model_type_is_refused_with_its_cause(name: str) -> None:
    message = rf"'{name}' is not a supported family: {re.escape(CAUSES[name])}; supported are bert"
    with pytest.raises(Refused, match=message) as caught:
        family_of({"model_type": name, "auto_map": {"AutoModel": "code.Model"}})
    assert "\n" not in str(caught.value)
