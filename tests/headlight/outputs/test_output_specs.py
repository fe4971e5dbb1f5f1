"""Attention and hidden state specs that no message can express.

Refused by name, with the accepted values, before anything is sent.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from headlight import AttentionSpec, Client, InvalidInput, Span
from headlight.interface.checked_specs import checked_attention, checked_hidden
from headlight.outputs.maps.resolved_spec import resolve_attention
from headlight.runtime.values import Architecture
from headlight.spec import HiddenSpec
from tests.headlight.fake_model import HEADS, LAYERS
from tests.headlight.fake_server import FakeServicer

ALL = AttentionSpec()
REDUCTIONS = "head_mean, head_max, layer_mean, rollout, pooled_row, pooling_weights, statistics"
NAMES = [
    ({"reduce": ("mean",)}, f"outputs.attention.reduce: is 'mean'; must be one of {REDUCTIONS}"),
    (
        {"dtype": "float64"},
        "outputs.attention.dtype: is 'float64'; must be one of float32, float16, uint8",
    ),
    (
        {"unit": "sentence"},
        "outputs.attention.unit: is 'sentence'; must be one of token, word, span",
    ),
    (
        {"queries": "last"},
        "outputs.attention.queries: is 'last'; must be one of all, pooled, first, special",
    ),
]
VALUES = [
    ({"reduce": None}, f"outputs.attention.reduce: must be a tuple of {REDUCTIONS}"),
    (
        {"layers": (2**31,)},
        "outputs.attention.layers: must be whole numbers (of 32 bits) or runs of them",
    ),
    (
        {"pairs": ((1,),)},
        "outputs.attention.pairs: must be a list of (layer, head), two whole numbers each",
    ),
    (
        {"queries": 3},
        (
            "outputs.attention.queries: must be one of all, pooled, first, special, "
            "a list of whole numbers, or a Span"
        ),
    ),
    (
        {"keys": Span(-3, 4)},
        (
            "outputs.attention.keys: must be a Span with a start, "
            "an end and a text that are whole numbers from 0"
        ),
    ),
    (
        {"unit": "span", "spans": ((0,),)},
        (
            "outputs.attention.spans: must be Spans, each with a start, "
            "an end and a text that are whole numbers from 0"
        ),
    ),
    ({"top_k": -1}, "outputs.attention.top_k: must be a whole number from 1 to 4294967295"),
    ({"max_bytes": -1}, "outputs.attention.max_bytes: must be a whole number from 0"),
    ({"scores": "yes"}, "outputs.attention.scores: must be True or False"),
]


@pytest.mark.parametrize(("values", "message"), NAMES + VALUES)
def test_a_spec_that_no_message_can_hold_is_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        checked_attention(AttentionSpec(**values))
    assert str(refused.value) == message


@pytest.mark.parametrize(("values", "message"), NAMES)
def test_attention_names_are_checked_without_a_service(
    values: dict[str, Any], message: str
) -> None:
    architecture = Architecture(
        positions="rope", layers=2, heads=3, dim=36, pooled_dim=36, vocab_size=90
    )
    with pytest.raises(InvalidInput) as refused:
        resolve_attention(AttentionSpec(**values), architecture, "mean")
    assert str(refused.value) == message


def test_hidden_layers_are_checked_without_a_service() -> None:
    with pytest.raises(
        InvalidInput, match=r"^outputs\.hidden\.dtype: is 'float64'; must be one of float32"
    ):
        checked_hidden(HiddenSpec(dtype="float64"))  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match=r"^outputs\.hidden\.layers: must be whole numbers"):
        checked_hidden(HiddenSpec(layers=("1",)))  # type: ignore[arg-type]
    with pytest.raises(
        InvalidInput, match=r"^outputs\.hidden\.tokens: is 'last'; must be one of all"
    ):
        checked_hidden(HiddenSpec(tokens="last"))  # type: ignore[arg-type]


@pytest.mark.parametrize("layers", [1.7, "1", [None]])
def test_fractions_are_refused_and_not_rounded(layers: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^layers: holds .*; name whole numbers$"):
        AttentionSpec.of(layers)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"reduce": None}, "reduce: is None; must be a list of names"),
        ({"pairs": 5}, "pairs: is 5; must be a list of (layer, head)"),
        ({"spans": 5}, "spans: is 5; must be a list of (start, end) or (start, end, text)"),
        (
            {"spans": (0, 3)},
            "spans: is (0, 3); must be a list of (start, end) or (start, end, text)",
        ),
        (
            {"spans": [(1, 2, 0, 4)]},
            "spans: is [(1, 2, 0, 4)]; must be a list of (start, end) or (start, end, text)",
        ),
    ],
)
def test_a_value_that_is_no_list_is_refused_by_name(values: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=f"^{re.escape(message)}"):
        AttentionSpec.of(unit="span", **values)


def test_iterators_are_refused_by_name(client: Client) -> None:
    types: Any = (name for name in ("float16", "float32"))
    with pytest.raises(
        InvalidInput,
        match=r"^outputs\.pooled\.dtypes: must be a tuple of float32, float16, int8",
    ):
        client.encode_with_info(["one"], dtype=types)
    listed: Any = ["float16", "float32"]
    assert set(client.encode_with_info(["one"], dtype=listed).by_type) == set(listed)


@pytest.mark.parametrize("entry", [None, "1"])
def test_a_head_mask_that_is_not_numeric_is_refused(
    client: Client, servicer: FakeServicer, entry: Any
) -> None:
    mask: Any = [[entry] * HEADS] * LAYERS
    for ask in (
        lambda: client.encode(["one"], head_mask=mask),
        lambda: client.attention(["one"], ALL, head_mask=mask),
    ):
        with pytest.raises(InvalidInput, match=r"^head_mask: must hold numbers alone$"):
            ask()
    assert servicer.encoded == []


def test_a_number_means_a_list_of_one() -> None:
    one: Any = np.int64(1)
    spec = AttentionSpec.of(one, 2, queries=3, keys=-one)
    assert (spec.layers, spec.heads, spec.queries, spec.keys) == ((1,), (2,), (3,), (-1,))
