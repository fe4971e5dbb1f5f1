"""Texts of a column, and the reasons for rows without one."""

from __future__ import annotations

import pyarrow as pa
import pytest

from headlight.bulk.table_columns import EMPTY, NOT_UTF8, NULL, holds_texts, read_texts


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_rows_without_a_text_have_a_reason(kind: pa.DataType) -> None:
    column = pa.chunked_array([["a", None], ["", "b"]], kind)
    assert read_texts(column) == (["a", "", "", "b"], {1: NULL, 2: EMPTY})


def test_bytes_that_are_not_utf8_spoil_only_their_row() -> None:
    raw = pa.array([b"a", b"\xff\xfe", None, b""], pa.binary())
    column = pa.chunked_array([raw.view(pa.string())])
    assert read_texts(column) == (["a", "", "", ""], {1: NOT_UTF8, 2: NULL, 3: EMPTY})


def test_only_columns_of_texts_are_texts() -> None:
    assert holds_texts(pa.dictionary(pa.int32(), pa.string()))
    assert holds_texts(pa.null())
    assert not holds_texts(pa.int64())
    assert not holds_texts(pa.dictionary(pa.int32(), pa.int64()))
    assert not holds_texts(pa.list_(pa.string()))
