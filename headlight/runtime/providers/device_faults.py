"""Classification of engine failures: only the batch, lack of memory, a lost or suspected GPU."""

from __future__ import annotations

import contextlib
import contextvars
import logging
import re
import threading
import uuid
from collections.abc import Callable, Iterator
from typing import Literal

from headlight.errors import DeviceFull, DeviceLost, EngineError, HeadlightError, HostFull, Reason
from headlight.runtime.values import Arrays

log = logging.getLogger("headlight.engine")

# Errors for lack of GPU memory have no exception types, only messages: of ONNX Runtime's arena (its
# limit or the device is full), CUDA, cuBLAS and cuDNN.
FULL = re.compile(
    (
        r"Failed to allocate memory for requested buffer|is smaller than requested bytes of"
        r"|((CUDA|CUBLAS|CUDNN) (failure|error)( \d+)?:? )?"
        r"(out of memory|cudaErrorMemoryAllocation|(CUBLAS|CUDNN)_STATUS_ALLOC_FAILED)"
        r"|CUDA failure 2\b"
    ),
    re.IGNORECASE,
)
# The process's own memory, independent of any GPU. OpenVINO's kernels are null if there was no
# memory to create them.
HOST_FULL = re.compile(
    r"std::bad_alloc|Cannot allocate memory|Resource temporarily unavailable"
    r"|Failed to allocate \d+ bytes of memory|\bcan't alloc\b"
    r"|Check '\(?ker(nel)?\)?' failed at src/plugins/intel_cpu",
    re.IGNORECASE,
)
# Many CUDA errors are permanent: every later call of the process fails.
LOST = re.compile(
    (
        r"\b(CUDA|CUBLAS|CUDNN|CURAND|CUFFT) (failure|error)\b|\b(CUBLAS|CUDNN)_STATUS_"
        r"|\bcudaError(?-i:[A-Z])"
        r"|illegal (memory access|address|instruction)|unspecified launch failure"
        r"|device-side assert|misaligned address"
    ),
    re.IGNORECASE,
)
# CUDA, cuBLAS and cuDNN refuse these before anything runs. They are not permanent, and recur with
# each batch of the same shape.
REFUSED = re.compile(
    r"((CUDA|CUBLAS|CUDNN) (failure|error)( \d+)?:? )?"
    r"(cudaError(InvalidValue|InvalidConfiguration|InvalidDeviceFunction|LaunchOutOfResources)\b"
    r"|(CUBLAS|CUDNN)_STATUS_(NOT_SUPPORTED|INVALID_VALUE|BAD_PARAM)\w*)"
    r"|(CUDA failure (1|9|98|701)|CUBLAS failure (7|15))\b",
    re.IGNORECASE,
)
# Exception types of ONNX Runtime: the provider failed, the device was reset.
LOST_TYPES = frozenset(("EPFail", "DeviceReset"))
# True if this context runs a probe.
PROBES: contextvars.ContextVar[bool] = contextvars.ContextVar("probes", default=False)


def fault(error: BaseException) -> Literal["full", "host", "lost", "refused"] | None:
    """Classify an exception from a session; None if it concerns only the batch.

    "host": the process's memory is short. "refused": only a probe of the device can decide whether
    the fault is only in the batch.
    """
    words = str(error)
    if LOST.search(REFUSED.sub("", FULL.sub("", words))):  # takes precedence over all others
        return "lost"
    if FULL.search(words):
        return "full"
    if isinstance(error, MemoryError) or HOST_FULL.search(words):
        return "host"
    if type(error).__name__ in LOST_TYPES:
        return "lost"
    return "refused" if REFUSED.search(words) else None


