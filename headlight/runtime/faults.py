"""What a failure means: nothing beyond its batch or, on a GPU, that its memory was full or that it is lost."""

from __future__ import annotations

import logging
import re
import uuid
from typing import Literal

from headlight.errors import DeviceFull, DeviceLost, EngineError, HeadlightError
from headlight.runtime.session import Outputs

log = logging.getLogger("headlight.engine")

# ONNX Runtime has no exception types for these, only words: of its arena (a limit, or the device, is reached), of CUDA and of cuBLAS.
FULL = re.compile(
    r"Failed to allocate memory for requested buffer|is smaller than requested bytes of|CUDA failure 2\b"
    r"|out of memory|cudaErrorMemoryAllocation|(CUBLAS|CUDNN)_STATUS_ALLOC_FAILED|std::bad_alloc",
    re.IGNORECASE,
)
# Of what CUDA reports, much stays: every later call of the process fails then. What would not is not worth telling apart by its words.
LOST = re.compile(
    r"\b(CUDA|CUBLAS|CUDNN|CURAND|CUFFT) (failure|error)\b|\b(CUBLAS|CUDNN)_STATUS_|\bcudaError"
    r"|illegal (memory access|address|instruction)|unspecified launch failure|device-side assert|misaligned address",
    re.IGNORECASE,
)
LOST_TYPES = frozenset(("EPFail", "DeviceReset"))  # of ONNX Runtime: the provider failed, the device was reset
FULL_MESSAGE = "the memory of the GPU is full; ask for less at once: fewer outputs, shorter texts"


def fault(error: BaseException) -> Literal["full", "lost"] | None:
    """What an exception from a session on a GPU says of the device; None where it concerns the batch alone."""
    words = str(error)
    if isinstance(error, MemoryError) or FULL.search(words):
        return "full"
    return "lost" if type(error).__name__ in LOST_TYPES or LOST.search(words) else None


class Faults:
    """Turns failures into Headlight's errors, and remembers that a GPU is lost. For all threads and sessions of an engine."""

    def __init__(self, *, gpu: bool, vocabulary: int, segments: int, longest: int) -> None:
        """Nothing has failed.

        Args:
            gpu: whether it computes on one. On a CPU a failure concerns its batch alone.
            vocabulary: ids that the model knows.
            segments: that the model knows; 0: none.
            longest: tokens that the model takes.
        """
        self._gpu, self._lost = gpu, False
        self._vocabulary, self._segments, self._longest = vocabulary, segments, longest

    def check(self) -> None:
        """Raises DeviceLost where a batch before, or one beside this, found the device lost."""
        if self._lost:
            raise DeviceLost("the GPU failed before; this replica is ending, try another")

    def check_feeds(self, feeds: Outputs) -> None:
        """A CPU checks what it looks up by; a GPU reads whatever is there. Raises EngineError, before anything is computed."""
        if not self._gpu:
            return
        limits = {"ids": self._vocabulary, "segments": max(1, self._segments)}
        wrong = [
            name
            for name, limit in limits.items()
            if name in feeds and not 0 <= feeds[name].min() <= feeds[name].max() < limit
        ]
        if feeds["ids"].shape[1] > self._longest:
            wrong.append("length")
        if wrong:
            raise failure("an input is outside of what the model knows", f"{', '.join(wrong)} of a batch")

    def of(self, error: Exception) -> HeadlightError:
        """What to raise for what a library raised. The details are logged."""
        kind = fault(error) if self._gpu else None
        if kind == "full":
            log.warning(
                "the GPU's memory is full", extra={"event": "gpu_memory_full", "details": " ".join(str(error).split())}
            )
            return DeviceFull(FULL_MESSAGE)
        if kind == "lost":
            self._lost = True
            return failure("the GPU failed", str(error), DeviceLost)
        return failure("the engine failed", str(error))

    def not_finite(self, details: str) -> EngineError:
        """What to raise where a result is not finite: on a GPU nothing of it is to be believed after that."""
        self._lost = self._gpu
        return failure("a result is not finite", details, DeviceLost if self._gpu else EngineError)


def failure(what: str, details: str, kind: type[EngineError] = EngineError) -> EngineError:
    """Log the details under an id and return an error that names the id alone."""
    error_id = uuid.uuid4().hex[:12]
    log.error(what, extra={"event": "engine_failed", "error_id": error_id, "details": details})
    return kind(f"{what}; see error id {error_id} in the server's log")
