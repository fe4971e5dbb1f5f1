"""Comparison of answers: differences that it reports, and those that it allows."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import pytest

from tests.wire.today.sameness import differences


def data(*numbers: float, dtype: str = "<f4") -> str:
    return base64.b64encode(np.array(numbers, dtype).tobytes()).decode()


def outputs(datatype: str, contents: str) -> Any:
    return {"outputs": [{"datatype": datatype}], "raw_output_contents": [contents]}


SAME: dict[str, tuple[Any, Any]] = {
    "a number": ({"score": 0.5}, {"score": 0.50001}),
    "data": ({"data": data(1, 2)}, {"data": data(1, 2.00001)}),
    "half": (
        {"dtype": "DATA_TYPE_FLOAT16", "data": data(1, 2, 3, dtype="<f2")},
        {"dtype": "DATA_TYPE_FLOAT16", "data": data(1, 2, 3.002, dtype="<f2")},
    ),
    "a tensor": (
        outputs("FP16", data(1, 2, dtype="<f2")),
        outputs("FP16", data(1, 2.002, dtype="<f2")),
    ),
    "times": ({"timings": {"queue_ns": "1"}}, {"timings": {"queue_ns": "2"}}),
    "digests": ({"sha256": "a" * 64}, {"sha256": "b" * 64}),
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
    "half": (
        {"dtype": "DATA_TYPE_FLOAT16", "data": data(0.25, dtype="<f2")},
        {"dtype": "DATA_TYPE_FLOAT16", "data": data(0.26, dtype="<f2")},
    ),
    "a tensor": (outputs("FP16", data(1, dtype="<f2")), outputs("FP16", data(-1, dtype="<f2"))),
    "ids": (outputs("INT32", data(7, dtype="<i4")), outputs("INT32", data(8, dtype="<i4"))),
    "a digest that is gone": ({"sha256": "a" * 64}, {"sha256": ""}),
    "a type of content": ({"content-type": "application/json"}, {"content-type": "text/plain"}),
    "a quota": (
        {"status": 429, "body": "the quota of 1 is used up; wait 2 s"},
        {"status": 429, "body": "the quota of 2 is used up; wait 2 s"},
    ),
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
