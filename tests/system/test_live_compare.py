"""The tab "Compare" of the page that the service serves, in a real browser."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from headlight import Client
from headlight.comparison import EvidenceSpec
from tests import scorers
from tests.system.browser import Browser
from tests.system.conftest import bundle_of
from tests.system.live import ANSWERED, choose, show_task, tasks, visit
from tests.system.processes import Service

QUERY = "read a json file"
PASSAGES = (
    "parse a date",
    "🙂 open a file <script>alert(1)</script> and read its lines",
    "שלום read a file עולם",
    "json.loads(text). It returns an object.",
)


@pytest.fixture
def page(chromium: Browser, rope: Service) -> Iterator[Browser]:
    with visit(chromium, rope.rest) as browser:
        show_task(browser, "compare")
        yield browser


def compare(page: Browser, query: str = QUERY, passages: tuple[str, ...] = PASSAGES) -> None:
    """Type a query and passages, send them with a click, and wait for the answer."""
    page.fill("#query", query)
    page.fill("#passages", "\n".join(("", *passages, "")))
    page.click("#send")
    page.wait(ANSWERED)


def test_it_shows_what_grpc_returns(page: Browser, rope: Service) -> None:
    assert not page.evaluate("document.querySelector('#comparison').checkVisibility()")
    compare(page)
    with Client(rope.target) as client:
        expected = client.compare(
            QUERY, PASSAGES, late_interaction=True, evidence="late_interaction", sort=True
        )
    assert page.texts(".passage-text") == [PASSAGES[each.index] for each in expected]
    heads = page.texts(".passage-head")
    page.move("#compared-query [role=button]")
    matched = page.texts(".match")
    for head, match, passage in zip(heads, matched, expected, strict=True):
        assert f"score {passage.score:.3f}" in head
        assert f"line {passage.index + 1}" in head
        cosines = passage.evidence[0].matched_cosines
        assert cosines is not None
        assert f"cosine {cosines[0]:.3f}".replace("-", "−") in match
    assert "read" in page.texts(".matched")
    assert page.texts("#methods label") == ["Span", "Late interaction", "Attention"]
    assert page.evaluate("document.querySelector('#methods input').checked")


def test_units_and_occlusion_are_asked_for(page: Browser, rope: Service) -> None:
    compare(page)
    choose(page, "#evidence-unit", "UNIT_SENTENCE")
    page.click("#evidence input[value=occlusion]")
    page.wait(ANSWERED)
    names = ["Span", "Occlusion", "Late interaction", "Attention"]
    assert page.texts("#methods label") == names
    page.click("#methods label:nth-of-type(2)")
    page.click("#numbers")
    with Client(rope.target) as client:
        evidence = EvidenceSpec(method="occlusion", unit="sentence")
        expected = client.compare(QUERY, PASSAGES, evidence=evidence, sort=True)
    for at, passage in enumerate(expected, 1):
        table = f".passage:nth-child({at}) .numbers .wide-table:first-child td.number:last-child"
        weights = sorted(passage.evidence[0].weights, reverse=True)
        assert page.texts(table) == [f"{weight:.3f}".replace("-", "−") for weight in weights]


def is_offered(page: Browser, option: str) -> bool:
    visible: bool = page.evaluate(f"document.querySelector('#{option}').checkVisibility()")
    return visible


def test_options_go_to_the_methods_that_take_them(page: Browser, rope: Service) -> None:
    for name in ("late_interaction", "attention"):  # span alone is left
        page.click(f"#evidence input[value={name}]")
    assert not any(is_offered(page, each) for each in ("distinct", "per_token", "max_encodings"))
    for name in ("contributions", "occlusion"):
        page.click(f"#evidence input[value={name}]")
    for option in ("distinct", "per_token", "query_units"):
        assert is_offered(page, option)
        page.click(f"#{option}")
    choose(page, "#max_encodings", "8")
    compare(page)
    shared: dict[str, Any] = {"unit": "word", "query_units": True}
    evidence = [
        EvidenceSpec(method="span", **shared),
        EvidenceSpec(method="contributions", distinct=True, per_token=True, **shared),
        EvidenceSpec(method="occlusion", per_token=True, max_encodings=8, **shared),
    ]
    with Client(rope.target) as client:
        expected = client.compare(QUERY, PASSAGES, evidence=evidence, sort=True)
    assert page.texts("#methods label") == ["Span", "Contributions", "Occlusion"]
    page.click("#numbers")
    for place, spec in enumerate(evidence):
        page.click(f"#methods label:nth-of-type({place + 1})")
        for at, passage in enumerate(expected, 1):
            tables = f".passage:nth-child({at}) .numbers .wide-table"
            weights = passage.evidence_by(spec.method)
            assert weights.query is not None
            query_cells, passage_cells = (
                f"{tables}:nth-child({n}) td.number:last-child" for n in (1, 2)
            )
            assert page.texts(query_cells) == weights_of(weights.query.weights)
            assert page.texts(passage_cells) == weights_of(weights.weights)
        assert ("weighed down" in page.text("#method-said")) == (spec.method == "contributions")
    choose(page, "#evidence-unit", "UNIT_SENTENCE")
    assert not is_offered(page, "max_encodings")
    link, shown = page.evaluate("location.hash"), page.texts("#compared-passages td")
    page.open(f"http://{rope.rest}/", link)  # shows the same method, options and numbers
    page.wait(f"document.querySelector('#comparison').checkVisibility() && {ANSWERED}")
    assert (page.evaluate("location.hash"), page.texts("#compared-passages td")) == (link, shown)
    page.click("#request-part summary")
    page.click("#languages label:nth-of-type(2)")
    subprocess.run([sys.executable, "-c", page.text("#request")], timeout=60, check=True)


@pytest.mark.parametrize(
    ("query", "passages", "says"),
    [
        ("  ", ("a",), "There is no query; type one above the passages."),
        ("a", (" ",), "There are no passages; type one on each line."),
    ],
)
def test_what_is_missing_is_named(
    page: Browser, query: str, passages: tuple[str, ...], says: str
) -> None:
    compare(page, query, passages)
    assert page.text("#problem") == says


def test_a_refusal_is_shown_as_text_and_the_next_answer_clears_it(
    chromium: Browser, rope: Service
) -> None:
    with visit(chromium, rope.rest, refused=True) as page:
        show_task(page, "compare")
        compare(page, passages=("a", "word " * 3000))
        assert page.text("#problem").startswith(
            "The service refused this. It says: passages[1].text: has 3002 tokens"
        )
        compare(page)
        assert not page.evaluate("document.querySelector('#problem').checkVisibility()")


def test_the_attention_tab_comes_back_as_it_was(page: Browser) -> None:
    show_task(page, "attention")
    page.fill("#text", "read a file")
    page.click("#send")
    page.wait(ANSWERED)
    before = page.text("#detail h2")
    show_task(page, "compare")
    compare(page)
    assert not page.evaluate("document.querySelector('#views').checkVisibility()")
    show_task(page, "attention")
    assert page.text("#detail h2") == before
    assert not page.evaluate("document.querySelector('#comparison').checkVisibility()")


@pytest.mark.parametrize("language", ["curl", "python"])
def test_the_request_to_copy_gives_the_same_scores(
    language: str, page: Browser, rope: Service
) -> None:
    compare(page)
    page.click("#request-part summary")
    page.click(f"#languages label:nth-of-type({1 if language == 'curl' else 2})")
    copied = page.text("#request")
    command = ["bash", "-c", copied] if language == "curl" else [sys.executable, "-c", copied]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=True, env=dict(os.environ)
    )
    with Client(rope.target) as client:
        scores = [each.score for each in client.compare(QUERY, PASSAGES, sort=True)]
    if language == "curl":
        found = [each["score"] for each in json.loads(done.stdout)["passages"]]
    else:
        found = [float(line.split()[0]) for line in done.stdout.splitlines()]
    assert found == pytest.approx(scores, abs=1e-6)


@pytest.mark.parametrize("width", [360, 1280])
def test_nothing_overflows_the_window(width: int, page: Browser) -> None:
    page.screen(width, 800)
    compare(page)
    page.click("#numbers")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.screen(1280, 900)


def test_a_service_without_attention_compares_all_the_same(chromium: Browser) -> None:
    with (
        Service(bundle_of("docs-rope"), "--attention", "off") as service,
        visit(chromium, service.rest) as page,
    ):
        assert "attention" not in tasks(page)
        show_task(page, "compare")
        compare(page)
        assert page.texts("#methods label") == ["Span", "Late interaction"]
        assert len(page.texts(".passage")) == len(PASSAGES)


@pytest.mark.parametrize("width", [360, 1280])
def test_a_model_that_reranks_shows_the_query_with_each_passage(
    width: int, chromium: Browser, reranker: Service
) -> None:
    query, passages = "read it", ("parse a date", "open <b>a</b> file", "x")
    # The page's first text has more tokens than this model takes.
    with visit(chromium, reranker.rest, refused=True) as page:
        page.screen(width, 900)
        assert tasks(page) == ["attention", "compare", "rerank"]
        show_task(page, "compare")
        compare(page, query, passages)
        evidence = [EvidenceSpec(method=each, unit="word") for each in ("occlusion", "attention")]
        with Client(reranker.target) as client:
            expected = client.compare(query, passages, evidence=evidence, sort=True)
        assert page.texts("#methods label") == ["Occlusion", "Attention"]
        shown = [text for each in expected for text in (query, passages[each.index])]
        assert page.texts(".passage-text") == shown
        for head, passage in zip(page.texts(".passage-head"), expected, strict=True):
            assert f"score {passage.score:.3f}".replace("-", "−") in head
        page.click("#numbers")
        query_cells = ".passage:nth-child(3) .numbers .wide-table:first-child td.number:last-child"
        last = expected.passages[2].evidence[0].query
        assert last is not None
        assert page.texts(query_cells) == weights_of(last.weights)
        choose(page, "#contrast", "0")
        contrast = expected.contrast(expected.passages[2], expected.passages[0])
        assert page.texts(query_cells) == weights_of(contrast.query.weights)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.click("#methods label:nth-of-type(2)")
        special = expected.passages[0].evidence[1].special
        assert special is not None
        first, middle, end = special.weights
        line = f"Other tokens: [CLS] {first:.3f}, [SEP] {middle:.3f}, [SEP] {end:.3f}"
        assert page.texts(".pair-others")[0] == line
        assert not page.evaluate("document.querySelector('#contrasts').checkVisibility()")


def weights_of(weights: Any) -> list[str]:
    """Return weights as a table has them, in descending order."""
    return [f"{weight:.3f}".replace("-", "−") for weight in sorted(weights, reverse=True)]


def test_a_sparse_model_lists_the_terms_that_query_and_passage_share(
    chromium: Browser, tmp_path_factory: pytest.TempPathFactory
) -> None:
    query, passages = "read it", ("parse a date", "open a file")
    with (
        Service(scorers.bundle(tmp_path_factory, "sparse")) as service,
        visit(chromium, service.rest, refused=True) as page,
    ):
        show_task(page, "compare")
        compare(page, query, passages)
        with Client(service.target) as client:
            expected = client.compare(query, passages, evidence="terms", sort=True)
        for head, passage in zip(page.texts(".passage-head"), expected, strict=True):
            assert f"score {passage.score:.3f}" in head
        page.click("#numbers")
        for at, passage in enumerate(expected, 1):
            evidence, row = passage.evidence[0], f".passage:nth-child({at}) tbody tr:first-child"
            assert evidence.terms is not None
            numbers = evidence.weights[0], evidence.terms.query[0], evidence.terms.passage[0]
            assert page.texts(f"{row} > *") == [
                evidence.terms.pieces[0],
                *(f"{number:.3f}" for number in numbers),
            ]


def test_a_model_of_many_vectors_has_shares_that_sum_to_the_score(
    chromium: Browser, tmp_path_factory: pytest.TempPathFactory
) -> None:
    query, passages = "read it", ("parse a date", "open a file")
    with (
        Service(scorers.bundle(tmp_path_factory, "multi_vector")) as service,
        visit(chromium, service.rest, refused=True) as page,
    ):
        show_task(page, "compare")
        compare(page, query, passages)
        with Client(service.target) as client:
            expected = client.compare(query, passages, evidence="late_interaction", sort=True)
        for head, passage in zip(page.texts(".passage-head"), expected, strict=True):
            assert f"score {passage.score:.3f}" in head
        others = page.texts(".pair-others")
        for line, passage in zip(others, expected, strict=True):
            special = passage.evidence[0].special
            assert special is not None
            assert [float(each.split()[-1]) for each in line.split(", ")] == pytest.approx(
                special.weights, abs=6e-4
            )
