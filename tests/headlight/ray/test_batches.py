"""Batches and arguments: accepted types, and refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from headlight.errors import InvalidInput
from headlight.ray import Embedder
from headlight.runtime import Runtime
from tests.headlight.ray.tables import Options, array, table


@pytest.mark.parametrize(
    "kind", [pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]
)
def test_texts_of_every_string_type(bundle_path: Path, runtime: Runtime, kind: Any) -> None:
    found = Embedder(bundle_path, text_column="body")(table(["one", "two", "one"], "body", kind))
    expected = runtime.encode(["one", "two", "one"])
    np.testing.assert_allclose(array(found["embedding"]), expected, atol=1e-6)


def test_a_record_batch_gives_a_table(bundle_path: Path) -> None:
    embedder, rows = Embedder(bundle_path), table(["one", "two"])
    assert embedder(rows.to_batches()[0]).equals(embedder(rows))


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        (table(["a"], "body"), r"^text_column: there is no column text; there are id, body$"),
        (pa.table({"text": [1]}), r"^text_column: text is int64; name a column of strings, or"),
        (pa.table({"text": [b"a"]}), r"^text_column: text is binary; name a column of strings, or"),
        (
            pa.table({"text": ["a"], "error": [""]}),
            r"^batch: has a column error already; drop it, or give another prefix$",
        ),
        ({"text": np.array(["a"])}, r'^batch: is dict, .*; give batch_format="pyarrow" to'),
    ],
)
def test_a_batch_of_other_columns_is_refused(bundle_path: Path, batch: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Embedder(bundle_path)(batch)


def test_a_prefix_keeps_new_names_apart(bundle_path: Path) -> None:
    rows = pa.table({"text": ["a"], "error": ["of the input"]})
    found = Embedder(bundle_path, prefix="headlight_")(rows)
    assert found.column_names == ["text", "error", "headlight_embedding", "headlight_error"]
    assert found["error"].to_pylist() == ["of the input"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, r"^bundle and target: neither given; give bundle=FOLDER .* or target=HOST:PORT"),
        ({"bundle": "b", "target": "t:1"}, r"^bundle and target: both given; "),
        ({"bundle": "b", "client": {}}, r"^client: is for target; leave it out with bundle$"),
        ({"bundle": "b", "pooled": False}, r"^pooled: is False, and no other output is requested"),
        ({"bundle": "b", "spans": [[(0, 1)]]}, r"^spans: is \[\[\(0, 1\)\]\]; give \"sentences\""),
        ({"bundle": "b", "spans": "words"}, r"^spans: is 'words'; give \"sentences\""),
    ],
)
def test_arguments_that_cannot_be_used(options: Options, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Embedder(**options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dimensions": 37}, r"is 37; this model's vectors have 1 \.\. 36$"),
        ({"dtype": "int8"}, r"int8 of 36 dimensions needs their ranges"),
        ({"prompt_name": "quury"}, r"^prompt_name: "),
        ({"truncate": "middle"}, r"^truncate: must be None, "),
    ],
)
def test_outputs_that_the_model_lacks_are_refused_at_once(
    bundle_path: Path, options: Options, message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        Embedder(bundle_path, **options)
