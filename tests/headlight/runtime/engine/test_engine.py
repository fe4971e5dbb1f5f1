from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headlight.errors import EngineError
from headlight.outputs.hidden import states
from headlight.outputs.maps.resolved_spec import whole
from headlight.outputs.registry import OUTPUTS
from headlight.outputs.vector_forms import VectorForm
from headlight.runtime import EncodeItem, Runtime, Selection
from headlight.runtime.encode_items import ItemResult, everything
from headlight.runtime.engine.engine import output_names
from headlight.runtime.values import Architecture, Ids

ARCHITECTURE = Architecture(
    positions="rope", layers=2, heads=3, dim=36, pooled_dim=36, vocab_size=90
)
ALL = everything(ARCHITECTURE)


def ids_of(length: int, seed: int = 0) -> Ids:
    return np.random.default_rng([seed, length]).integers(1, 90, size=length, dtype=np.int64)


def test_a_batch_fetches_the_union_of_requested_outputs() -> None:
    items = [
        EncodeItem(ids_of(2), Selection(pooled=False, attention=whole((1,), 3))),
        EncodeItem(ids_of(2), Selection(tokens=True, hidden=states((2, 0)))),
    ]
    works = [each.begin(items, ARCHITECTURE, 2, True, False) for each in OUTPUTS.values()]
    names = ["pooled", "tokens", "attention_1", "hidden_0", "hidden_2"]
    assert output_names(works) == names


def test_each_item_gets_exactly_its_requested_outputs_in_order(runtime: Runtime) -> None:
    first, second = runtime.engine.run(
        [
            EncodeItem(ids_of(5), Selection(pooled=False, attention=whole((1, 0), 3))),
            EncodeItem(ids_of(9), Selection(tokens=True, hidden=states((2,)))),
        ]
    )
    assert first.pooled is None
    assert first.tokens is None
    assert first.hidden is None
    assert second.attention is None
    assert first.attention is not None
    assert second.tokens is not None
    assert second.hidden is not None
    assert first.attention.shape == (2, 3, 5, 5)
    assert second.tokens.shape == (9, 36)
    assert second.hidden.shape == (1, 9, 36)
    [alone] = runtime.engine.run([EncodeItem(ids_of(5), Selection(attention=whole((0,), 3)))])
    assert alone.attention is not None
    np.testing.assert_allclose(first.attention[1], alone.attention[0], atol=1e-6)


@settings(max_examples=25)
@given(st.lists(st.integers(1, 48), min_size=1, max_size=12), st.integers(0, 11))
def test_results_do_not_depend_on_batch_or_attention(
    runtime: Runtime, lengths: list[int], which: int
) -> None:
    which %= len(lengths)
    inputs = [ids_of(length, seed) for seed, length in enumerate(lengths)]
    [alone] = runtime.engine.run([EncodeItem(inputs[which], Selection(tokens=True))])
    assert alone.pooled is not None
    assert alone.tokens is not None
    for selection in (Selection(tokens=True), ALL):
        result = runtime.engine.run([EncodeItem(ids, selection) for ids in inputs])[which]
        assert result.pooled is not None
        assert result.tokens is not None
        np.testing.assert_allclose(result.pooled, alone.pooled, atol=1e-6, rtol=0)
        np.testing.assert_allclose(result.tokens, alone.tokens, atol=5e-6, rtol=0)
        if result.attention is not None:
            np.testing.assert_allclose(result.attention.sum(-1), 1.0, atol=1e-5)


def test_results_do_not_hold_the_batch_in_memory(runtime: Runtime) -> None:
    results = runtime.engine.run([EncodeItem(ids_of(3), ALL), EncodeItem(ids_of(40), ALL)])
    for array in (results[0].pooled, results[0].tokens, results[0].attention, results[0].hidden):
        assert array is not None
        assert array.base is None
        assert array.flags.c_contiguous


@pytest.mark.parametrize("vector", [VectorForm(7, False), VectorForm(7, True), VectorForm()])
def test_vectors_are_equal_with_and_without_token_vectors(
    runtime: Runtime, vector: VectorForm
) -> None:
    wanted = Selection(vector)
    texts = [ids_of(3), ids_of(40), ids_of(9)]
    results = runtime.engine.run([EncodeItem(ids, wanted) for ids in texts])
    others = runtime.engine.run([EncodeItem(ids, Selection(vector, tokens=True)) for ids in texts])
    for result, other in zip(results, others, strict=True):
        assert result.tokens is None
        assert result.pooled is not None
        assert other.pooled is not None
        np.testing.assert_array_equal(result.pooled, other.pooled)
        assert result.pooled.base is None, "who holds one holds nothing of others"


def test_an_item_without_outputs_gets_none(runtime: Runtime) -> None:
    nothing = Selection(pooled=False)
    assert runtime.engine.run([EncodeItem(ids_of(3), nothing)] * 2) == [ItemResult(), ItemResult()]


def test_a_failure_reports_an_error_id_and_not_its_cause(
    runtime: Runtime, caplog: pytest.LogCaptureFixture
) -> None:
    beyond = np.full(161, 1, dtype=np.int64)  # more positions than the graph's tables have
    # An id that the vocabulary has not; the CPU checks it, and its words must not reach a caller.
    beyond[0] = 10**6
    with pytest.raises(
        EngineError, match=r"^the engine failed; see error id [0-9a-f]{12} in the server's log$"
    ) as caught:
        runtime.engine.run([EncodeItem(beyond, Selection())])
    assert caught.value.message.split()[6] in {record.error_id for record in caplog.records}  # type: ignore[attr-defined]
    runtime.engine.run([EncodeItem(ids_of(3), Selection())])  # and the engine continues


def test_only_the_graphs_asked_for_are_loaded(bundle_path: Path) -> None:
    small = Runtime(bundle_path, threads=1, attend=False)
    assert small.graph_roles == {"embed"}
    small.check_golden()
