"""What a failure means: nothing beyond its batch, that memory was short or, on a GPU, that it is lost, or that it may be."""

from __future__ import annotations

import contextlib
import contextvars
import logging
import re
import threading
import uuid
from collections.abc import Callable, Iterator
from typing import Literal

from headlight.errors import DeviceFull, DeviceLost, EngineError, HeadlightError, HostFull
from headlight.runtime.providers.session import Outputs

log = logging.getLogger("headlight.engine")

# There are no exception types for these, only words: of ONNX Runtime's arena (a limit, or the device, is reached), of CUDA, of
# cuBLAS, and of OpenVINO, whose kernels are null where there was no memory to make them in.
FULL = re.compile(
    r"Failed to allocate memory for requested buffer|is smaller than requested bytes of"
    r"|((CUDA|CUBLAS|CUDNN) (failure|error)( \d+)?:? )?"
    r"(out of memory|cudaErrorMemoryAllocation|(CUBLAS|CUDNN)_STATUS_ALLOC_FAILED)|CUDA failure 2\b",
    re.IGNORECASE,
)
# Of the process, which says nothing of a GPU that it uses.
HOST_FULL = re.compile(
    r"std::bad_alloc|Cannot allocate memory|Resource temporarily unavailable"
    r"|Failed to allocate \d+ bytes of memory|\bcan't alloc\b"
    r"|Check '\(?ker(nel)?\)?' failed at src/plugins/intel_cpu",
    re.IGNORECASE,
)
# Of what CUDA reports, much stays: every later call of the process fails then.
LOST = re.compile(
    r"\b(CUDA|CUBLAS|CUDNN|CURAND|CUFFT) (failure|error)\b|\b(CUBLAS|CUDNN)_STATUS_|\bcudaError(?-i:[A-Z])"
    r"|illegal (memory access|address|instruction)|unspecified launch failure|device-side assert|misaligned address",
    re.IGNORECASE,
)
# What CUDA, cuBLAS and cuDNN refuse before anything runs does not stay, and comes again with each batch of the same shape.
REFUSED = re.compile(
    r"((CUDA|CUBLAS|CUDNN) (failure|error)( \d+)?:? )?"
    r"(cudaError(InvalidValue|InvalidConfiguration|InvalidDeviceFunction|LaunchOutOfResources)\b"
    r"|(CUBLAS|CUDNN)_STATUS_(NOT_SUPPORTED|INVALID_VALUE|BAD_PARAM)\w*)"
    r"|(CUDA failure (1|9|98|701)|CUBLAS failure (7|15))\b",
    re.IGNORECASE,
)
LOST_TYPES = frozenset(("EPFail", "DeviceReset"))  # of ONNX Runtime: the provider failed, the device was reset
# Whether what this context runs is a probe.
PROBES: contextvars.ContextVar[bool] = contextvars.ContextVar("probes", default=False)


def fault(error: BaseException) -> Literal["full", "host", "lost", "refused"] | None:
    """What an exception from a session says of the device; None where it concerns the batch alone.

    "host": the memory of the process is short. "refused": it may be the batch alone, and whether it is only the device can tell.
    """
    words = str(error)
    if LOST.search(REFUSED.sub("", FULL.sub("", words))):  # whatever else it says
        return "lost"
    if FULL.search(words):
        return "full"
    if isinstance(error, MemoryError) or HOST_FULL.search(words):
        return "host"
    if type(error).__name__ in LOST_TYPES:
        return "lost"
    return "refused" if REFUSED.search(words) else None


