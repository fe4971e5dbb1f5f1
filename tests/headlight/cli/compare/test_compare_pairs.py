"""`headlight compare` in process, on a model that reranks."""

from __future__ import annotations

import contextlib
import functools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headlight.cli.compare import compare_command
from headlight.comparison import Comparison, EvidenceSpec
from headlight.runtime import Runtime
from tests.headlight.cli.conftest import Run

QUERY = "read a file"
PASSAGES = ("close it", "open it. then read it", "parse")


@pytest.fixture
def run(command: Run, ranking: Runtime, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run compare on the model in this process; standard input has the passages."""
    monkeypatch.setattr(compare_command, "connect", lambda _: contextlib.nullcontext(ranking))
    return functools.partial(command, "compare", QUERY, stdin="\n".join(PASSAGES))


def compared(runtime: Runtime, method: Any = "occlusion") -> Comparison:
    evidence = EvidenceSpec(method=method, unit="word")
    return runtime.compare(QUERY, PASSAGES, evidence=evidence, sort=True)


def marked(units: Any, text: str) -> str:
    """Return a text with its word of the largest weight between asterisks."""
    [best] = units.largest(1)
    start, end, _ = units.characters[best]
    if units.weights[best] <= 0:
        return text
    return f"{text[:start]}**{text[start:end]}**{text[end:]}"


def test_query_and_passages_are_marked_by_occlusion(run: Run, ranking: Runtime) -> None:
    code, out, err = run("--best", "1")
    assert (code, err) == (0, "")
    blocks = [
        f"{rank}. {each.score:.3f}  standard input, line {each.index + 1}\n"
        f"   query: {marked(each.evidence[0].query, QUERY)}\n"
        f"   {marked(each.evidence[0], PASSAGES[each.index])}"
        for rank, each in enumerate(compared(ranking), 1)
    ]
    assert out.startswith("\n\n".join(blocks))
    assert "score: logit of the query and the passage, read as a pair\n" in out
    assert "max-sim" not in out


def test_attention_has_a_line_of_special_tokens(run: Run, ranking: Runtime) -> None:
    out = run("--method", "attention")[1]
    best = compared(ranking, "attention").passages[0].evidence[0].special
    assert best is not None
    first, middle, last = best.weights
    line = f"   other tokens: [CLS] {first:.3f}, [SEP] {middle:.3f}, [SEP] {last:.3f}\n"
    assert line in out
    text = " ".join(out.split())  # lines are wrapped
    assert "read from, of a decoder the passage's; attention is not an explanation" in text


def test_a_contrast_names_the_words_for_and_against(run: Run, ranking: Runtime) -> None:
    found = compared(ranking)
    one, _, third = found.passages
    contrast = found.contrast(one, third)
    weights = dict(zip(QUERY.split(), contrast.query.weights, strict=True))
    words = sorted(QUERY.split(), key=lambda word: -weights[word])
    listed = [[each for each in words if weights[each] > 0]]
    listed.append([each for each in reversed(words) if weights[each] < 0])
    sides = [", ".join(f"{each} {weights[each]:+.3f}" for each in side) for side in listed]
    out = run("--contrast", "3")[1]
    head = f"1 above 3: {one.score:.3f} less {third.score:.3f} is {contrast.difference:.3f}\n"
    assert head in out
    assert f"   for it: {sides[0] or 'nothing'}\n" in out
    assert f"   against it: {sides[1] or 'nothing'}\n" in out
    answer = json.loads(run("--contrast", "3", "--method=attention", "--format", "json")[1])
    assert answer["contrast"]["difference"] == pytest.approx(contrast.difference, abs=1e-6)
    units = [(each["text"], each["weight"]) for each in answer["contrast"]["query"]["units"]]
    assert units == [(each, pytest.approx(weights[each], abs=1e-6)) for each in QUERY.split()]
    assert [each["method"] for each in answer["passages"][0]["evidence"]] == [
        "attention",
        "occlusion",
    ]


def test_json_has_the_units_of_both_texts(run: Run, ranking: Runtime) -> None:
    answer = json.loads(run("--method", "attention", "--format", "json")[1])
    assert (answer["similarity"], answer["query"]) == ("logit", {"text": QUERY, "tokens": []})
    for found, passage in zip(answer["passages"], compared(ranking, "attention"), strict=True):
        [shown], [evidence] = found["evidence"], passage.evidence
        assert (found["max_sim_mean"], evidence.query is None) == (None, False)
        assert [each["text"] for each in shown["query"]["units"]] == QUERY.split()
        assert [each["piece"] for each in shown["special"]] == ["[CLS]", "[SEP]", "[SEP]"]
        weights: Any = evidence.query and evidence.query.weights
        listed = [each["weight"] for each in shown["query"]["units"]]
        np.testing.assert_array_equal(np.array(listed, np.float32), weights)


def test_a_page_shows_both_texts(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "c.html"
    assert run("--html", str(path), "--method=attention", "--method=occlusion")[0] == 0
    data = json.loads(path.read_text().partition('id="data">')[2].partition("</script>")[0])
    assert data["query"] == {"text": QUERY, "tokens": []}
    attention, hidden = data["passages"][0]["evidence"]
    assert (attention["method"], hidden["method"]) == ("attention", "occlusion")
    assert [piece for piece, _ in attention["special"]] == ["[CLS]", "[SEP]", "[SEP]"]
    assert hidden["special"] == []
    assert hidden["query"]["units"] == [[0, 4], [5, 6], [7, 11]]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--method", "late-interaction"], "--method late-interaction: this model reads the query"),
        (["--contrast", "4"], "--contrast 4: compares the best passage with a later one, and 3"),
        (["--contrast", "1"], "--contrast 1: compares the best passage with a later one, and 3"),
    ],
)
def test_what_a_pair_cannot_have_is_refused(run: Run, arguments: list[str], says: str) -> None:
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert says in err
