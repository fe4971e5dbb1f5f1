from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from headlight import AttentionSpec
from headlight.runtime import Runtime
from headlight.runtime.encode_items import EncodeItem, Selection, everything
from headlight.runtime.providers import worker_layout
from headlight.runtime.providers.worker_layout import choose_workers
from headlight.runtime.values import Arrays, GraphRole


def there(array: NDArray[Any] | None) -> NDArray[Any]:
    assert array is not None
    return array


SMALL, LARGE = 50 << 20, 300 << 20  # weights of MiniLM, of BERT-base


@pytest.mark.parametrize(
    ("wide", "threads", "provider", "attend", "weights", "expected"),
    [
        (None, 2, "cpu", True, SMALL, ("copy", "copy_attend")),
        (None, 2, "cpu", True, LARGE, ("lent",)),
        (None, 2, "cpu", False, SMALL, ("copy",)),
        (None, 2, "cpu", False, LARGE, ()),
        (None, 4, "cpu", True, LARGE, ("copy",)),
        (None, 2, "openvino", True, LARGE, ("copy",)),
        (True, 2, "cpu", True, LARGE, ("copy", "copy_attend")),
        (None, 1, "cpu", True, SMALL, ()),
        (None, 1, "openvino", True, SMALL, ()),
        (False, 2, "cpu", True, SMALL, ()),
        (False, 8, "cpu", True, SMALL, ()),
        (None, 8, "cuda", True, SMALL, ()),
        (True, 8, "cuda", True, SMALL, ()),
    ],
)
def test_sessions_on_all_threads_are_chosen_by_provider_threads_and_size(
    wide: bool | None,
    threads: int,
    provider: str,
    attend: bool,
    weights: int,
    expected: tuple[str, ...],
) -> None:
    found = choose_workers(threads, 1, wide=wide, provider=provider, attend=attend, weights=weights)
    chosen = [name for name in ("copy", "copy_attend", "lent") if getattr(found, name)]
    assert chosen == [*expected]


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat every model as too large for a second copy."""
    monkeypatch.setattr(worker_layout, "SMALL_COPY", 0)


@pytest.mark.usefixtures("large")
def test_both_sessions_return_equal_vectors_for_a_single_text(
    bundle_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = Runtime(bundle_path, provider="cpu", threads=1, streams=2)
    assert runtime.workers.lent
    assert not runtime.engine.has_other_session("attend")
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


class Counted:
    """A session of ONNX Runtime that knows how many runs there were at once."""

    def __init__(self, inner: Any) -> None:
        self._inner, self._lock = inner, threading.Lock()
        self._running = self.most = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def run(self, *arguments: Any) -> Any:
        return self._counted(self._inner.run, arguments)

    def run_with_iobinding(self, *arguments: Any) -> Any:
        return self._counted(self._inner.run_with_iobinding, arguments)

    def _counted(self, run: Callable[..., Any], arguments: Any) -> Any:
        with self._lock:
            self._running += 1
            self.most = max(self.most, self._running)
        try:
            return run(*arguments)
        finally:
            with self._lock:
                self._running -= 1


@pytest.mark.parametrize("role", ["embed", "attend"])
def test_batches_on_all_threads_take_turns(role: GraphRole, bundle_path: Path) -> None:
    runtime = Runtime(bundle_path, provider="cpu", threads=1, streams=2)
    assert runtime.engine.wide_roles == {"embed", "attend"}
    assert runtime.engine.has_other_session(role)  # the self-test runs it
    session: Any = runtime.engine._sessions[role]
    counted = Counted(session._wide)
    session._wide = counted
    selection = Selection() if role == "embed" else everything(runtime.engine.architecture)
    item = EncodeItem(np.arange(1, 9), selection)
    with ThreadPoolExecutor(8) as callers:
        found = list(callers.map(lambda _: runtime.engine.run([item], wide=True), range(64)))
    assert counted.most == 1
    assert all(np.array_equal(there(one.pooled), there(found[0][0].pooled)) for [one] in found)


def test_interactive_batches_do_not_wait_for_bulk_where_one_session_has_both(
    bundle_path: Path,
) -> None:
    runtime = Runtime(bundle_path, provider="cpu", threads=2, streams=1)
    session: Any = runtime.engine._sessions["embed"]
    inner, both = session._session, threading.Barrier(2)

    class Meeting:
        def run(self, *arguments: Any) -> Any:
            both.wait(30)
            return inner.run(*arguments)

    session._session = Meeting()
    item = EncodeItem(np.arange(1, 9), Selection())
    with ThreadPoolExecutor(2) as callers:
        assert len(list(callers.map(lambda _: runtime.engine.run([item]), range(2)))) == 2
