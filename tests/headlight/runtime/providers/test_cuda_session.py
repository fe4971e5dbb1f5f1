"""The CUDA provider with the CPU in place of the GPU: session options and error handling.

The messages of ONNX Runtime about CUDA were taken from its sources and from reports of others; none
was seen on a GPU of this project.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnxruntime.capi.onnxruntime_pybind11_state import (
    EPFail,
    Fail,
    InvalidArgument,
    RuntimeException,
)

from headlight import AttentionSpec
from headlight.errors import BundleError, DeviceFull, DeviceLost, EngineError, HostFull
from headlight.runtime import EncodeItem, Runtime, Selection
from headlight.runtime.providers import cuda_session
from headlight.runtime.providers.cuda_session import Gpu
from headlight.runtime.providers.device_faults import fault
from headlight.runtime.providers.onnx_session import run_into
from headlight.runtime.values import Arrays
from tests.headlight.runtime.on_cpu import CPU, CUDA, OnCpu, items

NODE = (
    "[ONNXRuntimeError] : 6 : RUNTIME_EXCEPTION : Non-zero status code returned while running "
    "MatMul node. Status Message: "
)
ARENA = (
    "bfc_arena.cc:376 void* onnxruntime::BFCArena::AllocateRawInternal(size_t, bool, "
    "onnxruntime::Stream*) "
)
WHERE = (
    " ; GPU=0 ; hostname=h ; file=gpu_data_transfer.cc ; line=63 ; expr=cudaMemcpyAsync(dst_data, "
    "src_data, bytes); "
)
FULL = [
    RuntimeException(
        NODE + ARENA + "Failed to allocate memory for requested buffer of size 939524096"
    ),
    Fail(NODE + "Available memory of 1024 is smaller than requested bytes of 4096"),
    Fail("[ONNXRuntimeError] : 1 : FAIL : CUDA failure 2: out of memory" + WHERE),
    Fail("CUBLAS failure 3: CUBLAS_STATUS_ALLOC_FAILED" + WHERE),
    Fail("CUDA error cudaErrorMemoryAllocation:out of memory"),
]
HOST = [
    MemoryError("std::bad_alloc"),
    RuntimeException(NODE + "std::bad_alloc"),
    RuntimeError("Cannot allocate memory"),
    RuntimeError("thread: Resource temporarily unavailable"),
]
LOST = [
    Fail(
        "[ONNXRuntimeError] : 1 : FAIL : CUDA failure 700: an illegal memory access was encountered"
        + WHERE
    ),
    RuntimeException(NODE + "CUDA failure 719: unspecified launch failure" + WHERE),
    RuntimeException(NODE + "CUDA failure 710: device-side assert triggered" + WHERE),
    RuntimeException(
        NODE + "CUDA failure 700: an illegal memory access was encountered: std::bad_alloc"
    ),
    Fail("CUBLAS failure 13: CUBLAS_STATUS_EXECUTION_FAILED" + WHERE),
    Fail("CUDA error executing cudaMemcpy(dst_data, src_data, bytes, cudaMemcpyDeviceToHost)"),
    EPFail("[ONNXRuntimeError] : 11 : EP_FAIL : the provider failed"),
    EPFail("CUDA error cudaErrorInvalidConfiguration:invalid configuration argument"),
    Fail(
        "CUBLAS failure 15: CUBLAS_STATUS_NOT_SUPPORTED"
        + WHERE
        + "CUDA failure 700: an illegal memory access was encountered"
    ),
    Fail("CUDA failure 98765: of a number that begins as another does" + WHERE),
]
THROWN = (
    "std::conditional_t<THRW, void, Status> onnxruntime::CudaCall(ERRTYPE, "
    "...) [with ERRTYPE = cudaError; bool THRW = true] "
)
REFUSED = [  # before anything ran: the next batch may succeed
    RuntimeException(NODE + THROWN + "CUDA failure 9: invalid configuration argument" + WHERE),
    Fail(NODE + "CUDA error cudaErrorInvalidConfiguration:invalid configuration argument"),
    Fail(NODE + "CUDA failure 9: invalid configuration argument" + WHERE),
    Fail("CUBLAS failure 15: CUBLAS_STATUS_NOT_SUPPORTED" + WHERE),
    Fail("CUBLAS failure 7: CUBLAS_STATUS_INVALID_VALUE" + WHERE),
    Fail("CUDNN failure 3000: CUDNN_STATUS_NOT_SUPPORTED" + WHERE),
    Fail("CUDNN failure 3007: CUDNN_STATUS_NOT_SUPPORTED_SHAPE" + WHERE),
]
OTHER = [
    InvalidArgument(
        "[ONNXRuntimeError] : 2 : INVALID_ARGUMENT : Got invalid dimensions for input: ids"
    ),
    RuntimeException(NODE + "left operand cannot broadcast on dim 1"),
]


Break = Callable[[Exception | None], None]


@pytest.fixture
def break_(monkeypatch: pytest.MonkeyPatch) -> Break:
    """Make every batch from here on fail with an exception, or none."""
    inner = run_into

    def broken(error: Exception | None) -> None:
        def run(*arguments: Any) -> Arrays:
            if error is not None:
                raise error
            return inner(*arguments)

        monkeypatch.setattr(cuda_session, "run_into", run)

    return broken


def test_results_equal_those_of_the_cpu_provider(
    device: type[OnCpu], bundle_path: Path, runtime: Runtime
) -> None:
    ours = Runtime(bundle_path, provider="cuda", streams=None)
    ours.check_golden()
    assert (ours.workers.streams, ours.engine.wide_roles) == (1, frozenset())
    texts = ["join two paths", "a", "read lines of a file and close it"]
    for spec in (AttentionSpec(), AttentionSpec(top_k=2, reduce=("head_mean",))):
        for selected in (texts, texts[:1]):  # maps of a single text are written into their buffer
            expected, got = (
                each.encode_items(selected, attention=spec, tokens=True) for each in (runtime, ours)
            )
            for a, b in zip(expected, got, strict=True):
                for name in ("attention", "tokens", "pooled"):
                    np.testing.assert_allclose(getattr(b, name), getattr(a, name), atol=1e-5)


def test_sessions_are_created_with_the_cuda_options(device: type[OnCpu], bundle_path: Path) -> None:
    runtime = Runtime(bundle_path, provider="cuda", gpu=Gpu(1, 1 << 30))
    assert len(device.asked) == 2
    for asked in device.asked:
        [(name, options), cpu] = asked["providers"]
        assert (name, cpu) == (CUDA, CPU)
        assert options == {
            "device_id": 1,
            "gpu_mem_limit": 1 << 30,
            "arena_extend_strategy": "kSameAsRequested",
            "use_tf32": 0,
        }
        assert asked["enable_fallback"] == 0, (
            "it would go over to the CPU, and say so on standard output"
        )
    runtime.engine.shrink()
    assert device.shrunk == ["gpu:1"] * 2, "each graph has an arena of its own"


def test_short_batches_of_vectors_are_recorded_by_shape(
    device: type[OnCpu], bundle_path: Path, runtime: Runtime
) -> None:
    ours = Runtime(bundle_path, provider="cuda", gpu=Gpu(record=True), self_test=False)
    recorded = [options["providers"][0][1].get("enable_cuda_graph") for options in device.asked]
    assert recorded == [1, None], "the graph of attention has outputs of many shapes"
    answers = []
    for lengths in ((5,), (7, 3, 9), (4, 8, 2), (17, 2), (1,) * 9):
        batch = [each._replace(selection=Selection()) for each in items(*lengths)]
        answers.append((batch, ours.engine.run(batch)))
    ours.engine.run(items(5))  # also asks for the vectors of tokens
    # One text of 16 tokens; four, twice; two of 32. Nine are too many.
    assert device.graphs == ["1", "2", "2", "3", "-1", "-1"]
    for batch, got in answers:  # after later ones
        for one, other in zip(runtime.engine.run(batch), got, strict=True):
            np.testing.assert_allclose(other["pooled"], one["pooled"], atol=1e-6)
    ours.engine.shrink()
    assert device.shrunk == ["gpu:0"], "recordings hold addresses"


def test_recordings_are_bounded(
    device: type[OnCpu], bundle_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda_session, "MOST_RECORDED", 2)
    gpu = Gpu(record=True)
    ours = Runtime(bundle_path, provider="cuda", gpu=gpu, self_test=False, round_lengths=1)
    for length in (3, 4, 5, 3):
        [item] = items(length)
        ours.engine.run([item._replace(selection=Selection())])
    assert device.graphs == ["1", "2", "-1", "1"]


def test_a_session_that_fell_back_to_the_cpu_is_refused(
    device: type[OnCpu], bundle_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device, "providers", [CPU])
    with pytest.raises(
        BundleError, match=r"cannot use the GPU: .*\[cuda,cudnn\].*Failed to load libcublasLt.so.13"
    ):
        Runtime(bundle_path, provider="cuda")


def test_a_session_that_would_compute_on_the_cpu_is_refused(
    device: type[OnCpu], bundle_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(OnCpu, "get_provider_graph_assignment_info")
    with pytest.raises(
        BundleError, match="no kernel for Gelu, LayerNormalization, MatMul, MultiHeadAttention on"
    ):
        Runtime(bundle_path, provider="cuda")


def test_loading_writes_nothing_to_standard_output(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [
        "Failed to load libcublas.so.13: not here",
        "Failed to load libcurand.so.10: nor this",
        "Please follow",
    ]
    monkeypatch.setattr(onnxruntime, "preload_dlls", lambda: print("\n".join(lines)))
    severities: list[int] = []
    monkeypatch.setattr(onnxruntime, "set_default_logger_severity", severities.append)
    assert cuda_session.load_libraries.__wrapped__() == f"; {lines[0]}"
    assert capsys.readouterr().out == ""
    assert severities == [4]
    monkeypatch.setattr(onnxruntime, "preload_dlls", lambda: None)
    assert cuda_session.load_libraries.__wrapped__() == ""


@pytest.mark.parametrize(
    ("errors", "expected"),
    [(FULL, "full"), (HOST, "host"), (LOST, "lost"), (REFUSED, "refused"), (OTHER, None)],
)
def test_error_messages_of_cuda_are_classified(
    errors: list[Exception], expected: str | None
) -> None:
    assert [fault(error) for error in errors] == [expected] * len(errors)


def test_full_device_memory_is_reported_and_the_engine_continues(
    device: type[OnCpu], bundle_path: Path, break_: Break
) -> None:
    engine = Runtime(bundle_path, provider="cuda").engine
    [expected] = engine.run(items(5))
    break_(FULL[0])
    with pytest.raises(DeviceFull, match="the memory of the GPU is full") as caught:
        engine.run(items(5, 9))
    assert "onnxruntime" not in str(caught.value)
    break_(None)
    np.testing.assert_array_equal(engine.run(items(5))[0].pooled, expected.pooled)


def test_a_lack_of_host_memory_is_not_a_lack_of_device_memory(
    device: type[OnCpu], bundle_path: Path, break_: Break
) -> None:
    engine = Runtime(bundle_path, provider="cuda").engine
    break_(HOST[0])
    with pytest.raises(HostFull, match="there is not enough memory"):
        engine.run(items(5, 9))
    break_(None)
    engine.run(items(5))


def test_a_lost_device_returns_no_more_results(
    device: type[OnCpu], bundle_path: Path, break_: Break
) -> None:
    runtime = Runtime(bundle_path, provider="cuda")
    break_(LOST[0])
    with pytest.raises(
        DeviceLost, match=r"^the GPU failed; see error id [0-9a-f]{12} in the server's log$"
    ):
        runtime.engine.run(items(5))
    break_(None)
    with pytest.raises(DeviceLost):
        runtime.encode_items(["a"], attention=AttentionSpec())  # nor does its other graph
    with pytest.raises(BundleError):
        runtime.check_golden()


def test_an_error_that_the_probe_repeats_loses_the_device(
    device: type[OnCpu], bundle_path: Path, break_: Break
) -> None:
    runtime = Runtime(bundle_path, provider="cuda")
    runtime.check_golden()
    break_(REFUSED[0])
    with pytest.raises(DeviceLost, match="the GPU failed; see error id"):
        runtime.engine.run(items(5))
    break_(None)
    with pytest.raises(DeviceLost):
        runtime.engine.run(items(5))


def test_an_error_of_one_batch_does_not_lose_the_device(
    device: type[OnCpu], bundle_path: Path, break_: Break
) -> None:
    engine = Runtime(bundle_path, provider="cuda").engine
    break_(OTHER[0])
    with pytest.raises(EngineError) as caught:
        engine.run(items(5))
    assert not isinstance(caught.value, DeviceLost)
    break_(None)
    engine.run(items(5))


@pytest.mark.parametrize("name", ["pooled", "tokens"])
def test_non_finite_results_for_all_inputs_lose_the_device(
    name: str, device: type[OnCpu], bundle_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = Runtime(bundle_path, provider="cuda")
    runtime.check_golden()
    engine, inner = runtime.engine, run_into

    def spoiled(*arguments: Any) -> Arrays:
        found = inner(*arguments)
        found[name] = found[name].copy()
        found[name][-1, 0] = np.inf
        return found

    monkeypatch.setattr(cuda_session, "run_into", spoiled)
    with pytest.raises(DeviceLost, match="a result is not finite"):
        engine.run(items(5))
    monkeypatch.setattr(cuda_session, "run_into", inner)
    with pytest.raises(DeviceLost):
        engine.run(items(5))


def test_results_computed_while_the_device_is_found_lost_are_discarded(
    device: type[OnCpu], bundle_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Runtime(bundle_path, provider="cuda").engine
    inner = run_into

    def during(*arguments: Any) -> Arrays:
        found = inner(*arguments)
        engine.faults.of(LOST[0])
        return found

    monkeypatch.setattr(cuda_session, "run_into", during)
    with pytest.raises(DeviceLost):
        engine.run(items(5))


@pytest.mark.parametrize(
    ("ids", "segment"),
    [([1, 10**6], 0), ([-1], 0), ([1] * 200, 0), ([1], 2)],
    ids=lambda each: str(each)[:9],
)
def test_ids_beyond_the_tables_never_reach_the_gpu(
    ids: list[int],
    segment: int,
    device: type[OnCpu],
    learned: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Callers' ids are checked long before.

    This protects against direct use of the engine, and against bugs.
    """
    engine = Runtime(learned, provider="cuda").engine
    monkeypatch.setattr(
        cuda_session, "run_into", lambda *_: pytest.fail("it has reached the device")
    )
    item = EncodeItem(np.array(ids), Selection(), np.full(len(ids), segment))
    with pytest.raises(EngineError, match="outside of what the model knows") as caught:
        engine.run([*items(2), item])
    assert not isinstance(caught.value, DeviceLost)
