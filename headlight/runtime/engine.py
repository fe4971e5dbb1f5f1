"""A batch in, results out. Knows no requests, no queue and no event loop; called by as many threads as one likes."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headlight.errors import BundleError, HeadlightError
from headlight.runtime.bundle import Bundle
from headlight.runtime.faults import Faults
from headlight.runtime.gpu import Gpu
from headlight.runtime.interface import check_interface
from headlight.runtime.items import EncodeItem, ItemResult, Selection
from headlight.runtime.providers import ANY_GPU, open_session
from headlight.runtime.rounding import AS_LONG, Rounding
from headlight.runtime.selectors import Wanted
from headlight.runtime.session import Outputs, Session
from headlight.runtime.values import Floats, Ids, Role
from headlight.runtime.vectors import shape_pooled, shape_rows
from headlight.runtime.workers import Workers


def pad(
    sequences: Sequence[NDArray[np.int64]], rounding: Rounding = AS_LONG
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Right-pad to the longest, rounded. Returns ids int64 [B, S] (padding 0) and mask int64 [B, S] (1 for a token)."""
    lengths = [len(sequence) for sequence in sequences]
    here = np.arange(rounding.up(max(lengths))) < np.array(lengths)[:, None]
    ids = np.zeros(here.shape, dtype=np.int64)
    ids[here] = np.concatenate(sequences)  # row by row
    return ids, here.astype(np.int64)


