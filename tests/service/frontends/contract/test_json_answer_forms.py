"""Answers as JSON hold the numbers of the messages, within the bytes that they reserve."""

from __future__ import annotations

import base64
import math
from typing import Any, get_args

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from headlight.errors import InvalidInput
from headlight.outputs.hidden import states
from headlight.outputs.maps.resolved_spec import resolve_attention, whole
from headlight.outputs.registry import OUTPUTS as EVERY
from headlight.runtime.encode_items import ItemResult, Selection
from headlight.runtime.values import Tokenized
from headlight_service.core.requests.answer import Answer
from headlight_service.frontends.contract import json_answer_forms as module
from headlight_service.frontends.contract.answer_encoding import fill
from headlight_service.frontends.contract.json_answer_forms import (
    FRAMING_BYTES,
    ITEM_BYTES,
    JsonEncodeForm,
    NumberEncoding,
    number_encoding,
)
from headlight_service.frontends.contract.json_encoding import json_value
from tests.service.fakes import ARCHITECTURE, HEADS, info
from tests.service.frontends.contract.test_answer_forms import (
    FORMS,
    REF,
    TIMINGS,
    answer,
    prepared,
    selections,
)

NO_LIMIT = 1 << 40
TYPES = {
    "DATA_TYPE_FLOAT32": "<f4",
    "DATA_TYPE_FLOAT16": "<f2",
    "DATA_TYPE_UINT8": "u1",
    "DATA_TYPE_UINT16": "<u2",
    "DATA_TYPE_UINT32": "<u4",
    "DATA_TYPE_INT8": "i1",
    "DATA_TYPE_BINARY": "i1",
    "DATA_TYPE_UBINARY": "u1",
}
RAGGED = [name for each in EVERY.values() if not each.stacked for name in each.tensor_names]


def encoded(
    answered: Answer, encoding: NumberEncoding, limit_bytes: int = NO_LIMIT
) -> tuple[dict[str, Any], int, int]:
    """Return an answer as a client reads it, its bytes, and the bytes reserved for it."""
    form = JsonEncodeForm(encoding, limit_bytes)
    reserved = form.overhead_bytes(REF, answered.prepared) + answered.prepared.data_bytes
    body = form.encode(answered)
    return orjson.loads(body), len(body), reserved


def numbers(nested: Any) -> list[Any]:
    """Return the numbers of nested lists, in order."""
    if not isinstance(nested, list):
        return [nested]
    return [each for part in nested for each in numbers(part)]


def shape(nested: Any) -> tuple[int, ...]:
    return (len(nested), *shape(nested[0])) if isinstance(nested, list) else ()


def check_numbers(told: dict[str, Any], expected: dict[str, Any]) -> None:
    """Compare the lists of a tensor with its base64. Infinite numbers are null."""
    found, kind = numbers(told.pop("data")), TYPES[told["dtype"]]
    same: NDArray[Any] = np.frombuffer(base64.b64decode(expected.pop("data")), kind)
    assert [each is None for each in found] == (~np.isfinite(same)).tolist()
    finite = np.array([0 if each is None else each for each in found], kind)
    assert finite.tobytes() == np.where(np.isfinite(same), same, np.zeros(1, kind)).tobytes()


def check(lengths: list[int], selection: Selection) -> None:
    """Compare an answer in both encodings with its message."""
    message, answered = answer(lengths, selection)
    expected = json_value(fill(message, answered))
    told, size, reserved = encoded(answered, "base64")
    assert told == expected
    assert size <= reserved <= size + FRAMING_BYTES + 40
    told, size, reserved = encoded(answered, "list")
    assert size <= reserved
    for tensor, same in zip(told["pooled"], expected["pooled"], strict=True):
        assert list(shape(tensor["data"])) == tensor["shape"]
        check_numbers(tensor, same)
    for name in set(RAGGED) & set(expected):
        tensor = told[name]
        assert [{"sizes": list(shape(each))} for each in tensor["data"]] == tensor["shapes"]
        check_numbers(tensor, expected[name])
    assert told == expected


@given(st.lists(st.integers(1, 20), min_size=1, max_size=4), selections)
def test_answers_hold_the_numbers_of_their_message(
    lengths: list[int], selection: Selection
) -> None:
    check(lengths, selection)


@pytest.mark.parametrize("form", FORMS, ids=range(len(FORMS)))
def test_every_form_of_attention(form: Any) -> None:
    choice = resolve_attention(form, ARCHITECTURE, "mean")
    check([9, 5], Selection(pooled=False, attention=choice))


