"""The page that the service serves, in a real browser: type, see, choose."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, cast

import numpy as np
import pytest

from headlight import Attention, AttentionSpec, Client
from headlight.web.page import opening
from tests import scorers
from tests.conftest import MakeBundle
from tests.shipped import HEADS, LAYERS
from tests.system.browser import Browser
from tests.system.conftest import bundle_of
from tests.system.live import ANSWERED, choose, send, show_task, tasks, visit
from tests.system.pages import LONG, MIDDLE, SHORT, as_shown, head_title, ink, shown_weights
from tests.system.processes import Service

ALL_TASKS = ["attention", "similarity", "compare", "embed", "rerank", "classify", "terms"]
TEXTS = ("read a file", "open a path and read it", "sort a list of numbers")


@pytest.fixture
def page(chromium: Browser, rope: Service) -> Iterator[Browser]:
    with visit(chromium, rope.rest) as browser:
        yield browser


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Models that do all tasks of the page."""
    scoring = [
        scorers.bundle(tmp_path_factory, each) for each in ("reranker", "classifier", "sparse")
    ]
    with Service([bundle_of("docs-rope"), *scoring]) as service:
        yield service


def shown(number: float) -> str:
    """Return a number as the page writes it."""
    return f"{number:.3f}".replace("-", "−")


def test_each_task_has_the_models_that_do_it_and_shows_what_grpc_returns(
    chromium: Browser, several: Service
) -> None:
    query, lines = "read it", ("parse a date", "open a file", "x")
    # The page's first text is too long for some of these models.
    with visit(chromium, several.rest, refused=True) as page:
        assert tasks(page) == ALL_TASKS
        for name, model in (
            ("rerank", "reranker"),
            ("classify", "classifier"),
            ("terms", "sparse"),
        ):
            show_task(page, name)
            assert page.texts("#model option") == [model]
            if name == "rerank":
                page.fill("#query", query)
            send(page, "\n".join(lines), "#passages" if name == "rerank" else "#texts")
            with Client(several.target, model=model) as client:
                if name == "rerank":
                    ranked = client.rerank(query, lines)
                    rows = [
                        [shown(each.logit), f"line {each.index + 1}", lines[each.index]]
                        for each in ranked
                    ]
                    cells = page.texts(".ranking tbody td")
                    assert [cells[at + 2 : at + 5] for at in range(0, len(cells), 5)] == rows
                elif name == "classify":
                    labels = [each for found in client.classify(lines) for each in found]
                    assert page.texts(".answer .label") == [each.label for each in labels]
                    assert page.texts(".answer .weight") == [shown(each.score) for each in labels]
                else:
                    vectors = client.encode_sparse(lines, top_k=12)
                    weights = [sorted(each.values, reverse=True) for each in vectors]
                    assert page.texts(".answer .weight") == [
                        shown(weight) for each in weights for weight in each
                    ]
        show_task(page, "embed")
        choose(page, "#model", "docs-rope")
        send(page, "\n".join(lines), "#texts")
        with Client(several.target, model="docs-rope") as client:
            vectors_of_texts = client.encode(lines)
        written = [json.loads(line) for line in page.texts("#result pre")[0].splitlines()]
        np.testing.assert_allclose(written, vectors_of_texts, atol=1e-6)
        assert page.evaluate("document.querySelectorAll('.strip-of-numbers').length") == len(lines)
        show_task(page, "rerank")  # each task keeps its model and its answer
        assert page.texts(".ranking tbody td:last-child") == [lines[each.index] for each in ranked]


def test_a_service_of_one_model_offers_its_tasks_and_no_choice_of_models(page: Browser) -> None:
    assert tasks(page) == ["attention", "similarity", "compare", "embed"]
    assert not page.evaluate("document.querySelector('#model-label').checkVisibility()")


def test_a_typed_text_is_shown_with_the_weights_that_grpc_returns(
    page: Browser, attentions: dict[str, Attention]
) -> None:
    send(page, SHORT)
    page.click("#layers label:nth-child(1)")
    page.click("#heads label:nth-child(2)")
    assert page.text("#detail h2") == "Layer 0, head 1"
    assert ink(page, "#lines")[0] > 500
    page.move("#query-3")
    assert shown_weights(page, "keys") == as_shown(attentions[SHORT].head(0, 1)[3])


