"""Session of ONNX Runtime's own provider for CPUs."""

from __future__ import annotations

import contextlib
import functools
import os
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from headlight.runtime.bundle.file_contents import BFLOAT16, OnnxGraph
from headlight.runtime.providers.session import Shape
from headlight.runtime.providers.worker_layout import Workers
from headlight.runtime.values import Arrays

# Official builds may send telemetry; the variable must be set before the library is loaded.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
import onnxruntime

library: Any = onnxruntime  # other modules import it from here, after the variable is set
GPU_PROVIDERS = frozenset(
    f"{name}ExecutionProvider" for name in ("CUDA", "Tensorrt", "NvTensorRTRTX", "ROCM", "MIGraphX")
)


def gpu_installed() -> bool:
    """Return whether the installed ONNX Runtime has a GPU provider, usable here or not."""
    return not GPU_PROVIDERS.isdisjoint(onnxruntime.get_available_providers())


class OrtSession:
    """Common base of ONNX Runtime's sessions; see headlight.runtime.providers.session.Session.

    Each run returns new arrays, in host memory.
    """

    def __init__(self, session: Any, arena: str) -> None:
        """Wrap a session whose memory comes from an arena, "device:number"."""
        self._session, self._arena = session, arena
        self.inputs = frozenset(value.name for value in session.get_inputs())
        self.outputs: dict[str, Shape] = {
            value.name: tuple(value.shape) for value in session.get_outputs()
        }

    def shrink(self, feeds: Arrays) -> None:
        options = onnxruntime.RunOptions()
        options.add_run_config_entry("memory.enable_memory_arena_shrinkage", self._arena)
        self._session.run([next(iter(self.outputs))], feeds, options)


class OnnxSession(OrtSession):
    """A session on CPUs."""

    def __init__(self, graph: OnnxGraph, workers: Workers) -> None:
        self._tables = tables = _tables(graph)
        # All callers share each of the two sessions, and both sessions share the arena.
        # `_session` has the threads of one worker, `_wide` all threads.
        spin = workers.streams == 1
        super().__init__(_open(graph, tables, workers.threads, spin=spin), "cpu:0")
        self._wide = _open(graph, tables, workers.all, spin=True) if workers.copy else self._session
        # Two batches that share a session's threads take a sixth longer than one after the other.
        # But bulk must not hold up interactive batches where one session has both.
        self._turn = threading.Lock() if workers.in_turn else contextlib.nullcontext()
        self._wide_turn = threading.Lock() if workers.copy else self._turn

    def __del__(self) -> None:
        # The sessions borrow the tables, so they end first.
        self._session = self._wide = None

    def run(
        self, names: Sequence[str], feeds: Arrays, buffers: Arrays, *, wide: bool = False
    ) -> contextlib.nullcontext[Arrays]:
        session, turn = (self._wide, self._wide_turn) if wide else (self._session, self._turn)
        with turn:
            if buffers:
                return contextlib.nullcontext(run_into(session, names, feeds, buffers))
            return contextlib.nullcontext(dict(zip(names, session.run(names, feeds), strict=True)))


def run_into(
    session: Any, names: Sequence[str], feeds: Arrays, buffers: Arrays, options: Any = None
) -> Arrays:
    """Run a session and return the named outputs; one that has a buffer is written into it."""
    binding = session.io_binding()
    for name, array in feeds.items():
        binding.bind_cpu_input(name, array)
    for name in names:
        if name in buffers:
            buffer = buffers[name]
            binding.bind_output(name, "cpu", 0, buffer.dtype.type, buffer.shape, buffer.ctypes.data)
        else:
            binding.bind_output(name)
    session.run_with_iobinding(binding, options)
    return {
        name: buffers[name] if name in buffers else value.numpy()
        for name, value in zip(names, binding.get_outputs(), strict=True)
    }


def session_options(threads: int, *, spin: bool = False) -> Any:
    """Return the options for a graph on every provider.

    Args:
        threads: threads of a run.
        spin: whether threads spin between the operations of a run. That saves a seventh to a third
            of the time, but takes CPU from other batches. They never spin between runs.
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # In the order of the file, so that each layer's maps are reduced and freed before the next
    # layer.
    options.execution_order = onnxruntime.ExecutionOrder.PRIORITY_BASED
    # 4 is fatal: less severe errors are also raised, and standard error is only for Headlight's
    # log.
    options.log_severity_level = 4
    options.add_session_config_entry("session.intra_op.allow_spinning", "1" if spin else "0")
    options.add_session_config_entry("session.force_spinning_stop", "1")
    # A memory plan would be kept for every shape, and there are many. Batches are as fast without.
    options.enable_mem_pattern = False
    return options


def give_weights(options: Any, graph: OnnxGraph) -> None:
    """Provide a graph's weights for a session that is to be created from its bytes.

    The session copies them while it is created, and frees a copy once it is packed for
    multiplication. Ownership as documented for AddExternalInitializersFromFilesInMemory in
    onnxruntime_c_api.h: "The buffer can be freed after session creation". That does not hold with
    `session.use_external_initializer_file_buffers_directly`, which is never set here: with it,
    ONNX Runtime 1.32 also reads weights in place that were given in other ways.
    """
    names = sorted({tensor.location for tensor in graph.references})
    buffers = [graph.weights[name].memory for name in names]
    options.add_external_initializers_from_files_in_memory(
        names, buffers, [len(buffer) for buffer in buffers]
    )


def _tables(graph: OnnxGraph) -> dict[str, Any]:
    """Return the embedding tables as OrtValues, which all sessions read in place.

    They are a large part of the weights, and no session packs them, so each would hold a copy. As
    documented for AddInitializer, they must outlive the sessions.
    """
    tables, value = dict[str, Any](), onnxruntime.OrtValue
    for tensor in graph.references:
        if tensor.table:
            numbers = graph.weights[tensor.location].copied(tensor)
            tables[tensor.name] = (
                value.ortvalue_from_numpy_with_onnx_type(numbers, BFLOAT16)
                if tensor.type == BFLOAT16
                else value.ortvalue_from_numpy(numbers)
            )
    return tables


def _open(graph: OnnxGraph, tables: Mapping[str, Any], threads: int, *, spin: bool) -> Any:
    options = session_options(threads, spin=spin)
    _share_arena()
    give_weights(options, graph)
    for name, table in tables.items():
        options.add_initializer(name, table)
    options.add_session_config_entry("session.use_env_allocators", "1")
    # Values that are reused for later ones are held in between: of a long text, twice as much as
    # the values in use. Batches are as fast without.
    options.enable_mem_reuse = False
    # The fused SkipLayerNormalization is 4-9 % slower on CPU than the operations that it replaces
    # (bench/results).
    return onnxruntime.InferenceSession(
        graph.data,
        options,
        providers=["CPUExecutionProvider"],
        disabled_optimizers=["SkipLayerNormFusion"],
    )


@functools.cache
def _share_arena() -> None:
    """Create one memory pool for all sessions of the process.

    With its own pool, each session would keep the memory of its largest batch. Asking malloc each
    time takes a seventh longer, as large blocks are mapped again. Growing only by the requested
    amount leaves twice as much in unusable fragments.
    """
    kind = onnxruntime.OrtMemoryInfo(
        "Cpu", onnxruntime.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, onnxruntime.OrtMemType.DEFAULT
    )
    onnxruntime.create_and_register_allocator(kind, None)
