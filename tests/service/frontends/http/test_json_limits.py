"""Measuring JSON as bytes: the same as of its parsed values."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headlight.errors import InvalidInput
from headlight_service.frontends.http import json_limits as module
from headlight_service.frontends.http.json_limits import JsonSize, measure, parse

texts = st.text(st.sampled_from('a"\\[]{},:é\n'), max_size=8)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | texts,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(texts, inner, max_size=5),
    max_leaves=30,
)


def counted(value: Any, level: int = 0) -> JsonSize:
    """Return the size of a parsed value; `values` includes an entry of an empty list."""
    if not isinstance(value, list | dict):
        return JsonSize(1, 0, level)
    inside = [
        counted(each, level + 1) for each in (value if isinstance(value, list) else value.values())
    ]
    return JsonSize(
        1 + max(1, sum(each.values for each in inside)),
        1 + sum(each.lists for each in inside),
        max([level + 1, *(each.nesting for each in inside)]),
    )


@settings(max_examples=300)
@given(values, st.sampled_from([1, 2, 3, 7, 1 << 17]))
def test_bytes_are_measured_as_their_values(value: Any, block: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "BLOCK_BYTES", block)
        for spaced in (None, 1):
            body = json.dumps(value, ensure_ascii=False, indent=spaced).encode()
            assert measure(body) == counted(value)


def test_limits_are_named() -> None:
    limits = JsonSize(values=100, lists=10, nesting=3)
    for body, what in (
        (b"[" + b"[]," * 20 + b"[]]", "21 lists|22 lists"),
        (b"[" + b"1," * 200 + b"1]", "JSON values"),
        (b"[[[[" + b" " * 20 + b"]]]]", "4 levels"),
    ):
        with pytest.raises(InvalidInput, match=what):
            parse(body, limits)
    assert parse(b"[" + b"1," * 90 + b"1]", limits) == [1] * 91
    assert parse(b'["' + b"[,{" * 300 + b'"]', limits) == ["[,{" * 300]
