from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from headlight import AttentionSpec
from headlight.runtime import Runtime
from headlight.runtime.encode_items import EncodeItem, Selection
from headlight.runtime.providers.worker_layout import Exclusive, choose_exclusive
from headlight.runtime.values import Arrays


def there(array: NDArray[Any] | None) -> NDArray[Any]:
    assert array is not None
    return array


@pytest.mark.parametrize(
    ("wanted", "threads", "provider", "attend", "expected"),
    [
        (None, 1, "cpu", True, "none"),
        (None, 2, "cpu", True, "attend"),
        (None, 2, "cpu", False, "none"),
        (None, 4, "cpu", True, "copy"),
        (None, 1, "openvino", True, "none"),
        (None, 2, "openvino", True, "copy"),
        (True, 2, "cpu", True, "copy"),
        (False, 8, "cpu", True, "none"),
        (False, 2, "cpu", True, "none"),
        (None, 8, "cuda", True, "none"),
        (True, 8, "cuda", True, "none"),
    ],
)
def test_exclusive_batches_are_chosen_by_provider_and_threads(
    wanted: bool | None, threads: int, provider: str, attend: bool, expected: Exclusive
) -> None:
    assert choose_exclusive(wanted, threads, provider, attend=attend) == expected


def test_both_sessions_return_equal_vectors_for_a_single_text(
    bundle_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = Runtime(bundle_path, provider="cpu", threads=1, streams=2)
    assert runtime.workers.lent
    ran: list[int] = []
    session = runtime.engine._sessions["attend"]
    inner = session.run

    def run(names: Sequence[str], feeds: Arrays, buffers: Arrays, *, wide: bool = False) -> Any:
        ran.append(len(feeds["ids"]))
        return inner(names, feeds, buffers, wide=wide)

    monkeypatch.setattr(session, "run", run)
    random = np.random.default_rng(3)
    texts = [
        EncodeItem(random.integers(1, 90, size=n), Selection(tokens=True)) for n in (5, 40, 17)
    ]
    narrow = runtime.engine.run(texts)
    assert not ran
    wide = runtime.engine.run(texts, wide=True)
    assert ran == [3]
    for one, other in zip(narrow, wide, strict=True):
        np.testing.assert_allclose(there(other.pooled), there(one.pooled), atol=1e-6)
        np.testing.assert_allclose(there(other.tokens), there(one.tokens), atol=1e-5)
        assert other.attention is None


def test_attention_does_not_depend_on_the_number_of_threads(bundle_path: Path) -> None:
    narrow, lent = (Runtime(bundle_path, provider="cpu", threads=1, streams=n) for n in (1, 2))
    [[one], [other]] = (
        each.encode_items(["join two paths"], attention=AttentionSpec(layers=(-1,)))
        for each in (narrow, lent)
    )
    np.testing.assert_allclose(there(other.attention), there(one.attention), atol=1e-6)
