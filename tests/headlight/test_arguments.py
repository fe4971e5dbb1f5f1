"""What a caller may write for a choice, and what is said of anything else, before it is sent."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from headlight import AttentionSpec, Client
from headlight.errors import InvalidInput
from headlight.spec import HiddenSpec, indices_of
from headlight.stream import occlusion_request
from headlight.wire import attention_output, hidden_output, selector_of


@pytest.mark.parametrize("layer", [np.int64(2), np.argmax([0, 1, 3]), (2,), np.array([2]), range(2, 3)])
def test_numbers_of_numpy_choose_layers_as_those_of_python(client: Client, layer: Any) -> None:
    assert client.attend("one two", layer).layers == (2,)
    assert AttentionSpec.of(layer).layers == (2,)


@pytest.mark.parametrize("layers", [1.5, [1.7], "all", [0, None], np.array([0.5])])
def test_what_is_no_integer_is_never_rounded_to_one(layers: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^layers: has .* an integer"):
        indices_of("layers", layers)


def test_tokens_may_be_an_array() -> None:
    output = hidden_output(HiddenSpec(tokens=np.array([2, 0])))  # type: ignore[arg-type] # what callers write
    assert list(output.tokens.indices.indices) == [2, 0]
    assert list(occlusion_request("", "one", np.array([1]), None).tokens.indices.indices) == [1]  # type: ignore[arg-type]
    assert selector_of("all") is None


@pytest.mark.parametrize("tokens", ["none", 5, (2**40,), (0.5,)])
def test_tokens_that_are_none_are_refused_by_name(client: Client, tokens: Any) -> None:
    for ask in (
        lambda: client.occlusion("one two", tokens),
        lambda: client.hidden("one two", tokens=tokens),
        lambda: client.attention("one two", AttentionSpec(queries=tokens)),
    ):
        with pytest.raises(
            InvalidInput, match=r"^(tokens|hidden|attention): cannot be asked for: .* see headlight\.spec"
        ):
            ask()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"reduce": ("mean",)}, "'mean' is none of head_mean, head_max"),
        ({"unit": "letter"}, "'letter' is none of token, word, span"),
        ({"dtype": "bfloat16"}, "'bfloat16' is none of float32, float16, uint8"),
        ({"spans": ((1,),)}, "missing"),
        ({"pairs": ((1, 2, 3),)}, "too many values"),
        ({"top_k": -1}, "-1"),
    ],
)
def test_a_wish_that_cannot_be_sent_says_what_can(values: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        attention_output(AttentionSpec(**values))


def test_spans_may_be_plain_tuples() -> None:
    [span] = attention_output(AttentionSpec(unit="span", spans=((3, 5),))).spans  # type: ignore[arg-type]
    assert (span.start, span.end, span.text) == (3, 5, 0)


@pytest.mark.parametrize("seconds", [1e10, float("inf")])
def test_a_timeout_however_long_has_not_passed(target: str, seconds: float) -> None:
    with Client(target, timeout=seconds) as client:
        assert len(client.encode(["one"])) == 1