class Engine:
    """The sessions of a bundle on one provider, in one precision.

    Attributes:
        roles: the graphs loaded.
        wide_roles: those whose batches can have all threads, while others have those of a stream.
    """

    def __init__(
        self,
        bundle: Bundle,
        *,
        provider: str,
        precision: str,
        workers: Workers,
        attend: bool = True,
        round_lengths: int = 1,
        gpu: Gpu = ANY_GPU,
    ) -> None:
        """Open the graphs.

        Args:
            bundle: verified.
            provider, precision: a pair that the bundle has graphs for.
            workers: threads that work on batches.
            attend: also load the graph that returns attention and hidden states.
            round_lengths: pad batches to a multiple of so many tokens, within what the model takes.
            gpu: for provider "cuda".

        Raises:
            BundleError: the bundle has no such graph, or it cannot be opened.
        """
        self.architecture = bundle.manifest.architecture
        self._normalize = bundle.manifest.normalize
        self._rounding = Rounding(round_lengths, bundle.manifest.max_length)
        self._faults = Faults(
            gpu=provider == "cuda",
            vocabulary=self.architecture.vocab_size,
            segments=self.architecture.segments,
            longest=bundle.manifest.max_length,
        )
        self._sessions: dict[Role, Session] = {}
        roles: tuple[Role, ...] = ("embed", "attend") if attend else ("embed",)
        self._lent = workers.lent and attend
        for role in roles:
            graph = bundle.manifest.graph(role, provider, precision)
            own = workers if role == "embed" else _for_attention(workers)
            try:
                self._sessions[role] = open_session(bundle.file(graph.file), provider, precision, own, gpu)
            except BundleError:
                raise
            except Exception as error:  # libraries raise many types; at start-up their words reach the operator alone
                words = " ".join(str(error).split())
                raise BundleError(f"cannot be opened on provider {provider}: {words:.300}", graph.file) from error
            check_interface(self._sessions[role], graph, bundle.manifest)
        self.roles = frozenset(self._sessions)
        self.wide_roles: frozenset[Role] = self.roles if self._lent else frozenset(("embed",) if workers.apart else ())

    def graph(self, role: Role, *, wide: bool) -> Role:
        """The graph that a batch of this role runs on: one of "embed" that has all threads may run on "attend", see `Wide`."""
        return "attend" if wide and self._lent else role

    def run(self, items: Sequence[EncodeItem], *, wide: bool = False) -> list[ItemResult]:
        """Encode one batch.

        Args:
            items: at least one, all of the same role, their ids valid and their layers in range.
            wide: on all threads, where there is a session for that: for a batch that shares them with no other that is waited for.

        Raises:
            EngineError: the engine failed, or a result is not finite. The details are in the log.
            DeviceLost: the same of a GPU, which is not to be asked again; from then on, always.
            DeviceFull: a GPU has not the memory for so large a batch; it can go on with smaller ones.
        """
        self._faults.check()
        role, architecture = self.graph(items[0].role, wide=wide), self.architecture
        feeds, names, wanted = self._feeds(role, items), output_names(items), None
        if role == "attend":
            wanted = Wanted(items, architecture.layers, architecture.heads, feeds["ids"].shape[1])
            feeds |= wanted.feeds()
            names += wanted.outputs
        self._faults.check_feeds(feeds)
        unreduced = wanted.unreduced() if wanted is not None else None
        buffers = wanted.buffers(unreduced) if wanted is not None and unreduced is not None else {}
        try:
            with self._sessions[role].run(names, feeds, buffers, wide=wide) as outputs:
                results = self._results(items, outputs, wanted, unreduced)
        except HeadlightError:
            raise
        except Exception as error:  # libraries raise many types, none of them a base of the others
            raise self._faults.of(error) from error
        self._faults.check()  # another batch may have found out meanwhile
        return results

    def _results(
        self,
        items: Sequence[EncodeItem],
        outputs: Outputs,
        wanted: Wanted | None,
        unreduced: NDArray[np.float32] | None,
    ) -> list[ItemResult]:
        """What each item wants of a batch's outputs. Raises EngineError where these are not finite."""
        if not all(np.isfinite(outputs[name]).all() for name in ("pooled", "tokens") if name in outputs):
            raise self._faults.not_finite(f"role {items[0].role}, batch of {len(items)}")
        first = items[0].selection
        if first.vectors_alone and all(item.selection is first for item in items):  # mostly
            alike = [first.vector if first.pooled else None] * len(items)
            return [ItemResult(vector) for vector in shape_pooled(outputs["pooled"], alike, self._normalize)]
        vectors = [item.selection.vector if item.selection.pooled else None for item in items]
        pooled = shape_pooled(outputs["pooled"], vectors, self._normalize)
        return [cut_out(outputs, row, item, pooled[row], wanted, unreduced) for row, item in enumerate(items)]

    def shrink(self) -> None:
        """Give back the memory that batches before needed. Not for every batch: the next would have to ask for it again."""
        self._sessions["embed"].shrink(self._feeds("embed", [EncodeItem(np.zeros(1, dtype=np.int64), Selection())]))

    def _feeds(self, role: Role, items: Sequence[EncodeItem]) -> Outputs:
        """The inputs of a graph. Those that no item sets stand for "as if the graph had no such input"."""
        ids, mask = pad([item.ids for item in items], self._rounding)
        for row, item in enumerate(items):
            if item.occluded is not None:
                mask[row, item.occluded] = 0
        feeds: Outputs = {"ids": ids, "mask": mask}
        if "pool_mask" in self._sessions[role].inputs:
            feeds["pool_mask"] = mask.copy()
            for row, item in enumerate(items):
                feeds["pool_mask"][row, : item.left_out] = 0
        if "segments" in self._sessions[role].inputs:
            feeds["segments"], _ = pad([_zeros_unless(item.segments, item.ids) for item in items], self._rounding)
        if role == "attend":
            ones = np.ones((self.architecture.layers, self.architecture.heads), dtype=np.float32)
            feeds["head_mask"] = np.stack([ones if item.head_mask is None else item.head_mask for item in items])
        return feeds


def _for_attention(workers: Workers) -> Workers:
    """What answers with attention is large, and its callers wait for more than the engine: no second copy of weights."""
    if workers.lent:
        return dataclasses.replace(workers, streams=1, threads=workers.all)
    return dataclasses.replace(workers, wide="none")


def output_names(items: Sequence[EncodeItem]) -> list[str]:
    """The graph outputs that a batch needs beside those of attention: the union of its items' selections."""
    states = sorted({layer for item in items if item.selection.hidden for layer in item.selection.hidden.layers})
    names = [f"hidden_{layer}" for layer in states]
    if any(item.selection.tokens for item in items):
        names.insert(0, "tokens")
    # Always fetched: small, and the cheapest witness that the whole computation is finite.
    return ["pooled", *names]


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
