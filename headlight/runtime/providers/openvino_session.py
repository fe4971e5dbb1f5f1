"""Session of OpenVINO: bfloat16 if the processor has it, float32 and int8 everywhere.

It calls OpenVINO directly. OpenVINO's plug-in for ONNX Runtime offers no device on processors of
other vendors, some of which have bfloat16.
"""

from __future__ import annotations

import contextlib
import functools
import io
import logging
import queue
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from headlight.errors import BundleError
from headlight.extras import remedy
from headlight.runtime.bundle.file_contents import OnnxGraph
from headlight.runtime.bundle.onnx_file import with_inputs
from headlight.runtime.providers.session import Shape
from headlight.runtime.providers.worker_layout import Workers
from headlight.runtime.values import Arrays

log = logging.getLogger("headlight.engine")

DEVICE = "CPU"
PRECISIONS = ("fp32", "bf16", "int8")
# Cached kernels compiled for batch shapes; a shape needs some tens. OpenVINO's default of 5,000 let
# memory grow for hours; with 1,000, batches of any shapes take as long (docs/performance.md).
KEPT_SHAPES = 1000
# Float32 values in the widest registers of x86. OpenVINO adds up attention over whole registers,
# and over the tokens left in another order: by 2e-7 else, enough to round to the next int8 value.
LANES = 16
REPEATS = 3  # retries of a batch after concurrent ones failed; then it lacks memory, too


@functools.cache
def library() -> Any:
    """Return the package `openvino`.

    Raises:
        BundleError: it is not installed, or cannot be loaded.
    """
    # OpenVINO's converters, unused here, report their use through this package. None makes its
    # import fail.
    sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]
    try:
        import openvino  # noqa: PLC0415  (an extra)
    except ImportError as error:
        words = " ".join(str(error).split())
        raise BundleError(
            f"provider openvino needs OpenVINO ({remedy('openvino')}): {words:.200}"
        ) from None
    return openvino


@functools.cache
def _core() -> Any:
    return library().Core()


def processor() -> str:
    """Return the name of the processor."""
    return str(_core().get_property(DEVICE, "FULL_DEVICE_NAME"))


def check_precision(precision: str) -> None:
    """Check that OpenVINO computes in this precision here.

    Raises:
        BundleError: OpenVINO is not installed, or would compute in another precision.
    """
    library()
    if precision not in PRECISIONS:
        raise BundleError(f"provider openvino computes in fp32, bf16 or int8, not in {precision}")
    if precision == "bf16" and not _has_bf16():
        raise BundleError(
            "precision bf16 needs a processor with AVX512-BF16 or AMX;"
            f" {processor()} has neither: use fp32"
        )


def _has_bf16() -> bool:
    return "BF16" in _core().get_property(DEVICE, "OPTIMIZATION_CAPABILITIES")


class OpenVinoSession:
    """Session of OpenVINO; see headlight.runtime.providers.session.Session.

    Outputs belong to an inference request of OpenVINO, whose next batch overwrites them.
    """

    def __init__(self, graph: OnnxGraph, workers: Workers, precision: str) -> None:
        """Compile a graph.

        Raises:
            BundleError: OpenVINO does not compute in this precision here.
        """
        check_precision(precision)
        self._narrow = _Graph(graph, precision, workers.streams, workers.all)
        self._wide = _Graph(graph, precision, 1, workers.all) if workers.copy else self._narrow
        compiled = self._narrow.present.compiled
        self.inputs = frozenset(value.get_any_name() for value in compiled.inputs)
        self.outputs: dict[str, Shape] = {
            value.get_any_name(): tuple(
                None if size.is_dynamic else size.get_length() for size in value.partial_shape
            )
            for value in compiled.outputs
        }

    @contextlib.contextmanager
    def run(
        self, names: Sequence[str], feeds: Arrays, buffers: Arrays, *, wide: bool = False
    ) -> Iterator[Arrays]:
        # OpenVINO's TopK refuses a k of 0: an unused layer gives the largest entry of each row,
        # which is not read.
        feeds = {
            name: np.maximum(value, 1) if name.startswith("top_") else value
            for name, value in feeds.items()
        }
        with (self._wide if wide else self._narrow).run(feeds) as request:
            results = {name: request.get_tensor(name).data for name in names}
            for name, buffer in buffers.items():
                np.copyto(buffer, results[name])
                results[name] = buffer
            yield results

    def shrink(self, feeds: Arrays) -> None:
        """Do nothing: OpenVINO keeps the memory of its largest batch."""