def test_it_opens_where_the_file_opens(page: Browser, attentions: dict[str, Attention]) -> None:
    start = opening(attentions[MIDDLE], MIDDLE, None, None)
    labels, link = attentions[MIDDLE].tokens.labels(MIDDLE), cast("list[Any]", start["link"])
    send(page, MIDDLE)
    shown = page.text("#detail")
    assert (
        head_title(attentions[MIDDLE], cast("int", start["layer"]), cast("int", start["head"]))
        in shown
    )
    assert " → ".join(f"{at} “{labels[at]}”" for at in link[:2]) in shown


def test_it_shows_an_example_at_once(page: Browser) -> None:
    page.wait(f"document.querySelector('#views').checkVisibility() && {ANSWERED}")
    assert "because" in page.text("#keys")
    assert ink(page, "#lines")[0] > 500


def test_a_text_that_is_too_long_is_cut_on_request(page: Browser) -> None:
    choose(page, "#truncation", "TRUNCATION_CUT_END")
    send(page, "word " * 5000)
    said = page.evaluate("document.querySelector('#tokens-said').textContent")
    assert "tokens were cut off" in said


def test_a_small_matrix_leaves_no_gap_below_it_on_a_phone(page: Browser) -> None:
    send(page, SHORT)
    page.screen(390, 844)
    page.click("#view label:nth-of-type(3)")
    heights = page.evaluate(
        "['matrix', 'matrix-space'].map((id) => document.getElementById(id).offsetHeight)"
    )
    assert heights[0] - heights[1] < 4


def test_the_keyboard_alone_types_sends_and_chooses_a_head(page: Browser) -> None:
    page.wait("document.querySelector('#tasks input')")
    page.press("Tab")  # the keys
    page.press("Tab")  # the token
    page.press("Tab")  # the theme
    page.press("Tab")  # the task
    page.press("Tab")
    page.call("Input.insertText", text=MIDDLE)
    page.press("Tab")
    assert page.evaluate("document.activeElement.id") == "send"
    page.press("Enter")
    page.wait(ANSWERED)
    before = ink(page, "#lines")
    for _ in range(20):  # forms, units, view, layer, head
        page.press("Tab")
        if page.evaluate("document.activeElement.name") == "head":
            break
    chosen = int(page.evaluate("document.activeElement.value"))
    page.press("ArrowRight")
    now = page.evaluate("document.querySelector('#heads input:checked').value")
    assert now == str((chosen + 1) % HEADS)
    assert ink(page, "#lines") != before


def test_the_head_that_was_chosen_stays_for_the_next_text(page: Browser) -> None:
    send(page, SHORT)
    page.click("#layers label:nth-child(2)")
    page.click("#heads label:nth-child(6)")
    send(page, MIDDLE)
    assert page.text("#detail h2").partition(":")[0] == "Layer 1, head 5"


@pytest.mark.parametrize("form", ["mean", "max", "rollout"])
def test_heads_are_reduced_by_the_service(form: str, page: Browser, rope: Service) -> None:
    reduction = "rollout" if form == "rollout" else f"head_{form}"
    with Client(rope.target) as client:
        [maps] = client.attention(SHORT, AttentionSpec.of(reduce=reduction))  # type: ignore[arg-type]
    expected = maps.weights if form == "rollout" else maps.weights[0]
    send(page, SHORT)
    choose(page, "#form", form)
    if form != "rollout":
        page.click("#layers label:nth-child(1)")
    page.move("#query-2")
    assert shown_weights(page, "keys") == as_shown(expected[2])
    page.click("#view label:nth-of-type(2)")
    assert page.evaluate("document.querySelectorAll('.thumb').length") == (
        1 if form == "rollout" else LAYERS
    )


