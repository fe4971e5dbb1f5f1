"""What counts as the same answer."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import pytest

from tests.wire.today.sameness import differences


def data(*numbers: float, dtype: str = "<f4") -> str:
    return base64.b64encode(np.array(numbers, dtype).tobytes()).decode()


SAME: dict[str, tuple[Any, Any]] = {
    "a number": ({"score": 0.5}, {"score": 0.50001}),
    "data": ({"data": data(1, 2)}, {"data": data(1, 2.00001)}),
    "half": (
        {"dtype": "DATA_TYPE_FLOAT16", "data": data(1, 2, dtype="<f2")},
        {"dtype": "DATA_TYPE_FLOAT16", "data": data(1, 2.01, dtype="<f2")},
    ),
    "times": ({"timings": {"queue_ns": "1"}}, {"timings": {"queue_ns": "2"}}),
    "the last digit of a text": ({"out": ["score 0.606"]}, {"out": ["score 0.607"]}),
    "a delay": (
        {"status": 429, "body": "wait 2.04e+03 s"},
        {"status": 429, "body": "wait 2.01e+03 s"},
    ),
}
DIFFERENT: dict[str, tuple[Any, Any]] = {
    "a number": ({"score": 0.5}, {"score": 0.51}),
    "a whole number": ({"tokens": 3}, {"tokens": 4}),
    "a type": ({"tokens": 3}, {"tokens": "3"}),
    "data": ({"data": data(1, 2)}, {"data": data(1, 2.1)}),
    "the number of data": ({"data": data(1, 2)}, {"data": data(1)}),
    "a word": ({"message": "is empty"}, {"message": "was empty"}),
    "a whole number in a text": ({"message": "takes 2048"}, {"message": "takes 1024"}),
    "a field that is gone": ({"a": 1, "timings": {}}, {"a": 1}),
    "a field that is new": ({"a": 1}, {"a": 1, "b": 2}),
    "the length of a list": ({"a": [1, 2]}, {"a": [1]}),
    "words of a shed request": ({"status": 429, "body": "wait 2 s"}, {"status": 429, "body": "go"}),
}


@pytest.mark.parametrize(("then", "now"), SAME.values(), ids=SAME)
def test_answers_that_say_the_same(then: Any, now: Any) -> None:
    assert differences(then, now) == []


@pytest.mark.parametrize(("then", "now"), DIFFERENT.values(), ids=DIFFERENT)
def test_answers_that_differ(then: Any, now: Any) -> None:
    [difference] = differences(then, now)
    assert difference.startswith("answer")
