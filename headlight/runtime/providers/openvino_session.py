"""A graph opened by OpenVINO, which computes in bfloat16 where the processor can, and in float32 everywhere.

It is called itself, not through its plug-in for ONNX Runtime: that one offers no device on processors of other makers than its own,
among them such with bfloat16.
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
from headlight.runtime.providers.session import Outputs, Shape
from headlight.runtime.providers.worker_layout import Workers

log = logging.getLogger("headlight.engine")

DEVICE = "CPU"
PRECISIONS = {"fp32": "f32", "bf16": "bf16"}  # ours to theirs
# What is compiled for shapes of batches and kept, in pieces of which a shape has some tens. Its own 5,000 let memory grow for
# hours; with 1,000 batches of any shapes take as long (docs/performance.md).
KEPT_SHAPES = 1000
REPEATS = 3  # of a batch beside which others failed; then memory is too short for it, too


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
        raise BundleError(f"provider openvino needs OpenVINO (`{remedy('openvino')}`): {words:.200}") from None
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
        raise BundleError(
            "precision bf16 needs a processor with AVX512-BF16 or AMX;"
            f" {_core().get_property(DEVICE, 'FULL_DEVICE_NAME')} has neither: use fp32"
        )


class OpenVinoSession:
    """See headlight.runtime.providers.session.Session. Outputs belong to a request, and are overwritten by its next batch."""

    def __init__(self, graph: OnnxGraph, workers: Workers, precision: str) -> None:
        """Compile a graph.

        Raises:
            BundleError: OpenVINO does not compute in this precision here.
        """
        check_precision(precision)
        graph.keep(graph.references)
        self._narrow = _Graph(graph, precision, workers.streams, workers.all)
        self._wide = _Graph(graph, precision, 1, workers.all) if workers.apart else self._narrow
        compiled = self._narrow.present.compiled
        self._weights = tuple(graph.weights.values())  # read in place: to be let go after the sessions
        self.inputs = frozenset(value.get_any_name() for value in compiled.inputs)
        self.outputs: dict[str, Shape] = {
            value.get_any_name(): tuple(None if size.is_dynamic else size.get_length() for size in value.partial_shape)
            for value in compiled.outputs
        }

    @contextlib.contextmanager
    def run(self, names: Sequence[str], feeds: Outputs, buffers: Outputs, *, wide: bool = False) -> Iterator[Outputs]:
        # Its TopK takes no k of 0: a layer of which nothing is wanted gives the largest entry of each row, which is not read.
        feeds = {name: np.maximum(value, 1) if name.startswith("top_") else value for name, value in feeds.items()}
        with (self._wide if wide else self._narrow).run(feeds) as request:
            found = {name: request.get_tensor(name).data for name in names}
            for name, buffer in buffers.items():
                np.copyto(buffer, found[name])
                found[name] = buffer
            yield found

    def shrink(self, feeds: Outputs) -> None:
        """Nothing: it keeps what its largest batch needed."""


def _model(graph: OnnxGraph) -> Any:
    """Read a graph from memory.

    OpenVINO finds external data by path alone, so weights are read as inputs, and become constants over our memory.
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
    """A compiled graph, its free requests, of which it has one for each stream, and whether a batch of it failed."""

    def __init__(self, graph: OnnxGraph, precision: str, streams: int, threads: int) -> None:
        self.compiled = _compile(graph, precision, streams, threads)
        self.free: queue.SimpleQueue[Any] = queue.SimpleQueue()
        for _ in range(streams):
            self.free.put(self.compiled.create_infer_request())
        self.failed = False

    def compute(self, request: Any, feeds: Outputs) -> bool:
        """Compute a batch; False: one beside it failed, and it may have run on what that left."""
        try:
            # `infer` of the Python package drops errors, and leaves the outputs of the batch before.
            request.start_async(feeds, share_inputs=True)
            request.wait()
        except Exception:
            self.failed = True
            with contextlib.suppress(RuntimeError):  # others run
                self.compiled.release_memory()
            raise
        return not self.failed


class _Graph:
    """A graph that is compiled anew after a failure.

    OpenVINO keeps what it has half done for one batch (shapes, buffers, kernels that it had no memory for), and fails for later
    batches, or could compute them wrongly.
    """

    def __init__(self, graph: OnnxGraph, precision: str, streams: int, threads: int) -> None:
        """Compile. `streams`: how many batches may run at once, on `threads` together."""
        self._form = graph, precision, streams, threads
        self._lock = threading.Lock()
        self._present: _Compiled | None = _Compiled(*self._form)

    @property
    def present(self) -> _Compiled:
        """What batches run on. Raises the library's errors where it cannot be compiled again; the next batch tries once more."""
        with self._lock:
            if self._present is None or self._present.failed:
                log.warning("compiling a graph anew, as a batch failed", extra={"event": "graph_recompiled"})
                self._present = None  # its memory is wanted
                self._present = _Compiled(*self._form)
            return self._present

    @contextlib.contextmanager
    def run(self, feeds: Outputs) -> Iterator[Any]:
        """The request that has computed a batch; its own until the context is left. Raises MemoryError after REPEATS."""
        for _ in range(1 + REPEATS):
            present = self.present
            request = present.free.get()
            try:
                if not present.failed and present.compute(request, feeds):
                    yield request
                    return
            finally:
                present.free.put(request)
        raise MemoryError("batches beside this one failed, and the graph was compiled anew, each time")


def _compile(graph: OnnxGraph, precision: str, streams: int, threads: int) -> Any:
    hint = PRECISIONS[precision]
    compiled = _core().compile_model(
        _model(graph),
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
