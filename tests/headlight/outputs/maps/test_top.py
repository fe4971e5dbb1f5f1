"""The largest weights of rows with fewer nonzero weights than requested."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from headlight import AttentionSpec
from headlight.outputs.maps import reduction
from headlight.outputs.maps.graph_selectors import BatchAttention
from headlight.outputs.maps.reduction import largest, ordered_keys
from headlight.outputs.maps.resolved_spec import Choice
from headlight.runtime import EncodeItem, ItemResult, Runtime
from headlight.runtime.encode_items import Selection
from headlight.runtime.values import Floats


def stable(rows: Floats, count: int) -> NDArray[np.int64]:
    """Sort as ONNX defines TopK: of equal entries the first."""
    return np.argsort(-rows, axis=-1, kind="stable")[..., :count]


@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.integers(0, 6), st.floats(0, 1), st.data())
@settings(max_examples=200)
def test_ties_at_zero_are_resolved_to_the_first_keys(
    seed: int, length: int, padding: int, zeros: float, data: st.DataObject
) -> None:
    random = np.random.default_rng(seed)
    count = data.draw(st.integers(1, length))
    # No number occurs twice.
    rows = (
        random.permuted(np.arange(1, 3 * 5 * length + 1)).reshape(3, 5, length).astype(np.float32)
    )
    rows[random.random(rows.shape) < zeros] = 0
    padded = np.concatenate([rows, np.zeros((3, 5, padding), np.float32)], axis=-1)
    # Ties are broken at random.
    found = np.lexsort((random.random(padded.shape), -padded), axis=-1)[..., :count]
    entries = np.take_along_axis(padded, found, axis=-1)
    before = found.copy()
    np.testing.assert_array_equal(ordered_keys(entries, found), stable(rows, count))
    np.testing.assert_array_equal(found, before)


@given(st.integers(0, 2**32 - 1), st.integers(1, 20), st.booleans(), st.data())
def test_the_largest_are_those_of_a_stable_sort(
    seed: int, length: int, weights: bool, data: st.DataObject
) -> None:
    """Of scores, too: they may be negative, and infinite where a query does not see a key."""
    random = np.random.default_rng(seed)
    known = [0.0, 1e-40, 0.25, 1.0] if weights else [-np.inf, -2.5, -1e-40, 0.0, 3.0]
    rows = random.choice(np.array(known, dtype=np.float32), (2, 3, 7, length))
    count = data.draw(st.integers(1, length + 2))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reduction, "BLOCK", data.draw(st.integers(1, 100)))
        entries, keys = largest(rows, count)
    expected = stable(rows, count)
    np.testing.assert_array_equal(keys, expected)
    np.testing.assert_array_equal(entries, np.take_along_axis(rows, expected, axis=-1))


@pytest.mark.parametrize(
    ("length", "gpu", "source"), [(256, False, "attention"), (2048, False, "top"), (9, True, "top")]
)
def test_large_maps_and_those_on_a_gpu_are_reduced_in_the_graph(
    length: int, gpu: bool, source: str
) -> None:
    choice = Choice(AttentionSpec(top_k=2), (0, 1), ((0, 1, 2),) * 2)
    items = [EncodeItem(np.ones(length, np.int64), Selection(attention=choice))]
    names = BatchAttention(items, 2, 3, length, gpu).names
    assert {name.split("_")[0] for name in names} == {source}


@pytest.mark.parametrize("provider", ["cpu", "openvino"])
def test_top_keys_of_a_text_do_not_depend_on_its_batch(
    provider: str, make_bundle: Callable[[str], Path]
) -> None:
    """Causal: most rows have fewer nonzero weights than requested."""
    runtime = Runtime(make_bundle("causal"), provider=provider, threads=1)
    random = np.random.default_rng(0)

    def item(length: int, count: int) -> EncodeItem:
        ids = random.integers(5, 60, length)
        return EncodeItem(ids, runtime.select(pooled=False, attention=AttentionSpec(top_k=count)))

    def keys(result: ItemResult) -> NDArray[np.uint16]:
        assert result.attention_indices is not None
        return result.attention_indices

    for short, few, long, many in (
        (16, 8, 20, 18),
        (17, 12, 20, 18),
        (40, 30, 60, 50),
        (40, 8, 60, 10),
    ):
        text, other = item(short, few), item(long, many)
        [alone] = runtime.engine.run([text])
        together, _ = runtime.engine.run([text, other])
        np.testing.assert_array_equal(keys(together), keys(alone))
        assert [set(row[: query + 1]) for query, row in enumerate(keys(alone)[0, 0][:few])] == [
            set(range(query + 1)) for query in range(few)
        ]
        assert keys(alone).max() < short


def test_a_text_with_fewer_tokens_than_top_k_has_zeros_in_order(
    make_bundle: Callable[[str], Path],
) -> None:
    runtime = Runtime(make_bundle("causal"), provider="cpu", threads=1)
    [found] = runtime.encode_items([range(5, 35)], attention=AttentionSpec(top_k=100))
    assert found.attention_indices is not None
    for query, row in enumerate(found.attention_indices[0, 0]):
        assert set(row[: query + 1]) == set(range(query + 1))
        np.testing.assert_array_equal(row[query + 1 :], np.arange(query + 1, 30))