def test_titles_have_the_kind_of_whole_maps_of_tokens(
    page: Browser, attentions: dict[str, Attention]
) -> None:
    """Not of words. Of a long text the whole layer is fetched first."""
    for text, ready in (
        (LONG, "!document.querySelector('main[aria-busy=true]')"),
        (MIDDLE, "true"),
    ):
        send(page, text)
        page.click("#layers label:nth-child(1)")
        page.click("#heads label:nth-child(1)")
        page.wait(ready)
        assert page.text("#detail h2") == head_title(attentions[text], 0, 0)
        assert "previous token" in page.text("#detail h2")
    choose(page, "#unit", "word")
    assert page.text("#detail h2") == "Layer 0, head 0"


def test_words_have_the_characters_of_their_tokens(page: Browser) -> None:
    send(page, "unparseable tokens")
    tokens = page.evaluate("document.querySelectorAll('#keys .token').length")
    choose(page, "#unit", "word")
    labels = page.evaluate(
        "[...document.querySelectorAll('#keys .label')].map((each) => each.textContent)"
    )
    assert labels == ["[CLS]", "unparseable", "tokens", "[SEP]"]
    assert tokens > len(labels)


def test_both_texts_of_a_pair_are_shown(chromium: Browser, make_bundle: MakeBundle) -> None:
    with Service(make_bundle("learned")) as service, visit(chromium, service.rest) as page:
        page.wait("document.querySelector('#pair-option').checkVisibility()")
        page.click("#pair")
        page.fill("#second", "def b")
        send(page, "return a")
        page.click("#tokens-part summary")
        kinds = page.evaluate(
            "[...document.querySelectorAll('#token-table td:last-child')]"
            ".map((each) => each.textContent)"
        )
        assert {"special", "text 1", "text 2"} == set(kinds)
        assert page.evaluate("document.querySelectorAll('#keys .joint').length") == 1


def test_tokens_are_listed_with_offsets_in_code_points(page: Browser) -> None:
    text = "🙂 read café"
    send(page, text)
    page.click("#tokens-part summary")
    rows = page.evaluate(
        "[...document.querySelectorAll('#token-table tbody tr')]"
        ".map((row) => [...row.cells].map((cell) => cell.textContent))"
    )
    found = {row[1]: row[4] for row in rows}
    assert found["read"] == "2–6"
    assert rows[0][5] == rows[-1][5] == "special"
    for _, label, _, _, offsets, kind in rows:
        if kind == "" and offsets:
            start, end = map(int, offsets.split("–"))
            assert text[start:end] == label


def test_a_text_of_500_tokens_comes_layer_by_layer_and_leaves_the_tab_responsive(
    page: Browser, rope: Service
) -> None:
    text = "\n".join([LONG] * 3)
    with Client(rope.target) as client:
        attention = client.attend(text, 1)
    count = len(attention.tokens)
    assert count >= 500
    page.evaluate(
        "window.tasks = [0]; new PerformanceObserver((list) => list.getEntries()"
        ".forEach((each) => window.tasks.push(each.duration))).observe({type: 'longtask'}); 0"
    )
    send(page, text)
    page.click("#layers label:nth-child(2)")
    page.click("#heads label:nth-child(3)")
    page.wait(ANSWERED)
    page.click("#query-20")
    shown = [float(weight or 0) for weight in shown_weights(page, "keys")]
    # A shown weight is rounded to three decimals, after float16.
    np.testing.assert_allclose(shown, attention.head(1, 2)[20], atol=1e-3)
    for view in (2, 3):
        page.click(f"#view label:nth-of-type({view})")
        page.wait(ANSWERED)
    # About 0.2 s on an idle machine.
    assert page.evaluate("Math.max(...window.tasks)") < 2000
    sizes = page.evaluate(
        "performance.getEntriesByType('resource').map((each) => each.encodedBodySize)"
    )
    layer = HEADS * count * count * 2 * 4 / 3
    assert max(sizes) < 1.1 * layer + 200_000


