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
from collections.abc import Sequence
from typing import Any

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

DRIVER = "libcuda.so.1"  # comes with NVIDIA's driver, from the machine and not from a package
# Results of cuInit without a device: from a stub of the driver, and from the driver.
NONE = frozenset((34, 100))
GIVE = "in a container, give it one (docker: --gpus all; Kubernetes: nvidia.com/gpu: 1)"


@dataclasses.dataclass(frozen=True, slots=True)
class Gpu:
    """A device to compute on.

    Attributes:
        device: index among those that the process sees (CUDA_VISIBLE_DEVICES), from 0.
        memory_bytes: limit of each graph's memory arena; None: all of the device's memory.
    """

    device: int = 0
    memory_bytes: int | None = None


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
            BundleError: CUDA's libraries are not here, or do not fit the device.
        """
        said = load_libraries()
        options = session_options(workers.threads)
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
        super().__init__(session, f"gpu:{gpu.device}")

    def run(
        self, names: Sequence[str], feeds: Arrays, buffers: Arrays, *, wide: bool = False
    ) -> contextlib.nullcontext[Arrays]:
        # Outputs are bound to host memory for the caller: each is copied once, and the copy is
        # complete before this returns.
        return contextlib.nullcontext(run_into(self._session, names, feeds, buffers))


def provider_options(gpu: Gpu) -> dict[str, Any]:
    """Return CUDA's options: memory grows by the requested amount, without TF32 rounding."""
    limit = {} if gpu.memory_bytes is None else {"gpu_mem_limit": gpu.memory_bytes}
    return limit | {
        "device_id": gpu.device,
        # The default grows by powers of two, up to twice the memory that the largest batch needs.
        "arena_extend_strategy": "kSameAsRequested",
        "use_tf32": 0,  # TF32 rounds the inputs of float32 products to 10 bits
    }


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