class Faults:
    """Classifier of failures into Headlight's errors, which remembers that a GPU is lost.

    It serves all threads and sessions of an engine. If an input or the GPU may be at fault, a probe
    decides. Until it has, `check` blocks every thread.

    Attributes:
        gpu: whether the engine computes on a GPU. On a CPU a failure concerns only its batch.
        probe: raises unless the GPU computes correctly; None: a suspected GPU counts as lost.
    """

    def __init__(self, *, gpu: bool, vocabulary: int, segments: int, longest: int) -> None:
        """Start without failures.

        Args:
            gpu: whether the engine computes on a GPU.
            vocabulary: number of ids that the model knows.
            segments: number of segments that the model knows; 0: none.
            longest: tokens that the model takes.
        """
        self.probe: Callable[[], None] | None = None
        self.gpu, self._lost = gpu, False
        self._suspicions, self._settled = 0, threading.Condition()  # probes in progress
        self._vocabulary, self._segments, self._longest = vocabulary, segments, longest

    def check(self) -> None:
        """Wait for probes in progress, and check that the device is not lost.

        Raises:
            DeviceLost: an earlier or concurrent batch found the device lost.
        """
        if self._suspicions and not PROBES.get():
            with self._settled:
                self._settled.wait_for(lambda: not self._suspicions)
        if self._lost:
            raise DeviceLost("the GPU failed before; this replica is ending, try another")

    def check_feeds(self, feeds: Arrays) -> None:
        """Check a batch's ids, segments and length before anything is computed.

        Kernels on a CPU check indices; on a GPU they read out of bounds.

        Raises:
            EngineError: one is outside of the model's range.
        """
        limits = {"ids": self._vocabulary, "segments": max(1, self._segments)}
        wrong = [
            name
            for name, limit in limits.items()
            if name in feeds and not 0 <= feeds[name].min() <= feeds[name].max() < limit
        ]
        if feeds["ids"].shape[1] > self._longest:
            wrong.append("length")
        if wrong:
            raise EngineError(
                logged_message(
                    "an input is outside of what the model knows", f"{', '.join(wrong)} of a batch"
                )
            )

    @staticmethod
    @contextlib.contextmanager
    def probing() -> Iterator[None]:
        """Mark this thread's runs as a probe: it waits for no other; its failures are the GPU's."""
        before = PROBES.set(True)
        try:
            yield
        finally:
            PROBES.reset(before)

    def judge(self, what: str, details: str) -> DeviceLost | None:
        """Probe the GPU at once, to find whether it is at fault for a failure in this thread.

        Returns:
            The error to raise if the GPU is lost; None if the input is at fault, or there is no
            GPU.
        """
        if not self.gpu:
            return None
        with self._settled:
            self._suspicions += 1
        try:
            if not self._lost and not self._is_right(f"{what}: {details}"):
                self._lost = True
            # Logged before other threads wake, so that the first log entry has the cause.
            return DeviceLost(logged_message(what, details)) if self._lost else None
        finally:
            with self._settled:
                self._suspicions -= 1
                self._settled.notify_all()

    def _is_right(self, why: str) -> bool:
        if PROBES.get() or self.probe is None:
            return False
        log.warning(
            "the GPU is suspected; probing it", extra={"event": "engine_probe", "details": why}
        )
        try:
            with self.probing():
                self.probe()
        except DeviceFull:
            # Other batches hold the memory; the device is healthy. A device without any memory
            # fails elsewhere.
            log.warning("the probe had no memory", extra={"event": "probe_failed", "details": why})
        except Exception as error:
            log.error(
                "the probe failed",
                extra={"event": "probe_failed", "details": " ".join(str(error).split())},
            )
            return False
        return True

    def of(self, error: Exception) -> HeadlightError:
        """Return the error to raise for a library's exception, and log the details."""
        kind, details = fault(error), " ".join(str(error).split())
        if kind == "host" or (kind == "full" and not self.gpu):
            log.warning(
                "memory is short for a batch",
                extra={"event": "batch_memory_short", "details": details},
            )
            return HostFull()
        if kind == "full":
            log.warning(
                "the GPU's memory is full", extra={"event": "gpu_memory_full", "details": details}
            )
            return DeviceFull(Reason.DEVICE_MEMORY)
        if kind == "lost" and self.gpu:
            self._lost = True
            return DeviceLost(logged_message("the GPU failed", str(error)))
        # Without a GPU only the batch is at fault.
        lost = self.judge("the GPU failed", str(error)) if kind == "refused" else None
        return lost or EngineError(logged_message("the engine failed", str(error)))


def logged_message(what: str, details: str) -> str:
    """Log the details under an id, and return a message for the caller with only the id."""
    error_id = uuid.uuid4().hex[:12]
    log.error(what, extra={"event": "engine_failed", "error_id": error_id, "details": details})
    return f"{what}; see error id {error_id} in the server's log"