def test_vectors_of_several_texts_are_compared(page: Browser, rope: Service) -> None:
    show_task(page, "similarity")
    send(page, "\n".join((*TEXTS, "")), "#texts")
    with Client(rope.target) as client:
        vectors = client.encode(TEXTS, normalize=True)
    cells = page.evaluate(
        "[...document.querySelectorAll('#cosines td')].map((each) => Number(each.textContent))"
    )
    np.testing.assert_allclose(np.reshape(cells, (3, 3)), vectors @ vectors.T, atol=6e-4)
    show_task(page, "attention")
    assert not page.evaluate("document.querySelector('#result').checkVisibility()")


def test_the_card_shows_the_measured_distance_from_pytorch(page: Browser, rope: Service) -> None:
    with Client(rope.target) as client:
        model = client.model()
    # The example's answer moves what is below it.
    page.wait(f"document.querySelector('#card-part').checkVisibility() && {ANSWERED}")
    page.click("#card-part summary")
    rows = page.evaluate(
        "[...document.querySelectorAll('#parity tbody tr.in-use')]"
        ".map((row) => [row.cells[0].textContent, Number(row.cells[3].textContent)])"
    )
    expected = {
        each.output: each.max_error
        for each in model.parity
        if (each.provider, each.precision) == (model.provider, model.precision)
    }
    assert dict(rows).keys() == expected.keys()
    for output, error in rows:
        assert error == pytest.approx(expected[output], rel=0.06)
    assert model.bundle_sha256 in page.text("#card")


def test_a_link_shows_the_same_view_again(page: Browser, rope: Service) -> None:
    send(page, MIDDLE)
    choose(page, "#unit", "word")
    page.click("#heads label:nth-child(3)")
    page.click("#query-3")
    before, link = shown_weights(page, "keys"), page.evaluate("location.hash")
    page.open(f"http://{rope.rest}/", link)
    page.wait(f"document.querySelector('#views').checkVisibility() && {ANSWERED}")
    assert page.evaluate("document.querySelector('#text').value") == MIDDLE
    assert page.text("#detail h2").startswith("Query 3")
    assert (shown_weights(page, "keys"), page.evaluate("location.hash")) == (before, link)
    # A link that is followed on the open page; texts beyond the bound are not in the address.
    page.evaluate("location.hash = '#task=similarity&texts=read%0Awrite%0Aread'")
    page.wait(f"document.querySelectorAll('#cosines td').length === 9 && {ANSWERED}")
    send(page, "\n".join(("read " * 20,) * 21), "#texts")
    assert page.evaluate("location.hash") == "#task=similarity"
    assert page.evaluate("document.querySelector('#too-long').checkVisibility()")


def test_keys_list_themselves_send_the_form_and_move_between_cells(page: Browser) -> None:
    show_task(page, "similarity")
    send(page, "\n".join(TEXTS), "#texts")
    page.evaluate("document.querySelector('#cosines td').focus()")
    for key in ("ArrowRight", "ArrowDown", "ArrowRight"):
        page.press(key)
    assert page.evaluate("document.activeElement.ariaLabel").startswith("text 2 with text 3: ")
    outline = "getComputedStyle(document.activeElement).outlineStyle"
    assert page.evaluate(outline) == "solid"
    is_open = "document.querySelector('#keys-list').open"
    page.press("?")
    assert page.evaluate(is_open)
    page.press("Escape")
    assert not page.evaluate(is_open)
    page.evaluate("document.querySelector('#texts').value = 'one'; document.activeElement.blur()")
    page.press("Enter", control=True)
    page.wait(ANSWERED)
    assert "give 2 to 24" in page.text("#problem")
    page.evaluate("document.querySelector('#texts').focus()")
    page.press("?")  # a letter of a text
    assert not page.evaluate(is_open)


def test_the_largest_weights_stay_if_a_layer_is_refused(page: Browser) -> None:
    page.evaluate(
        "(() => { const ask = window.fetch; window.fetch = (path, options) =>"
        " options.body?.includes('\"layers\"') ? Promise.reject(new TypeError('cut')) :"
        " ask(path, options); })()"
    )
    send(page, LONG)
    send(page, "\n".join([LONG] * 3))
    assert page.text("#problem").startswith("The service does not answer.")
    assert "largest weights of each row are here" in page.text("#said")
    assert ink(page, "#lines")[0] > 500