def _model(graph: OnnxGraph) -> Any:
    """Read a graph from memory.

    OpenVINO finds external data only by path. So weights are read as inputs, and become constants
    that share the bundle's memory.
    """
    names = {tensor.name for tensor in graph.references}
    model = _core().read_model(io.BytesIO(with_inputs(graph.data, names)))
    for tensor, array in graph.arrays():
        output = model.input(tensor.name)
        constant = library().op.Constant(array, shared_memory=True)
        for user in output.get_target_inputs():
            user.replace_source_output(constant.output(0))
        model.remove_parameter(output.get_node())
    model.validate_nodes_and_infer_types()
    return model


class _Compiled:
    """A compiled graph with one inference request per worker, and a flag set if a batch failed."""

    def __init__(self, graph: OnnxGraph, precision: str, streams: int, threads: int) -> None:
        self.compiled = _compile(graph, precision, streams, threads)
        self.free: queue.SimpleQueue[Any] = queue.SimpleQueue()
        for _ in range(streams):
            self.free.put(self.compiled.create_infer_request())
        self.failed = False

    def compute(self, request: Any, feeds: Arrays) -> bool:
        """Compute a batch, or return False if a concurrent batch failed.

        In that case it may have run on a damaged state.
        """
        try:
            # `infer` of the Python package drops errors and leaves the previous batch's outputs.
            request.start_async(feeds, share_inputs=True)
            request.wait()
        except Exception:
            self.failed = True
            with contextlib.suppress(RuntimeError):  # other batches still run
                self.compiled.release_memory()
            raise
        return not self.failed


class _Graph:
    """A graph that is compiled again after a failure.

    OpenVINO keeps a failed batch's partial state (shapes, buffers, kernels without memory). Later
    batches could fail or compute wrong numbers.
    """

    def __init__(self, graph: OnnxGraph, precision: str, streams: int, threads: int) -> None:
        """Compile the graph. `streams` batches may run at once, on `threads` together."""
        # The compiled graph reads the weights in place, and the graph holds them.
        self._form = graph, precision, streams, threads
        self._lock = threading.Lock()
        self._present: _Compiled | None = _Compiled(*self._form)

    @property
    def present(self) -> _Compiled:
        """The compiled graph for batches.

        Raises the library's errors if compiling fails again; the next batch retries.
        """
        with self._lock:
            if self._present is None or self._present.failed:
                log.warning(
                    "compiling a graph anew, as a batch failed", extra={"event": "graph_recompiled"}
                )
                self._present = None  # free its memory first
                self._present = _Compiled(*self._form)
            return self._present

    @contextlib.contextmanager
    def run(self, feeds: Arrays) -> Iterator[Any]:
        """Yield the request that computed a batch; it is reserved until the context ends.

        Raises:
            MemoryError: the first attempt and REPEATS more failed.
        """
        for _ in range(1 + REPEATS):
            present = self.present
            request = present.free.get()
            try:
                if not present.failed and present.compute(request, feeds):
                    yield request
                    return
            finally:
                present.free.put(request)
        raise MemoryError(
            "batches beside this one failed, and the graph was compiled anew, each time"
        )


def _compile(graph: OnnxGraph, precision: str, streams: int, threads: int) -> Any:
    # The graph says what int8 computes. The rest is bfloat16 if possible: float32 takes longer.
    narrow = precision == "bf16" or (precision == "int8" and _has_bf16())
    hint = "bf16" if narrow else "f32"
    compiled = _core().compile_model(
        _model(graph),
        DEVICE,
        {
            "INFERENCE_PRECISION_HINT": hint,  # the default is bfloat16 if the processor has it
            "NUM_STREAMS": streams,
            "INFERENCE_NUM_THREADS": threads,
            # A pinned thread waits for its CPU, even if another CPU is idle.
            "ENABLE_CPU_PINNING": False,
            "CPU_RUNTIME_CACHE_CAPACITY": KEPT_SHAPES,
        },
    )
    used = compiled.get_property("INFERENCE_PRECISION_HINT").to_string()
    if used != hint:
        raise BundleError(f"OpenVINO computes in {used} where {hint} was asked for")
    return compiled
