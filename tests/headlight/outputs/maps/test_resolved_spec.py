import pickle

import numpy as np
import pytest

from headlight.outputs.hidden import states
from headlight.outputs.maps.resolved_spec import whole
from headlight.runtime import EncodeItem, Runtime, Selection


def test_the_cheapest_sufficient_graph_is_chosen() -> None:
    assert Selection(tokens=True).role == "embed"
    assert Selection(hidden=states((0,))).role == "attend"
    assert Selection(attention=whole((0,), 3)).role == "attend"


@pytest.mark.parametrize(
    "selection",
    [
        Selection(),
        Selection(False, tokens=True),
        Selection(tokens=True, attention=whole((0, 1), 3), hidden=states((0, 2))),
        Selection(False, attention=whole((1,), 3)),
    ],
)
def test_output_bytes_are_known_before_anything_runs(
    runtime: Runtime, selection: Selection
) -> None:
    ids = np.arange(1, 14, dtype=np.int64)
    item = EncodeItem(ids, selection)
    [result] = runtime.engine.run([item])
    for name, size in item.output_bytes(runtime.bundle.manifest.architecture).items():
        assert size == result[name].nbytes


def test_an_item_can_be_pickled() -> None:
    item = EncodeItem(np.array([1, 2]), Selection(attention=whole((1,), 3)))
    again = pickle.loads(pickle.dumps(item))
    assert again.selection == item.selection
    assert again.ids.tolist() == [1, 2]
