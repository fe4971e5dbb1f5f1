"""`headlight compare` in process, on a model with sparse vectors."""

from __future__ import annotations

import contextlib
import functools
import json

import numpy as np
import pytest

from headlight.cli.compare import compare_command
from headlight.cli.compare.comparison_output import MOST_TERMS
from headlight.comparison import Comparison
from headlight.runtime import Runtime
from headlight.web.comparison_page import comparison_page
from tests.headlight.cli.conftest import Run

QUERY = "read a file"
PASSAGES = ("close it", "open it. then read it", "parse")


@pytest.fixture
def run(command: Run, weighting: Runtime, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run compare on the model in this process; standard input has the passages."""
    monkeypatch.setattr(compare_command, "connect", lambda _: contextlib.nullcontext(weighting))
    return functools.partial(command, "compare", QUERY, stdin="\n".join(PASSAGES))


def compared(runtime: Runtime) -> Comparison:
    return runtime.compare(QUERY, PASSAGES, evidence="terms", sort=True)


def test_each_passage_lists_its_largest_terms_and_the_rest(run: Run, weighting: Runtime) -> None:
    code, out, err = run()
    assert (code, err) == (0, "")
    text = " ".join(out.split())  # lines are wrapped
    for rank, each in enumerate(compared(weighting), 1):
        evidence = each.evidence[0]
        terms = evidence.terms
        assert terms is not None
        assert f"{rank}. {each.score:.3f} standard input, line {each.index + 1}" in text
        first = (evidence.weights[0], terms.query[0], terms.passage[0])
        shown = "{:.3f} ({:.3f} × {:.3f})".format(*first)
        rest = f"{len(terms.terms) - MOST_TERMS} more {evidence.weights[MOST_TERMS:].sum():.3f}"
        assert f"{PASSAGES[each.index]} terms: {terms.pieces[0]} {shown}," in text
        assert rest in text
    assert "score: dot" in text
    assert "max-sim" not in text


def test_json_has_all_terms_with_both_weights(run: Run, weighting: Runtime) -> None:
    answer = json.loads(run("--format", "json")[1])
    assert answer["similarity"] == "dot"
    for row, each in zip(answer["passages"], compared(weighting), strict=True):
        [listed], [evidence] = row["evidence"], each.evidence
        assert evidence.terms is not None
        assert [term["piece"] for term in listed["terms"]] == list(evidence.terms.pieces)
        products = [term["query"] * term["passage"] for term in listed["terms"]]
        np.testing.assert_allclose([term["weight"] for term in listed["terms"]], products, 1e-5)
        assert sum(products) == pytest.approx(row["score"], rel=1e-5)


def test_occlusion_marks_units_and_attention_is_refused(run: Run) -> None:
    code, out, _ = run("--method", "occlusion", "--best", "1")
    assert (code, "terms:" in out) == (0, False)
    code, _, err = run("--method", "attention")
    assert (code, "use terms or occlusion" in err) == (2, True)


def test_the_page_has_the_terms(weighting: Runtime) -> None:
    comparison = compared(weighting)
    page = comparison_page(comparison, QUERY, PASSAGES)
    data = json.loads(page.partition('id="data">')[2].partition("</script>")[0])
    for shown, each in zip(data["passages"], comparison, strict=True):
        [listed], [evidence] = shown["evidence"], each.evidence
        assert (listed["method"], listed["units"], listed["weights"]) == ("terms", [], [])
        assert evidence.terms is not None
        expected = (evidence.weights, evidence.terms.query, evidence.terms.passage)
        assert [row[0] for row in listed["terms"]] == list(evidence.terms.pieces)
        numbers = np.array([row[1:] for row in listed["terms"]], np.float32)
        np.testing.assert_array_equal(numbers, np.stack(expected, axis=1))
