"""A graph opened by OpenVINO, which computes in bfloat16 where the processor can, and in float32 everywhere.

It is called itself, not through its plug-in for ONNX Runtime: that one offers no device on processors of other makers than its own,
among them such with bfloat16.
"""

from __future__ import annotations

import contextlib
import functools
import queue
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from headlight.errors import BundleError
from headlight.runtime.session import Outputs, Shape
from headlight.runtime.workers import Workers

DEVICE = "CPU"
PRECISIONS = {"fp32": "f32", "bf16": "bf16"}  # ours to theirs
# What is compiled for shapes of batches and kept, in pieces of which a shape has some tens. Its own 5,000 let memory grow for
# hours; with 1,000 batches of any shapes take as long (docs/performance.md).
KEPT_SHAPES = 1000


@functools.cache
def library() -> Any:
    """The package `openvino`.

    Raises:
        BundleError: it is not installed, or cannot be loaded.
    """
    # Its converters, which nothing here calls, report their use by this package; without it they cannot.
    sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]  # how an import is made to fail
    try:
        import openvino  # noqa: PLC0415  (an extra)
    except ImportError as error:
        words = " ".join(str(error).split())
        raise BundleError(
            f"provider openvino needs OpenVINO (`pip install '.[openvino]'` in Headlight's repository): {words:.200}"
        ) from None
    return openvino


@functools.cache
def _core() -> Any:
    return library().Core()


def check_precision(precision: str) -> None:
    """Raises BundleError where OpenVINO is not installed, or would compute in another precision here than it is asked to."""
    if precision not in PRECISIONS:
        raise BundleError(f"provider openvino computes in {' or '.join(PRECISIONS)}, not in {precision}")
    can = _core().get_property(DEVICE, "OPTIMIZATION_CAPABILITIES")
    if precision == "bf16" and "BF16" not in can:
        name = _core().get_property(DEVICE, "FULL_DEVICE_NAME")
        raise BundleError(f"precision bf16 needs a processor with AVX512-BF16 or AMX; {name} has neither: use fp32")


class OpenVinoSession:
    """See headlight.runtime.session.Session. Outputs belong to a request, and are overwritten by its next batch."""

    def __init__(self, path: Path, workers: Workers, precision: str) -> None:
        """Compile a graph; its weights are looked for beside it.

        Raises:
            BundleError: OpenVINO does not compute in this precision here.
        """
        check_precision(precision)
        compiled = _compile(path, precision, workers.streams, workers.all)
        self._requests = _requests(compiled, workers.streams)
        self._wide = _requests(_compile(path, precision, 1, workers.all), 1) if workers.apart else self._requests
        self.inputs = frozenset(value.get_any_name() for value in compiled.inputs)
        self.outputs: dict[str, Shape] = {
            value.get_any_name(): _shape(value.partial_shape) for value in compiled.outputs
        }

    @contextlib.contextmanager
    def run(self, names: Sequence[str], feeds: Outputs, buffers: Outputs, *, wide: bool = False) -> Iterator[Outputs]:
        requests = self._wide if wide else self._requests
        request = requests.get()
        try:
            request.infer(_without_zeros(feeds), share_inputs=True)
            found = {name: request.get_tensor(name).data for name in names}
            for name, buffer in buffers.items():
                np.copyto(buffer, found[name])
                found[name] = buffer
            yield found
        finally:
            requests.put(request)

    def shrink(self, feeds: Outputs) -> None:
        """Nothing: it keeps what its largest batch needed."""


def _without_zeros(feeds: Outputs) -> Outputs:
    """Its TopK takes no k of 0: a layer of which nothing is wanted gives the largest entry of each row, which is not read."""
    return {name: np.maximum(value, 1) if name.startswith("top_") else value for name, value in feeds.items()}


def _compile(path: Path, precision: str, streams: int, threads: int) -> Any:
    hint = PRECISIONS[precision]
    compiled = _core().compile_model(
        str(path),
        DEVICE,
        {
            "INFERENCE_PRECISION_HINT": hint,  # its own choice is bfloat16 wherever the processor has it
            "NUM_STREAMS": streams,
            "INFERENCE_NUM_THREADS": threads,
            # A thread bound to one CPU waits for it, whatever else runs there, while another is idle.
            "ENABLE_CPU_PINNING": False,
            "CPU_RUNTIME_CACHE_CAPACITY": KEPT_SHAPES,
        },
    )
    used = compiled.get_property("INFERENCE_PRECISION_HINT").to_string()
    if used != hint:
        raise BundleError(f"OpenVINO computes in {used} where {hint} was asked for")
    return compiled


def _requests(compiled: Any, count: int) -> queue.SimpleQueue[Any]:
    free: queue.SimpleQueue[Any] = queue.SimpleQueue()
    for _ in range(count):
        free.put(compiled.create_infer_request())
    return free


def _shape(partial: Any) -> Shape:
    return tuple(None if size.is_dynamic else size.get_length() for size in partial)
