"""Failed allocations in the engine.

Distinguished from other failures, and harmless to the next batch.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headlight import AttentionSpec
from headlight.errors import DeviceFull, EngineError, HostFull
from headlight.runtime import EncodeItem, Runtime, Selection
from headlight.runtime.encode_items import everything
from headlight.runtime.engine import engine as engines
from headlight.runtime.providers import openvino_session
from headlight.runtime.providers.openvino_session import REPEATS, OpenVinoSession

PLACE = "Exception from src/plugins/intel_cpu/src/"
SHORT = [
    MemoryError("std::bad_alloc"),
    RuntimeError(
        "[ONNXRuntimeError] : 1 : FAIL : Failed to allocate memory for requested buffer of "
        "size 100663296"
    ),
    RuntimeError(f"{PLACE}node.cpp:823: [CPU] MVN node with name 'MVN_70' can't alloc"),
    RuntimeError(f"{PLACE}cpu_memory.cpp:257: Failed to allocate 100663296 bytes of memory"),
    RuntimeError(
        f"{PLACE}graph.cpp:1628: Check 'ker' failed at src/plugins/intel_cpu/src/emitters/x.hpp:1"
    ),
]


def items(runtime: Runtime, *lengths: int) -> list[EncodeItem]:
    wanted = everything(runtime.bundle.manifest.architecture)
    return [EncodeItem(5 + np.arange(length) % 20, wanted) for length in lengths]


@pytest.fixture(scope="module", params=["cpu", "openvino"])
def own(request: pytest.FixtureRequest, bundle_path: Path) -> Runtime:
    return Runtime(bundle_path, provider=request.param, threads=1)


@pytest.mark.parametrize("error", SHORT, ids=str)
def test_a_failed_allocation_is_reported_and_the_next_batch_is_right(
    error: Exception, own: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    [expected] = own.engine.run(items(own, 5))

    def fail(*_: Any, **__: Any) -> Any:
        raise error

    session = own.engine._sessions["attend"]
    with monkeypatch.context() as patch:
        patch.setattr(session, "run", fail)
        with pytest.raises(
            HostFull, match="there is not enough memory for this request; ask for less at once"
        ) as told:
            own.engine.run(items(own, 5, 9))
        assert told.value.retry_after_seconds is None
        assert isinstance(told.value, DeviceFull), "its batch is divided as that of a GPU"
    [again] = own.engine.run(items(own, 5))
    np.testing.assert_array_equal(again.attention, expected.attention)


def test_other_errors_stay_engine_failures(own: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise RuntimeError("CUDA failure 700: an illegal memory access")

    monkeypatch.setattr(own.engine._sessions["attend"], "run", fail)
    with pytest.raises(EngineError, match="the engine failed; see error id"):
        own.engine.run(items(own, 5))


def test_a_failed_numpy_allocation_is_reported(
    own: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("pad", "output_names", "ItemResult"):
        with monkeypatch.context() as patch:
            patch.setattr(engines, name, lambda *_, **__: np.empty(1 << 50, dtype=np.uint8))
            with pytest.raises(HostFull):
                own.engine.run(items(own, 5))
    with pytest.raises(HostFull):
        own.engine.run([EncodeItem(np.arange(5), Selection()), *_endless()])
    assert len(own.encode_items(["ab"], attention=AttentionSpec())) == 1


def _endless() -> list[Any]:
    """Return an item that needs more memory than any machine can address,
    as soon as it is used.
    """

    class Endless:
        role = "embed"
        selection = Selection()

        @property
        def ids(self) -> Any:
            return np.empty(1 << 50, dtype=np.int64)

    return [Endless()]


def test_a_failed_openvino_batch_returns_no_outputs_of_the_previous_batch(
    bundle_path: Path,
) -> None:
    session = Runtime(bundle_path, provider="openvino", threads=1, streams=1).engine._sessions[
        "embed"
    ]
    assert isinstance(session, OpenVinoSession)

    def run(length: int, masked: int) -> Any:
        feeds = {"ids": np.full((1, length), 9, np.int64), "mask": np.ones((1, masked), np.int64)}
        with session.run(["pooled"], feeds, {}) as outputs:
            return outputs["pooled"].copy()

    expected = run(5, 5)
    with pytest.raises(RuntimeError):
        run(7, 3)
    np.testing.assert_array_equal(run(5, 5), expected)


def test_openvino_recompiles_after_a_failure_once_memory_is_free(
    bundle_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    runtime = Runtime(bundle_path, provider="openvino", threads=1, streams=1)
    [expected] = runtime.engine.run(items(runtime, 5))
    session = runtime.engine._sessions["attend"]
    assert isinstance(session, OpenVinoSession)
    graph = session._narrow
    before = graph.present
    with (
        pytest.raises(RuntimeError),
        graph.run({"ids": np.full((1, 7), 9), "mask": np.ones((1, 3), np.int64)}),
    ):
        pass

    def cannot(*_: Any) -> Any:
        raise RuntimeError("Exception from src/inference/src/dev/plugin.cpp:54: std::bad_alloc")

    with monkeypatch.context() as patch:
        patch.setattr(openvino_session, "_compile", cannot)
        for _ in range(2):
            with pytest.raises(HostFull):
                runtime.engine.run(items(runtime, 5))
    caplog.clear()
    for _ in range(2):
        [again] = runtime.engine.run(items(runtime, 5))
        np.testing.assert_array_equal(again.attention, expected.attention)
    assert graph.present is not before
    assert [record.msg for record in caplog.records] == [
        "compiling a graph anew, as a batch failed"
    ]


def test_batches_concurrent_with_a_failure_are_recomputed(bundle_path: Path) -> None:
    runtime = Runtime(bundle_path, provider="openvino", threads=1, streams=1)
    session = runtime.engine._sessions["embed"]
    assert isinstance(session, OpenVinoSession)
    graph = session._narrow
    before, feeds = graph.present, {"ids": np.full((1, 5), 9), "mask": np.ones((1, 5), np.int64)}

    class Beside:
        """Batch that fails while this one runs."""

        def __init__(self, request: Any) -> None:
            self._request = request

        def wait(self) -> None:
            self._request.wait()
            before.failed = True

        def __getattr__(self, name: str) -> Any:
            return getattr(self._request, name)

    before.free.put(Beside(before.free.get()))
    with graph.run(feeds) as request:
        assert not isinstance(request, Beside)
    assert graph.present is not before


def test_a_batch_with_repeated_concurrent_failures_is_given_up(
    bundle_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = Runtime(bundle_path, provider="openvino", threads=1, streams=1)
    session = runtime.engine._sessions["embed"]
    assert isinstance(session, OpenVinoSession)
    graph, compiled = session._narrow, list[object]()

    def compile_graph(*_: Any) -> Any:
        made = FailingBeside(graph)
        compiled.append(made)
        return made

    monkeypatch.setattr(openvino_session, "_compile", compile_graph)
    graph.present.failed = True
    with pytest.raises(HostFull):
        runtime.engine.run([EncodeItem(np.array([9]), Selection())])
    assert len(compiled) == 1 + REPEATS


class FailingBeside:
    """Compiled graph: whatever runs on it, a concurrent batch fails."""

    def __init__(self, graph: Any) -> None:
        self._graph = graph

    def create_infer_request(self) -> Any:
        return self

    def start_async(self, feeds: Any, *, share_inputs: bool) -> None:
        pass

    def wait(self) -> None:
        self._graph.present.failed = True
