"""From inputs to tokens.

Token estimates, tokenizer batches, and refusals.
"""

from __future__ import annotations

import threading
from array import array
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headlight.errors import InvalidInput
from headlight.runtime import Runtime
from headlight.runtime.encode_items import Selection
from headlight.runtime.values import Tokenized
from headlight_service.core.admission.estimates import SPECIAL, Density
from headlight_service.core.requests.request import Input, Pair, TokenIds
from headlight_service.core.tokenization import (
    TOGETHER_CHARACTERS,
    TokenizationJob,
    items_of,
    kind_of,
    tokenized,
)
from tests.service.fakes import MAX_LENGTH, FakeRuntime, FakeTokenizer

LONGEST = 100


def sizes_of(inputs: Sequence[Input], prompt: str) -> list[int]:
    sizes = []
    for value in inputs:
        if isinstance(value, TokenIds):
            sizes.append(len(value.ids))
        else:
            sizes.append(
                len(prompt) + len(value) if isinstance(value, str) else sum(map(len, value))
            )
    return sizes


def told(asked: TokenizationJob) -> tuple[list[Input], list[int]]:
    """Return what an estimate reports for a job."""
    return asked.inputs, asked.sizes


def job(
    *inputs: Input, prompt: str = "", max_tokens: int = 10**6, **changes: Any
) -> TokenizationJob:
    sizes = sizes_of(inputs, prompt)
    made = TokenizationJob(
        list(inputs),
        sizes,
        sum(sizes),
        False,
        max_tokens,
        "refuse",
        True,
        prompt,
        "parse",
        "refuse",
        1 << 20,
    )
    return made._replace(**changes)


def of_length(length: int, kept: int | None = None) -> Tokenized:
    return Tokenized(np.zeros(length if kept is None else kept, dtype=np.int64), length, None)


def ids(length: int) -> TokenIds:
    return TokenIds(array("q", [1] * length), array("i"))


def test_the_initial_estimate_counts_ids_and_no_tokens_of_texts() -> None:
    assert Density().tokens(*told(job("a text")), LONGEST) == 0
    assert Density().tokens(*told(job(ids(7))), LONGEST) == 7


def test_token_density_is_estimated_from_earlier_texts() -> None:
    density = Density()
    # 0.2 per character.
    density.learn(*told(job("x" * 40, prompt="p" * 10)), [of_length(10 + SPECIAL)])
    assert (
        density.tokens(*told(job("y" * 100, Pair("z" * 20, "z" * 30))), LONGEST) == 30 + 2 * SPECIAL
    )
    assert (
        density.tokens(*told(job("y" * 20, "y" * 20, prompt="p" * 30)), LONGEST) == 20 + 2 * SPECIAL
    )


def test_the_estimate_is_limited_to_the_model_length() -> None:
    density = Density()
    # Truncated tokens count, or long texts would seem sparse.
    density.learn(*told(job("x" * 1000)), [of_length(500 + SPECIAL, kept=LONGEST)])
    assert density.tokens(*told(job("y" * 100)), LONGEST) == 50 + SPECIAL
    assert density.tokens(*told(job("y" * 1000, "y" * 1000)), LONGEST) == 2 * LONGEST


def test_ids_do_not_change_the_density_estimate() -> None:
    density = Density()
    density.learn(*told(job(ids(50))), [of_length(50)])
    assert density.tokens(*told(job("a text")), LONGEST) == 0
    density.learn(*told(job("x" * 100, ids(500))), [of_length(10 + SPECIAL), of_length(500)])
    assert density.tokens(*told(job("y" * 100, ids(9))), LONGEST) == 10 + SPECIAL + 9


def test_a_cancelled_request_does_not_change_the_density_estimate() -> None:
    density = Density()
    density.learn(*told(job("left before anything was read")), [])
    assert density.tokens(*told(job("a text")), LONGEST) == 0


def test_special_tokens_of_short_texts_do_not_bias_the_density() -> None:
    density = Density()
    density.learn(
        *told(job("a", "b", "map keys")),
        [of_length(1 + SPECIAL), of_length(1 + SPECIAL), of_length(2 + SPECIAL)],
    )
    assert density.tokens(*told(job("y" * 100)), LONGEST) == 40 + SPECIAL


def test_the_density_estimate_adapts() -> None:
    density = Density()
    for tokens in [50] * 10 + [10] * 300:
        density.learn(*told(job("x" * 100)), [of_length(tokens + SPECIAL)])
    assert density.tokens(*told(job("y" * 100)), LONGEST) == 10 + SPECIAL


