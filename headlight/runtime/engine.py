"""A batch in, results out. Knows no requests, no queue and no event loop; called by as many threads as one likes."""

from __future__ import annotations

import functools
import logging
import os
import uuid
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headlight.errors import BundleError, EngineError
from headlight.runtime.bundle import Bundle
from headlight.runtime.interface import check_interface
from headlight.runtime.items import EncodeItem, ItemResult, Selection
from headlight.runtime.rounding import AS_LONG, Rounding
from headlight.runtime.selectors import Wanted
from headlight.runtime.values import Floats, Ids, Role
from headlight.runtime.vectors import shape_pooled, shape_rows

# Official builds may send telemetry; the variable must stand before the library is loaded.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
import onnxruntime

log = logging.getLogger("headlight.engine")
Outputs = dict[str, NDArray[Any]]


def pad(
    sequences: Sequence[NDArray[np.int64]], rounding: Rounding = AS_LONG
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Right-pad to the longest, rounded. Returns ids int64 [B, S] (padding 0) and mask int64 [B, S] (1 for a token)."""
    longest = max(len(sequence) for sequence in sequences)
    ids = np.zeros((len(sequences), rounding.up(longest)), dtype=np.int64)
    mask = np.zeros_like(ids)
    for row, sequence in enumerate(sequences):
        ids[row, : len(sequence)] = sequence
        mask[row, : len(sequence)] = 1
    return ids, mask


class Engine:
    """The sessions of a bundle on one provider, in one precision.

    Attributes:
        roles: the graphs loaded.
    """

    def __init__(
        self,
        bundle: Bundle,
        *,
        provider: str,
        precision: str,
        threads: int,
        spin: bool = False,
        attend: bool = True,
        round_lengths: int = 1,
    ) -> None:
        """Open the graphs.

        Args:
            bundle: verified.
            provider, precision: a pair that the bundle has graphs for.
            threads: threads that work on one batch.
            spin: let idle threads spin for work: some 8 % faster for a lone caller, costly to everything else on the machine.
            attend: also load the graph that returns attention and hidden states.
            round_lengths: pad batches to a multiple of so many tokens, within what the model takes.

        Raises:
            BundleError: the bundle has no such graph, or ONNX Runtime cannot open it.
        """
        self.architecture = bundle.manifest.architecture
        self._normalize = bundle.manifest.normalize
        self._rounding = Rounding(round_lengths, bundle.manifest.max_length)
        self._sessions: dict[Role, Any] = {}
        self._inputs: dict[Role, tuple[str, ...]] = {}
        roles: tuple[Role, ...] = ("embed", "attend") if attend else ("embed",)
        for role in roles:
            graph = bundle.manifest.graph(role, provider, precision)
            self._inputs[role] = graph.inputs
            try:
                self._sessions[role] = _open_session(str(bundle.file(graph.file)), threads, spin)
            except Exception as error:  # the library raises many types; at start-up its words reach the operator alone
                words = " ".join(str(error).split())
                raise BundleError(f"cannot be opened by ONNX Runtime: {words:.300}", graph.file) from error
            check_interface(self._sessions[role], graph, bundle.manifest)
        self.roles = frozenset(self._sessions)

    def run(self, items: Sequence[EncodeItem]) -> list[ItemResult]:
        """Encode one batch.

        Args:
            items: at least one, all of the same role, their ids valid and their layers in range.

        Raises:
            EngineError: ONNX Runtime failed, or a result is not finite. The details are in the log.
        """
        role, architecture = items[0].role, self.architecture
        feeds, names, wanted = self._feeds(role, items), output_names(items), None
        if role == "attend":
            wanted = Wanted(items, architecture.layers, architecture.heads, feeds["ids"].shape[1])
            feeds |= wanted.feeds()
            names += wanted.outputs
        unreduced = wanted.unreduced() if wanted is not None else None
        buffers = wanted.buffers(unreduced) if wanted is not None and unreduced is not None else {}
        try:
            outputs = _run(self._sessions[role], names, feeds, buffers)
        except Exception as error:  # the library raises many types, none of them a base of the others
            raise _failure("ONNX Runtime failed", str(error)) from error
        if not all(np.isfinite(outputs[name]).all() for name in ("pooled", "tokens") if name in outputs):
            raise _failure("a result is not finite", f"role {role}, batch {feeds['ids'].shape}")
        vectors = [item.selection.vector if item.selection.pooled else None for item in items]
        pooled = shape_pooled(outputs["pooled"], vectors, self._normalize)
        return [cut_out(outputs, row, item, pooled[row], wanted, unreduced) for row, item in enumerate(items)]

    def shrink(self) -> None:
        """Give back the memory that batches before needed. Not for every batch: the next would have to ask for it again."""
        options = onnxruntime.RunOptions()
        options.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
        item = EncodeItem(np.zeros(1, dtype=np.int64), Selection())
        # The arena is that of all sessions.
        self._sessions["embed"].run(["pooled"], self._feeds("embed", [item]), options)

    def _feeds(self, role: Role, items: Sequence[EncodeItem]) -> Outputs:
        """The inputs of a graph. Those that no item sets stand for "as if the graph had no such input"."""
        ids, mask = pad([item.ids for item in items], self._rounding)
        for row, item in enumerate(items):
            if item.occluded is not None:
                mask[row, item.occluded] = 0
        feeds: Outputs = {"ids": ids, "mask": mask}
        if "pool_mask" in self._inputs[role]:
            feeds["pool_mask"] = mask.copy()
            for row, item in enumerate(items):
                feeds["pool_mask"][row, : item.left_out] = 0
        if "segments" in self._inputs[role]:
            feeds["segments"], _ = pad([_zeros_unless(item.segments, item.ids) for item in items], self._rounding)
        if role == "attend":
            ones = np.ones((self.architecture.layers, self.architecture.heads), dtype=np.float32)
            feeds["head_mask"] = np.stack([ones if item.head_mask is None else item.head_mask for item in items])
        return feeds


def output_names(items: Sequence[EncodeItem]) -> list[str]:
    """The graph outputs that a batch needs beside those of attention: the union of its items' selections."""
    states = sorted({layer for item in items if item.selection.hidden for layer in item.selection.hidden.layers})
    names = [f"hidden_{layer}" for layer in states]
    if any(item.selection.tokens for item in items):
        names.insert(0, "tokens")
    # Always fetched: small, and the cheapest witness that the whole computation is finite.
    return ["pooled", *names]


def _run(session: Any, names: Sequence[str], feeds: Outputs, buffers: Outputs) -> Outputs:
    """The outputs named; those that have a buffer are written into it."""
    if not buffers:
        return dict(zip(names, session.run(names, feeds), strict=True))
    binding = session.io_binding()
    for name, array in feeds.items():
        binding.bind_cpu_input(name, array)
    for name in names:
        if name in buffers:
            buffer = buffers[name]
            binding.bind_output(name, "cpu", 0, buffer.dtype.type, buffer.shape, buffer.ctypes.data)
        else:
            binding.bind_output(name)
    session.run_with_iobinding(binding)
    found = zip(names, binding.get_outputs(), strict=True)
    return {name: buffers[name] if name in buffers else value.numpy() for name, value in found}


def cut_out(
    outputs: Outputs,
    row: int,
    item: EncodeItem,
    pooled: Floats | None,
    wanted: Wanted | None,
    unreduced: NDArray[np.float32] | None,
) -> ItemResult:
    """One item's share of a batch's outputs, without padding, copied so that the batch's memory is let go.

    Args:
        outputs: of the graph.
        row: the item's place in the batch.
        item: what is wanted.
        pooled: its vector, as wanted.
        wanted: where attention or hidden states are.
        unreduced: its attention, where the graph has written that to its place.
    """
    n, selection = len(item.ids), item.selection
    rows = slice(n) if item.rows is None else item.rows
    attention: NDArray[Any] | None = unreduced
    indices = scales = hidden = None
    if unreduced is None and wanted is not None and selection.attention is not None:
        attention, indices, scales = wanted.reduced(row, outputs)
    if (states := selection.hidden) is not None:
        tokens = slice(n) if item.states is None else item.states
        parts = [outputs[f"hidden_{layer}"][row, tokens] for layer in states.layers]
        hidden = np.stack(parts, dtype=states.spec.dtype, casting="same_kind")
    return ItemResult(
        pooled=pooled,
        tokens=shape_rows(outputs["tokens"][row, rows], selection.rows) if selection.tokens else None,
        attention=attention,
        hidden=hidden,
        indices=indices,
        scales=scales,
    )


def _zeros_unless(segments: Ids | None, ids: Ids) -> Ids:
    return np.zeros_like(ids) if segments is None else segments


def _open_session(path: str, threads: int, spin: bool) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # In the order of the file: there each layer's maps are selected from before the next layer begins, and let go.
    options.execution_order = onnxruntime.ExecutionOrder.PRIORITY_BASED
    options.log_severity_level = 4  # fatal: all else comes as an exception too, and standard error is for our log alone
    options.add_session_config_entry("session.intra_op.allow_spinning", "1" if spin else "0")
    # A plan of memory would be kept for every shape there ever was, and shapes are many here. Without, batches take as long.
    options.enable_mem_pattern = False
    _share_arena()
    options.add_session_config_entry("session.use_env_allocators", "1")
    # The fused SkipLayerNormalization is 4-9 % slower on CPU than the operations it replaces (bench/results).
    return onnxruntime.InferenceSession(
        path, options, providers=["CPUExecutionProvider"], disabled_optimizers=["SkipLayerNormFusion"]
    )


@functools.cache
def _share_arena() -> None:
    """One pool of memory for all sessions of the process: each of their own would keep what its largest batch needed.

    To ask malloc each time instead takes a seventh longer (large blocks are mapped anew), and to grow by no more than is asked for
    leaves twice as much in pieces that fit nothing.
    """
    kind = onnxruntime.OrtMemoryInfo(
        "Cpu", onnxruntime.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, onnxruntime.OrtMemType.DEFAULT
    )
    onnxruntime.create_and_register_allocator(kind, None)


def _failure(what: str, details: str) -> EngineError:
    """Log the details under an id and return an error that names the id alone."""
    error_id = uuid.uuid4().hex[:12]
    log.error(what, extra={"event": "engine_failed", "error_id": error_id, "details": details})
    return EngineError(f"{what}; see error id {error_id} in the server's log")
