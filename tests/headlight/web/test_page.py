"""The page as text: its content, its content security policy, its refusals.

tests/system/test_page.py tests its behaviour in a browser.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import re

import numpy as np
import pytest
from numpy.typing import NDArray

from headlight import Attention, Client, ModelRef, TokenList
from headlight.web import page as page_module
from headlight.web.packing import FINE
from headlight.web.page import attention_page
from tests.headlight.web.elements import Elements
from tests.headlight.web.unpacking import unpacked

HOSTILE = (
    "</script><img src=x onerror=alert(1)>",
    "<!--",
    "]]>",
    "${script}",
    "\\u003c",
    "\u202e",
    "\ud800",
    "'\"&amp;",
)
REF = ModelRef("<b>model</b>", '"1"', "ab" * 32, "cpu", "fp32")


def weights_in(read: Elements, attention: Attention) -> NDArray[np.float64]:
    data = base64.b64decode(read.block("weights"))
    held = json.loads(read.block("data"))
    return unpacked(data, held["sizes"], held["steps"], attention.weights.shape)


def made_of(pieces: tuple[str, ...], layers: tuple[int, ...] = (0,), heads: int = 1) -> Attention:
    count = len(pieces)
    raw = np.random.default_rng(count).random((len(layers), heads, count, count), np.float32)
    zeros = (0,) * count
    tokens = TokenList(tuple(range(count)), pieces, zeros, zeros, (False,) * count, zeros)
    return Attention(raw / raw.sum(-1, keepdims=True), layers, tokens, REF)


def test_weights_on_the_page_are_within_half_a_step(client: Client) -> None:
    attention = client.attend("read a file and decode it")
    read = Elements(attention_page(attention))
    weights = weights_in(read, attention)
    assert np.abs(weights - attention.weights).max() <= 0.5 / FINE + 1e-7
    assert np.abs(weights.sum(-1) - 1).max() <= 0.5 / FINE * len(attention.tokens) + 1e-6
    assert "rounded to 1/65535 (off by at most 0.000008)" in read.text


def test_the_page_names_the_model_layers_heads_and_tokens(client: Client) -> None:
    text = "read 日本"
    attention = client.attend(text)
    read = Elements(attention_page(attention, text))
    held = json.loads(read.block("data"))
    assert held["labels"] == ["[CLS]", "read", "日本", "[SEP]"]
    assert (held["layers"], held["heads"], held["special"]) == ([0, 1, 2], 2, [1, 0, 0, 1])
    assert held["ids"] == list(attention.tokens.ids)
    for said in (
        "fake 1",
        "ab" * 32,
        "each row of a head sums to 1",
        "it is not an explanation",
        text,
    ):
        assert said in read.text


def test_the_page_loads_nothing_and_allows_only_its_own_script(client: Client) -> None:
    read = Elements(attention_page(client.attend("a b c")))
    assert not {"src", "href", "srcset", "style", "action"} & {
        name for _, has, _ in read.found for name in has
    }
    assert not [name for _, has, _ in read.found for name in has if name.startswith("on")]
    ((_, style),) = read.named("style")
    (script,) = [
        content for attributes, content in read.named("script") if "type" not in attributes
    ]
    policy = next(
        has["content"]
        for has, _ in read.named("meta")
        if has.get("http-equiv") == "Content-Security-Policy"
    )
    allowed = dict(rule.strip().split(" ", 1) for rule in str(policy).split(";"))
    digests = [
        base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        for content in (script, style)
    ]
    assert allowed.pop("script-src") == f"'sha256-{digests[0]}'"
    assert allowed.pop("style-src") == f"'sha256-{digests[1]}'"
    assert allowed.pop("default-src") == "'none'"
    assert set(allowed.values()) == {"'none'"}
    assert not re.search(r"https?://|@import|url\(", style + script)


def test_hostile_texts_are_escaped() -> None:
    plain = Elements(attention_page(made_of(("a",) * len(HOSTILE))))
    page = attention_page(made_of(HOSTILE), HOSTILE[0])
    read = Elements(page)
    assert [tag for tag, _, _ in read.found] == [tag for tag, _, _ in plain.found]
    assert [label.replace("␣", " ") for label in json.loads(read.block("data"))["labels"]] == [
        *HOSTILE[:5],
        "�",
        "�",
        HOSTILE[7],
    ]
    assert REF.name in read.text
    assert HOSTILE[0] in read.text
    page.encode()  # no lone surrogate is left


def test_joiners_are_kept_and_white_space_is_visible() -> None:
    pieces = ("می\u200cخواهم", "👩\u200d👧", "\n", " ", "")
    assert json.loads(Elements(attention_page(made_of(pieces))).block("data"))["labels"] == [
        *pieces[:2],
        "↵",
        "␣",
        "#4",
    ]


def test_pairs_are_labelled_by_their_own_texts(client: Client) -> None:
    pair = ("read it", "write all")
    held = json.loads(Elements(attention_page(client.attend(pair), pair)).block("data"))
    assert held["labels"] == ["[CLS]", "read", "it", "[SEP]", "write", "all", "[SEP]"]
    assert held["segments"] == [0, 0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize(
    ("layer", "head", "start"),
    [
        # Weights of 0.9 and more: special tokens, a token with itself; 0.8 twice, here not between
        # neighbours.
        (None, None, {"layer": 7, "head": 0, "link": [1, 3, 0.8]}),
        (7, None, {"layer": 7, "head": 0, "link": [1, 3, 0.8]}),
        (-2, None, {"layer": 3, "head": 1, "link": [2, 1, 0.8]}),
        (None, 1, {"layer": 7, "head": 1}),
        (3, -1, {"layer": 3, "head": 1}),
        (-2, 0, {"layer": 3, "head": 0}),
    ],
)
def test_it_opens_where_asked_else_at_the_strongest_link(
    layer: int | None, head: int | None, start: dict[str, object]
) -> None:
    weights = np.zeros((2, 2, 4, 4), np.float32)
    weights[0, 0, 1] = [1, 0, 0, 0]  # to a special token
    weights[1, 1, 0] = [0, 0, 1, 0]  # from one
    weights[0, 0, 2] = [0, 0, 0.9, 0.1]
    weights[0, 1, 2] = weights[1, 0, 1, ::-1] = [0, 0.8, 0.2, 0]
    weights[1, 0, 1] = [0, 0.2, 0, 0.8]
    plain = made_of(("[CLS]", "a", "b", "c"), layers=(3, 7), heads=2)
    tokens = dataclasses.replace(plain.tokens, special=(True, False, False, False))
    attention = dataclasses.replace(plain, weights=weights, tokens=tokens)
    page = attention_page(attention, layer=layer, head=head)
    assert json.loads(Elements(page).block("data"))["start"] == start


def test_without_two_tokens_of_the_text_it_opens_at_the_first_head() -> None:
    page = attention_page(made_of(("a",), layers=(3, 7), heads=2))
    assert json.loads(Elements(page).block("data"))["start"] == {"layer": 3, "head": 0}


def test_long_texts_stay_below_2_megabytes_and_the_page_says_what_is_left_out() -> None:
    attention = made_of(("token",) * 500, layers=tuple(range(6)), heads=12)
    page = attention_page(attention)
    assert 1e6 < len(page.encode()) <= 2e6
    held = json.loads(Elements(page).block("data"))
    share = f"{held['leftOut']:.0%}"
    text = " ".join(Elements(page).text.split())
    assert 0 < held["floor"] < attention.weights.max()
    assert f"weights below {held['floor']:.4f} are left out of this page, {share} of the" in text
    assert "its rows sum to less than 1" in text
    assert "each row of a head sums to 1" not in text
    assert "rounded to 1/5000 (off by at most 0.0001)" in text


def test_a_layer_alone_leaves_out_less(monkeypatch: pytest.MonkeyPatch) -> None:
    many = made_of(("token",) * 100, layers=(0, 1, 2), heads=4)
    one = dataclasses.replace(many, weights=many.weights[:1], layers=(0,))
    monkeypatch.setattr(page_module, "MAX_BYTES", len(attention_page(one)) - 10_000)
    floors = [
        json.loads(Elements(attention_page(each)).block("data"))["floor"] for each in (many, one)
    ]
    assert floors[0] > floors[1] > 0
    read = Elements(attention_page(one))
    held = weights_in(read, one) > 0
    assert one.weights[held].min() > one.weights[~held].max()


def test_a_token_that_is_a_page_of_text_is_shortened() -> None:
    assert len(attention_page(made_of(("x" * 10**6, "y")))) < 100_000


def test_attention_that_cannot_be_shown_is_refused() -> None:
    good = made_of(("a", "b"), heads=2)
    with pytest.raises(ValueError, match="layer 1 is not here; there are 0"):
        attention_page(good, layer=1)
    with pytest.raises(ValueError, match="head 2 is not here; there are 0 to 1"):
        attention_page(good, head=2)
    for wrong in (np.nan, np.inf, -0.1, 1.1):
        with pytest.raises(
            ValueError, match=r"attention.weights: has entries that are not from 0 to 1"
        ):
            attention_page(
                dataclasses.replace(good, weights=np.full((1, 2, 2, 2), wrong, np.float32))
            )
    with pytest.raises(ValueError, match=r"attention.weights: is empty"):
        attention_page(made_of(()))


def test_numpy_integers_select_a_head_like_python_integers(client: Client) -> None:
    attention = client.attend("one two")
    layer, head = np.unravel_index(
        attention.weights.max((-1, -2)).argmax(), attention.weights.shape[:2]
    )
    assert attention_page(attention, layer=layer, head=head) == attention_page(
        attention, layer=int(layer), head=int(head)
    )
