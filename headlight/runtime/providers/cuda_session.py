"""Session of ONNX Runtime's provider for CUDA, not yet run on a GPU.

It was written from the provider's documentation. The driver reports the devices; a library would
take seconds to load.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import functools
import io
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from headlight.errors import BundleError
from headlight.extras import remedy
from headlight.runtime.bundle.file_contents import OnnxGraph
from headlight.runtime.providers.onnx_session import (
    OrtSession,
    give_weights,
    run_into,
    session_options,
)
from headlight.runtime.providers.onnx_session import library as onnxruntime
from headlight.runtime.providers.worker_layout import Workers
from headlight.runtime.values import Arrays

CUDA, CPU = "CUDAExecutionProvider", "CPUExecutionProvider"
PRECISIONS = ("fp32", "fp16", "bf16")
FATAL = 4  # severity of ONNX Runtime's log: less severe errors are also raised as exceptions

# Operators that take most of the time. Others are of shapes, which ONNX Runtime keeps on the CPU.
COMPUTING = {"MatMul", "Gemm", "MultiHeadAttention", "LayerNormalization", "Softmax", "Gelu"}

DRIVER = "libcuda.so.1"  # comes with NVIDIA's driver, from the machine and not from a package
MEMORY = "cuda"  # ONNX Runtime's name for the device's
# Batches that are recorded: the vectors of few, short texts, whose operations take longer to hand
# over than to compute. Missing rows are texts without tokens.
RECORDED_ROWS, RECORDED_TOKENS, MOST_RECORDED = (1, 2, 4, 8), 128, 32
POOLED = "pooled"
# Results of cuInit without a device: from a stub of the driver, and from the driver.
NONE = frozenset((34, 100))
GIVE = "in a container, give it one (docker: --gpus all; Kubernetes: nvidia.com/gpu: 1)"


@dataclasses.dataclass(frozen=True, slots=True)
class Gpu:
    """A device to compute on.

    Attributes:
        device: index among those that the process sees (CUDA_VISIBLE_DEVICES), from 0.
        memory_bytes: limit of each graph's memory arena; None: all of the device's memory.
        record: whether to record short batches of vectors as CUDA graphs, and replay them.
    """

    device: int = 0
    memory_bytes: int | None = None
    record: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Devices:
    """The number of CUDA devices that the process sees, and the reason if none."""

    count: int
    why: str = ""


def devices() -> Devices:
    """Query the driver.

    Raises:
        BundleError: a driver exists and does not work, so the number of devices is unknown.
    """
    try:
        driver = ctypes.CDLL(DRIVER)
    except OSError:
        return Devices(0, f"there is no NVIDIA driver here ({DRIVER}); install it, or, {GIVE}")
    code = driver.cuInit(0)
    if code in NONE:
        return Devices(
            0, f"the NVIDIA driver finds no GPU; look at CUDA_VISIBLE_DEVICES, or, {GIVE}"
        )
    count = ctypes.c_int()
    code = code or driver.cuDeviceGetCount(ctypes.byref(count))
    if code:
        raise BundleError(
            f"the NVIDIA driver fails with CUDA error {code}; run `nvidia-smi` for details"
        )
    return Devices(count.value, "" if count.value else f"the NVIDIA driver finds no GPU; {GIVE}")


def cuda_installed() -> bool:
    """Return whether the installed ONNX Runtime is the one for CUDA."""
    return CUDA in onnxruntime.get_available_providers()


def device_exists() -> bool:
    """Return whether ONNX Runtime can use CUDA and there is a device.

    Raises:
        BundleError: the driver fails.
    """
    return cuda_installed() and devices().count > 0


def check_cuda(precision: str, gpu: Gpu) -> None:
    """Check that CUDA can compute here, in this precision.

    Raises:
        BundleError: it cannot; the message has the remedy.
    """
    if not cuda_installed():
        raise BundleError(
            "provider cuda needs onnxruntime-gpu instead of onnxruntime (both install the same "
            f"files): `pip uninstall onnxruntime`, then {remedy('gpu')}"
        )
    if precision not in PRECISIONS:
        raise BundleError(
            f"provider cuda computes in {', '.join(PRECISIONS)}, not in {precision}; "
            "--provider cpu may"
        )
    gpus = devices()
    if not gpus.count:
        raise BundleError(f"provider cuda needs a GPU: {gpus.why}")
    if gpu.device >= gpus.count:
        have = "there is 1" if gpus.count == 1 else f"there are {gpus.count}"
        raise BundleError(f"--gpu-device is {gpu.device}; {have}, counted from 0")


class CudaSession(OrtSession):
    """A session on a GPU."""

    def __init__(self, graph: OnnxGraph, workers: Workers, gpu: Gpu) -> None:
        """Open a graph.

        Raises:
            BundleError: CUDA's libraries are not here, or do not fit the device; or it lacks a
                kernel.
        """
        said = load_libraries()
        options = session_options(workers.threads)
        options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
        give_weights(options, graph)
        # Nodes without a CUDA kernel run on the CPU. Without `enable_fallback=0` the whole graph
        # would run there if CUDA fails, now or later, with messages on standard output.
        session = onnxruntime.InferenceSession(
            graph.data,
            options,
            providers=[(CUDA, provider_options(gpu)), CPU],
            enable_fallback=0,
        )
        if list(session.get_providers())[:1] != [CUDA]:  # a failure of the first is only logged
            raise BundleError(
                "ONNX Runtime cannot use the GPU: it needs the libraries of CUDA and cuDNN that "
                "it was built for (`pip install 'onnxruntime-gpu[cuda,cudnn]'`) and a driver "
                f"for them{said}"
            )
        if on_cpu := sorted(COMPUTING & operators_on_cpu(session)):
            raise BundleError(
                f"this ONNX Runtime has no kernel for {', '.join(on_cpu)} on the GPU in this "
                "precision, and would compute on the CPU; try another --precision, or another "
                "release of onnxruntime-gpu"
            )
        super().__init__(session, f"gpu:{gpu.device}")
        self._gpu = gpu
        # A session that records runs one batch at a time.
        self._turn = threading.Lock() if gpu.record else contextlib.nullcontext()
        self._recordings = dict[tuple[int, ...], _Recording]()

    def run(
        self, names: Sequence[str], feeds: Arrays, buffers: Arrays, *, wide: bool = False
    ) -> contextlib.nullcontext[Arrays]:
        # Outputs are bound to host memory for the caller: each is copied once, and the copy is
        # complete before this returns.
        if not self._gpu.record:
            return contextlib.nullcontext(run_into(self._session, names, feeds, buffers))
        with self._turn:
            recording = self._recording(names, feeds)
            if recording is not None:
                return contextlib.nullcontext({POOLED: recording.run(self._session, feeds)})
            options = graph_number(-1)
            return contextlib.nullcontext(run_into(self._session, names, feeds, buffers, options))

    def shrink(self, feeds: Arrays) -> None:
        if not self._gpu.record:  # recordings hold addresses of the memory
            super().shrink(feeds)

    def _recording(self, names: Sequence[str], feeds: Arrays) -> _Recording | None:
        """Return the recording for a batch, made if there is none; None: it is run as it is."""
        count, length = feeds["ids"].shape
        if list(names) != [POOLED] or count > RECORDED_ROWS[-1] or length > RECORDED_TOKENS:
            return None
        shape = next(rows for rows in RECORDED_ROWS if rows >= count), length
        if shape not in self._recordings:
            if len(self._recordings) == MOST_RECORDED:
                return None
            width = self.outputs[POOLED][1]
            assert isinstance(width, int)
            number = len(self._recordings) + 1
            self._recordings[shape] = _Recording(
                self._session, feeds, shape[0], width, number, self._gpu.device
            )
        return self._recordings[shape]


class _Recording:
    """Batches of one shape, with inputs and output that keep their place in the device's memory.

    ONNX Runtime captures a CUDA graph in the first run with its number, and replays it later.
    """

    def __init__(
        self, session: Any, feeds: Arrays, rows: int, width: int, number: int, device: int
    ) -> None:
        value = onnxruntime.OrtValue
        self._binding, self._options = session.io_binding(), graph_number(number)
        self._inputs = {
            name: value.ortvalue_from_numpy(_with_rows(array, rows), MEMORY, device)
            for name, array in feeds.items()
        }
        self._rows = rows
        self._output = value.ortvalue_from_shape_and_type([rows, width], np.float32, MEMORY, device)
        for name, tensor in self._inputs.items():
            self._binding.bind_ortvalue_input(name, tensor)
        self._binding.bind_ortvalue_output(POOLED, self._output)

    def run(self, session: Any, feeds: Arrays) -> Any:
        """Return the vectors of a batch: float32 [B, D]."""
        for name, array in feeds.items():
            self._inputs[name].update_inplace(_with_rows(array, self._rows))
        session.run_with_iobinding(self._binding, self._options)
        return np.array(self._output.numpy()[: len(feeds["ids"])])  # the next batch overwrites it


def _with_rows(array: Any, rows: int) -> Any:
    """Return an input with rows of zeros added."""
    return np.concatenate([array, np.zeros((rows - len(array), *array.shape[1:]), array.dtype)])


def graph_number(number: int) -> Any:
    """Return the options of a run with this CUDA graph; -1: with none."""
    options = onnxruntime.RunOptions()
    options.add_run_config_entry("gpu_graph_id", str(number))
    return options


def operators_on_cpu(session: Any) -> set[str]:
    """Return the operators of nodes that a session runs on the CPU, beside another provider."""
    return {
        node.op_type
        for part in session.get_provider_graph_assignment_info()
        if part.ep_name == CPU
        for node in part.get_nodes()
    }


def provider_options(gpu: Gpu) -> dict[str, Any]:
    """Return CUDA's options: memory grows by the requested amount, without TF32 rounding."""
    options: dict[str, Any] = {
        "device_id": gpu.device,
        # The default grows by powers of two, up to twice the memory that the largest batch needs.
        "arena_extend_strategy": "kSameAsRequested",
        "use_tf32": 0,  # TF32 rounds the inputs of float32 products to 10 bits
    }
    if gpu.memory_bytes is not None:
        options["gpu_mem_limit"] = gpu.memory_bytes
    if gpu.record:  # refused if a node that computes has no kernel on the device
        options["enable_cuda_graph"] = 1
    return options


@functools.cache
def load_libraries() -> str:
    """Load CUDA's libraries from NVIDIA's packages, which the loader does not search.

    Returns the message about a missing library, or an empty text.
    """
    onnxruntime.set_default_logger_severity(FATAL)  # standard error is only for Headlight's log
    with contextlib.redirect_stdout(io.StringIO()) as said:  # errors are printed, not raised
        onnxruntime.preload_dlls()
    first = next(
        (line for line in said.getvalue().splitlines() if line.startswith("Failed to load ")), ""
    )
    return f"; {first:.200}" if first else ""
