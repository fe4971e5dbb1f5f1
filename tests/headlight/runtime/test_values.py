import pickle

import numpy as np
import pytest

from headlight.runtime import EncodeItem, Runtime, Selection


def test_the_role_is_the_cheapest_graph_that_serves() -> None:
    assert Selection(tokens=True).role == "embed"
    assert Selection(hidden=(0,)).role == "attend"
    assert Selection(attention=(0,)).role == "attend"


@pytest.mark.parametrize(
    "selection",
    [Selection(), Selection(False, True), Selection(True, True, (0, 1), (0, 2)), Selection(False, False, (1,))],
)
def test_output_bytes_are_known_before_anything_runs(runtime: Runtime, selection: Selection) -> None:
    ids = np.arange(1, 14, dtype=np.int64)
    [result] = runtime.engine.run([EncodeItem(ids, selection)])
    parts = (result.pooled, result.tokens, result.attention, result.hidden)
    assert selection.output_bytes(13, dim=36, heads=3) == sum(part.nbytes for part in parts if part is not None)


def test_an_item_can_be_sent_to_another_process() -> None:
    item = EncodeItem(np.array([1, 2]), Selection(attention=(1,)))
    again = pickle.loads(pickle.dumps(item))
    assert again.selection == item.selection
    assert again.ids.tolist() == [1, 2]