def test_large_arrays_are_written_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PIECE_BYTES", 8)
    check([9, 5], Selection(tokens=True, attention=whole((0, 2), HEADS), hidden=states((0, 3))))


def test_a_key_that_is_not_seen_has_null_as_its_score() -> None:
    _, answered = answer([2], Selection(pooled=False, attention=whole((0,), HEADS)))
    scores = np.zeros((1, HEADS, 2, 2), np.float32)
    scores[..., 1] = -math.inf
    answered.results[0] = ItemResult(attention=scores)
    told, _, _ = encoded(answered, "list")
    assert told["attention"]["data"] == [[[[[0.0, None]] * 2] * HEADS]]
    told, _, _ = encoded(answered, "base64")
    assert base64.b64decode(told["attention"]["data"]) == scores.tobytes()


@pytest.mark.parametrize("dtype", ITEM_BYTES)
def test_no_number_is_longer_than_its_reserved_text(dtype: str) -> None:
    kind: Any = np.dtype(TYPES[f"DATA_TYPE_{dtype.upper()}"])
    binary, text = ITEM_BYTES[dtype]
    assert kind.itemsize == binary
    if kind.kind == "f":
        bits = np.random.default_rng(0).integers(0, 1 << 8 * binary, 1 << 16, dtype=np.uint64)
        values = bits.astype(f"<u{binary}").view(kind)
        extremes = [np.finfo(kind).min, -np.finfo(kind).tiny, -np.finfo(kind).smallest_subnormal]
        values = np.concatenate([values[np.isfinite(values)], np.array(extremes, kind)])
    else:
        values = np.array([np.iinfo(kind).min, np.iinfo(kind).max], kind)
    longest = max(
        len(orjson.dumps(values[at : at + 1], option=orjson.OPT_SERIALIZE_NUMPY)) - 1
        for at in range(len(values))
    )
    assert longest <= text <= longest + 2


def test_an_answer_above_the_limit_is_refused_with_what_fits() -> None:
    _, answered = answer([30], Selection(pooled=False, attention=whole((0, 1, 2), HEADS)))
    _, size, reserved = encoded(answered, "list", reserved_of(answered, "list"))
    assert size <= reserved
    with pytest.raises(InvalidInput) as error:
        encoded(answered, "list", reserved - 1)
    assert error.value.field == "outputs.attention"
    assert f"would have up to {reserved} bytes of JSON, over {reserved - 1}" in error.value.problem
    assert "2 of these 3 layers would fit" in error.value.problem
    assert 'ask for "encoding": "base64", or fewer layers' in error.value.problem
    encoded(answered, "base64", reserved - 1)


def reserved_of(answered: Answer, encoding: NumberEncoding) -> int:
    form = JsonEncodeForm(encoding, NO_LIMIT)
    return form.overhead_bytes(REF, answered.prepared) + answered.prepared.data_bytes


def test_too_much_token_info_is_refused_by_its_field() -> None:
    inputs = [Tokenized(np.ones(500, np.int64), 500, info([5] * 500))]
    form = JsonEncodeForm("base64", 2000)
    with pytest.raises(InvalidInput) as error:
        form.overhead_bytes(REF, prepared(inputs, Selection(), with_info=True))
    assert error.value.field == "outputs.token_info"


def test_a_dry_run_has_no_data_and_no_limit() -> None:
    _, answered = answer([30], Selection(attention=whole((0,), HEADS), hidden=states((1,))))
    form = JsonEncodeForm("list", 10, dry_run=True)
    form.overhead_bytes(REF, answered.prepared)
    told = orjson.loads(form.encode(Answer(answered.prepared, [], TIMINGS)))
    assert told["data_bytes"] == answered.prepared.data_bytes > 0
    assert told["timings"]["total_ns"] == TIMINGS.total_ns
    for tensor in (*told["pooled"], told["attention"], told["hidden"]):
        assert "data" not in tensor


def test_encodings_are_list_and_base64() -> None:
    assert [number_encoding(each) for each in (None, "list", "base64")] == [
        "list",
        *get_args(NumberEncoding),
    ]
    others: list[object] = ["float", "", 1, {}]
    for other in others:
        with pytest.raises(InvalidInput, match=r'encoding: .*; send "list" or "base64"'):
            number_encoding(other)