class Watched(FakeTokenizer):
    """Tokenizer that records its batches, and can let the caller disconnect."""

    def __init__(self, left: threading.Event | None = None) -> None:
        super().__init__()
        self.together: list[list[Any]] = []
        self._left = left

    def encode_each(self, values: Sequence[Any], **options: Any) -> Any:
        self.together.append(list(values))
        if self._left is not None:
            self._left.set()
        yield from super().encode_each(values, **options)


def read(made: TokenizationJob, runtime: FakeRuntime | None = None) -> list[Tokenized]:
    return list(tokenized(made, cast(Runtime, runtime or FakeRuntime()), lambda: False))


def test_inputs_of_all_kinds_are_tokenised_in_order() -> None:
    found = read(job("a bb", Pair("ccc", "dddd"), ids(3), ids(2), "eeeee", prompt="p "))
    assert [each.ids.tolist() for each in found] == [[1, 1, 2], [3, 4], [1, 1, 1], [1, 1], [1, 5]]


def test_texts_are_tokenised_in_batches_of_limited_characters() -> None:
    runtime = FakeRuntime()
    runtime.tokenizer = tokenizer = Watched()
    half = "x" * (TOGETHER_CHARACTERS // 2)
    longer = "y" * (TOGETHER_CHARACTERS + 1)
    found = read(job(half, half, "z", longer, "a", ids(1), "b", "c"), runtime)
    assert tokenizer.together == [[half, half], ["z"], [longer], ["a"], ["b", "c"]]
    assert len(found) == 8


def test_tokenization_stops_once_the_request_is_cancelled() -> None:
    left, runtime = threading.Event(), FakeRuntime()
    runtime.tokenizer = tokenizer = Watched(left)
    text = "x" * TOGETHER_CHARACTERS
    found = list(tokenized(job(text, text, text), cast(Runtime, runtime), left.is_set))
    assert (len(found), tokenizer.together) == (1, [[text]])
    assert list(tokenized(job(text), cast(Runtime, runtime), left.is_set)) == []


@pytest.mark.parametrize(
    ("made", "field", "problem"),
    [
        (job("a", ""), "inputs[1].text", "is empty"),
        (job(Pair("a", "")), "inputs[0].pair.second", "is empty"),
        (job("a " * (MAX_LENGTH + 1)), "inputs[0].text", f"has {MAX_LENGTH + 1} tokens"),
        (
            job(ids(1), TokenIds(array("q", [300]), array("q"))),
            "inputs[1].ids",
            "the id at 0 is not in 0 .. 99",
        ),
        (
            job("a b", "c", max_tokens=2),
            "inputs",
            "have more than 2 tokens together; split the request",
        ),
    ],
    ids=["empty", "second", "long", "unknown id", "together"],
)
def test_the_input_at_fault_is_named(made: TokenizationJob, field: str, problem: str) -> None:
    with pytest.raises(InvalidInput) as error:
        read(made)
    assert error.value.field == field
    assert problem in error.value.problem
    assert error.value.__cause__ is None


def test_text_without_a_tokenizer_is_a_bug() -> None:
    with pytest.raises(RuntimeError, match="This is a bug"):
        read(job("a"), FakeRuntime(tokenizer=False))


def test_input_kinds_are_named_like_fields() -> None:
    assert [kind_of(value) for value in ("a", Pair("a", "b"), ids(1))] == ["text", "pair", "ids"]


def test_each_input_is_an_item_with_its_own_mask() -> None:
    found = read(job("a b", "c"))
    masks = [np.ones((3, 2), dtype=np.float32), np.zeros((3, 2), dtype=np.float32)]
    items = items_of(found, Selection(), "mean", masks)
    assert [len(each.ids) for each in items] == [2, 1]
    assert [each.head_mask is mask for each, mask in zip(items, masks, strict=True)] == [True, True]
    assert [each.head_mask for each in items_of(found, Selection(), "mean", None)] == [None, None]


@given(
    st.lists(
        st.one_of(st.text("ab ", min_size=1).filter(str.strip), st.integers(1, 5).map(ids)),
        min_size=1,
    )
)
def test_any_mix_of_inputs_is_complete_and_in_order(inputs: list[Input]) -> None:
    found = read(job(*inputs))
    alone = [read(job(value))[0] for value in inputs]
    assert [each.ids.tolist() for each in found] == [each.ids.tolist() for each in alone]
