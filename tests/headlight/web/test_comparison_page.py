"""The page of a comparison as text: its content, its policy, its refusals.

tests/system/test_comparison_page.py tests its behaviour in a browser.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re

import pytest

from headlight.evidence_methods import UNIT_METHODS
from headlight.runtime import Runtime
from headlight.web.comparison_page import comparison_page

HOSTILE = "</script><img src=x onerror=alert(1)><!-- ${data} &amp; \u2028"


def data_of(page: str) -> dict[str, object]:
    found: dict[str, object] = json.loads(page.partition('id="data">')[2].partition("</script>")[0])
    return found


def test_the_page_holds_texts_offsets_and_weights(runtime: Runtime) -> None:
    texts = ["open a file", "read it"]
    found = runtime.compare("read", texts, late_interaction=True, evidence=UNIT_METHODS)
    data = data_of(comparison_page(found, "read", texts, ["first", "second"], best=2))
    assert (data["best"], data["similarity"]) == (2, found.similarity)
    assert data["query"] == {"text": "read", "tokens": [[0, 1], [1, 2], [2, 3], [3, 4]]}
    for shown, passage in zip(data["passages"], found, strict=True):  # type: ignore[call-overload]
        assert (shown["text"], shown["name"]) == (
            texts[passage.index],
            ("first", "second")[passage.index],
        )
        assert shown["maxSim"] == pytest.approx(passage.max_sim_mean, abs=1e-6)
        for each, evidence in zip(shown["evidence"], passage.evidence, strict=True):
            assert each["weights"] == pytest.approx(evidence.weights.tolist(), abs=1e-6)
            assert each["matched"] == list(evidence.matched_tokens)
            for token in each["matched"]:
                start, end = shown["tokens"][token]
                assert 0 <= start < end <= len(texts[passage.index])


def test_hostile_texts_end_no_element_and_the_policy_allows_its_own_parts_alone(
    runtime: Runtime,
) -> None:
    found = runtime.compare(HOSTILE, [HOSTILE], evidence="late_interaction")
    page = comparison_page(found, HOSTILE, [HOSTILE], [HOSTILE])
    assert page.count("</script>") == 2
    assert "<img" not in page
    assert data_of(page)["query"]["text"] == HOSTILE  # type: ignore[index]
    policy = page.partition('Content-Security-Policy" content="')[2].partition('"')[0]
    for tag in ("script", "style"):
        content = page.rpartition(f"<{tag}>")[2].partition(f"</{tag}>")[0]
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'; ")
    assert not re.search(r"https?://|@import|url\(|\bon\w+=", page.partition('id="data"')[0])


def test_a_comparison_without_evidence_is_refused(runtime: Runtime) -> None:
    scores = runtime.compare("a", ["b"])
    with pytest.raises(ValueError, match=r"^comparison: has no evidence; compare with evidence="):
        comparison_page(scores, "a", ["b"])


def test_other_texts_are_refused(runtime: Runtime) -> None:
    found = runtime.compare("a", ["b"], evidence="attention")
    with pytest.raises(ValueError, match="passages: 2 texts and 0 names for 1; give those"):
        comparison_page(found, "a", ["b", "c"])
