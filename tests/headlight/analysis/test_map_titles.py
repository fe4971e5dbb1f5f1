from __future__ import annotations

import json
import re

import numpy as np
import pytest

from headlight.analysis.head_kinds import CALLED, UNIFORM, classify
from headlight.analysis.map_titles import FEWEST_TOKENS, KIND_LABELS, kind_label, map_title
from headlight.results import Floats
from headlight.web.assets import VIEW_SCRIPTS, asset
from tests.headlight.analysis.test_head_kinds import at_token, even, reduced, toward

SPECIAL = (True, *(False,) * 6, True)
HEADS = {
    "the token itself": toward(0),
    "previous token": toward(-1),
    "next token": toward(1),
    "special tokens": at_token(0),
    "uniform": even(),
    "": toward(3),
}


@pytest.mark.parametrize("kind", HEADS)
def test_a_map_is_of_the_kind_that_its_statistics_give(kind: str) -> None:
    assert kind_label(HEADS[kind], SPECIAL) == kind
    [head] = classify([reduced(HEADS[kind])])
    assert KIND_LABELS.get(head.kind, "") == kind


def test_the_kind_is_that_of_the_statistics_for_mixed_maps() -> None:
    """Mixtures of two kinds, around the thresholds."""
    names = [kind for kind in HEADS if kind]
    for share in (0.3, 0.45, 0.55, 0.7, 0.9):
        for one in names:
            for other in names:
                weights: Floats = (share * HEADS[one] + (1 - share) * HEADS[other]).astype(
                    np.float32
                )
                [head] = classify([reduced(weights)])
                assert kind_label(weights, SPECIAL) == KIND_LABELS.get(head.kind, ""), (
                    share,
                    one,
                    other,
                )


def test_a_title_says_that_the_kind_is_of_this_text() -> None:
    title = map_title(1, 3, toward(-1), SPECIAL)
    assert title == "layer 1, head 3: previous token, in this text"
    assert map_title(1, 3, toward(3), SPECIAL) == "layer 1, head 3"


def test_a_short_text_has_no_kind() -> None:
    """Half of the weight may then be chance."""
    short = FEWEST_TOKENS - 1
    assert map_title(0, 0, toward(-1, short), SPECIAL[:short]) == "layer 0, head 0"


def test_the_page_has_the_same_thresholds_and_words() -> None:
    assert "kinds.js" in VIEW_SCRIPTS
    script = asset("kinds.js")
    found = {
        name: json.loads(value)
        for name, value in re.findall(r"^const ([A-Z_]+) = (.*?);", script, re.MULTILINE)
    }
    assert found["CALLED"] == CALLED
    assert found["UNIFORM"] == UNIFORM
    assert found["FEWEST_TOKENS"] == FEWEST_TOKENS
    assert [*found["KINDS"], "uniform"] == list(KIND_LABELS.values())
    assert 'return "uniform";' in script