class Faults:
    """Turns failures into Headlight's errors, and remembers that a GPU is lost. For all threads and sessions of an engine.

    Of what may be the fault of an input, or of the GPU, a probe decides. Until it has, no thread gets past `check`.

    Attributes:
        gpu: whether it computes on one. On a CPU a failure concerns its batch alone.
        probe: raises unless the GPU computes what it should; None: a GPU that is suspected is lost.
    """

    def __init__(self, *, gpu: bool, vocabulary: int, segments: int, longest: int) -> None:
        """Nothing has failed.

        Args:
            gpu: whether it computes on one.
            vocabulary: ids that the model knows.
            segments: that the model knows; 0: none.
            longest: tokens that the model takes.
        """
        self.probe: Callable[[], None] | None = None
        self.gpu, self._lost = gpu, False
        self._suspicions, self._settled = 0, threading.Condition()  # those that are being looked into
        self._vocabulary, self._segments, self._longest = vocabulary, segments, longest

    def check(self) -> None:
        """Raises DeviceLost where a batch before, or one beside this, found the device lost; waits where one is finding out."""
        if self._suspicions and not PROBES.get():
            with self._settled:
                self._settled.wait_for(lambda: not self._suspicions)
        if self._lost:
            raise DeviceLost("the GPU failed before; this replica is ending, try another")

    def check_feeds(self, feeds: Outputs) -> None:
        """A CPU checks what it looks up by; a GPU reads whatever is there. Raises EngineError, before anything is computed."""
        limits = {"ids": self._vocabulary, "segments": max(1, self._segments)}
        wrong = [
            name
            for name, limit in limits.items()
            if name in feeds and not 0 <= feeds[name].min() <= feeds[name].max() < limit
        ]
        if feeds["ids"].shape[1] > self._longest:
            wrong.append("length")
        if wrong:
            raise EngineError(told("an input is outside of what the model knows", f"{', '.join(wrong)} of a batch"))

    @staticmethod
    @contextlib.contextmanager
    def probing() -> Iterator[None]:
        """What this thread runs meanwhile is a probe: it waits for no other, and the GPU answers for whatever is wrong."""
        before = PROBES.set(True)
        try:
            yield
        finally:
            PROBES.reset(before)

    def judge(self, what: str, details: str) -> DeviceLost | None:
        """Whether a GPU is at fault for what went wrong in this thread: it is probed at once.

        Returns:
            What to raise where it is, and is lost; None where the input is at fault, or there is no GPU.
        """
        if not self.gpu:
            return None
        with self._settled:
            self._suspicions += 1
        try:
            if not self._lost and not self._is_right(f"{what}: {details}"):
                self._lost = True
            # Logged before others wake: who found it out is told first.
            return DeviceLost(told(what, details)) if self._lost else None
        finally:
            with self._settled:
                self._suspicions -= 1
                self._settled.notify_all()

    def _is_right(self, why: str) -> bool:
        if PROBES.get() or self.probe is None:
            return False
        log.warning("the GPU is suspected; probing it", extra={"event": "engine_probe", "details": why})
        try:
            with self.probing():
                self.probe()
        except DeviceFull:
            # By what runs beside it, which is no illness; a device that gives none at all is found out elsewhere.
            log.warning("the probe had no memory", extra={"event": "probe_failed", "details": why})
        except Exception as error:
            log.error("the probe failed", extra={"event": "probe_failed", "details": " ".join(str(error).split())})
            return False
        return True

    def of(self, error: Exception) -> HeadlightError:
        """What to raise for what a library raised. The details are logged."""
        kind, details = fault(error), " ".join(str(error).split())
        if kind == "host" or (kind == "full" and not self.gpu):
            log.warning("memory is short for a batch", extra={"event": "batch_memory_short", "details": details})
            return HostFull()
        if kind == "full":
            log.warning("the GPU's memory is full", extra={"event": "gpu_memory_full", "details": details})
            return DeviceFull("the memory of the GPU is full; ask for less at once: fewer outputs, shorter texts")
        if kind == "lost" and self.gpu:
            self._lost = True
            return DeviceLost(told("the GPU failed", str(error)))
        # Without a GPU nobody is at fault but the batch.
        lost = self.judge("the GPU failed", str(error)) if kind == "refused" else None
        return lost or EngineError(told("the engine failed", str(error)))


def told(what: str, details: str) -> str:
    """Log the details under an id, and return what a caller may read: the id alone."""
    error_id = uuid.uuid4().hex[:12]
    log.error(what, extra={"event": "engine_failed", "error_id": error_id, "details": details})
    return f"{what}; see error id {error_id} in the server's log"
