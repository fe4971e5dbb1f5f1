"""Engine: computes the results of one batch, called from any number of threads.

It has no requests, no queue and no event loop.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from headlight.errors import HeadlightError, HostFull, NotFinite
from headlight.outputs.output import Work
from headlight.outputs.registry import OUTPUTS
from headlight.outputs.vector_forms import ZEROS
from headlight.runtime.bundle.bundle import Bundle
from headlight.runtime.encode_items import EncodeItem, ItemResult, Selection, everything
from headlight.runtime.engine.batches import (
    BATCH_TOKENS,
    Rounding,
    all_finite,
    finite_rows,
    is_usable,
    pad,
    plan,
)
from headlight.runtime.engine.head_layers import NOT_FINITE, HeadLayers
from headlight.runtime.providers.cuda_session import Gpu
from headlight.runtime.providers.device_faults import Faults, logged_message
from headlight.runtime.providers.provider_choice import ANY_GPU, least_rounding, open_graph
from headlight.runtime.providers.session import Session
from headlight.runtime.providers.worker_layout import Workers
from headlight.runtime.values import Arrays, GraphRole


class Engine:
    """The sessions of a bundle on one provider, in one precision.

    Attributes:
        graph_roles: the graphs loaded that encode.
        head: the layers behind pooling, if the bundle has a graph of them.
        rounding: the rule for the padded length of its batches.
        batch_tokens: most padded tokens of a batch of `run_in_batches`.
        faults: classifies failures. Its `probe` tests a suspected GPU.
        wide_roles: roles whose batches can be exclusive: such a batch uses all threads, and others
            those of one worker.
    """

    def __init__(
        self,
        bundle: Bundle,
        *,
        provider: str,
        precision: str,
        workers: Workers,
        attend: bool = True,
        gpu: Gpu = ANY_GPU,
    ) -> None:
        """Open the graphs.

        Args:
            bundle: the verified bundle.
            provider, precision: a pair that the bundle has graphs for.
            workers: threads that run batches.
            attend: also load the graph that returns attention and hidden states.
            gpu: for provider "cuda".

        Raises:
            BundleError: the bundle has no such graph, or it cannot be opened.
        """
        self.architecture = bundle.manifest.architecture
        self._normalize = bundle.manifest.normalize
        self.rounding = Rounding(least_rounding(provider, precision), bundle.manifest.max_length)
        self.batch_tokens = BATCH_TOKENS
        self.faults = Faults(
            gpu=provider == "cuda",
            vocabulary=self.architecture.vocab_size,
            segments=self.architecture.segments,
            longest=bundle.manifest.max_length,
        )
        self._title = f"{bundle.manifest.name} {bundle.manifest.version} on {provider}/{precision}"
        self._sessions: dict[GraphRole, Session] = {}
        self._workers = workers
        # Of all callers of `run_in_batches` together: more batches at once than there are workers
        # are slower. Its threads start with the first batch.
        self._threads = ThreadPoolExecutor(workers.streams)
        narrow = Workers(workers.streams, workers.threads)
        workers_of: dict[GraphRole, Workers] = {"embed": workers}
        if attend:
            workers_of["attend"] = (
                Workers(1, workers.all, in_turn=True)
                if workers.lent
                else dataclasses.replace(narrow, copy=workers.copy_attend)
            )
        for role, role_workers in workers_of.items():
            graph = bundle.manifest.graph(role, provider, precision)
            self._sessions[role] = open_graph(bundle, graph, provider, precision, role_workers, gpu)
        head = bundle.manifest.head(provider)
        self.head = HeadLayers(
            None
            if head is None
            else open_graph(bundle, head, provider, head.precision, narrow, gpu),
            self.faults,
            self._title,
        )
        self.graph_roles = frozenset(self._sessions)
        wide: dict[GraphRole, bool] = {
            "embed": workers.copy or workers.lent,
            "attend": workers.copy_attend or workers.lent,
        }
        self.wide_roles: frozenset[GraphRole] = frozenset(role for role in wide if wide[role])
        self._callers, self._counting = 0, threading.Lock()  # of `run_in_batches`

    def close(self) -> None:
        """Give the memory of the graphs back. No batch may run afterwards."""
        self._threads.shutdown(cancel_futures=True)
        self._sessions = {}
        self.head.close()

    def selections(self, embedding: Selection) -> list[Selection]:
        """Return a selection for each loaded graph: `embedding`, and all outputs of the other."""
        return (
            [embedding, everything(self.architecture)]
            if "attend" in self.graph_roles
            else [embedding]
        )

    def has_other_session(self, role: GraphRole) -> bool:
        """Return whether an exclusive batch of this role runs on another session."""
        return role in self.wide_roles and not (role == "attend" and self._workers.lent)

    def graph(self, role: GraphRole, *, wide: bool) -> GraphRole:
        """Return the graph that a batch of this role runs on.

        An "embed" batch with all threads may run on "attend"; see `Workers.lent`.
        """
        return "attend" if wide and self._workers.lent else role

    def run(self, items: Sequence[EncodeItem], *, wide: bool = False) -> list[ItemResult]:
        """Encode one batch.

        Args:
            items: at least one, all of the same role, their ids valid and their layers in range.
            wide: use all threads, if there is a session for that. Set it only for a batch that
                shares them with no other interactive batch.

        Raises:
            EngineError: the engine failed. The details are in the log.
            NotFinite: results of some items are not finite, or a vector of zeros has no unit
                length; the exception has those of the others.
            DeviceLost: a GPU failed and must not be used again; every later call raises it too.
            DeviceFull: the GPU's memory is too small for the batch; smaller batches still work.
            HostFull: the process's memory is too small for the batch.
        """
        if self.faults.gpu:
            self.faults.check()
        try:
            results = self._run(items, wide=wide)
        except NotFinite:
            self.faults.check()  # the exception carries the results of the other items
            raise
        except HeadlightError:
            raise
        except Exception as error:  # libraries raise many types, none of them a base of the others
            failure = self.faults.of(error)
            if isinstance(failure, HostFull):  # give back the memory that the batch did get
                with contextlib.suppress(Exception):
                    self.shrink()
            raise failure from error
        if self.faults.gpu:
            self.faults.check()  # another batch may have lost the device meanwhile
        return results

    def run_in_batches(self, items: Sequence[EncodeItem]) -> list[ItemResult]:
        """Encode any number of items of one role, in batches of similar lengths.

        As many batches run at once as there are workers (`Workers.streams`), for all callers
        together. A lone batch runs at once, on all threads if there is no other caller.

        Returns:
            One result per item, in their order.

        Raises:
            EngineError, DeviceFull: see `run`.
        """
        squared = bool(items) and items[0].role == "attend"  # all items have one role
        lengths = [self.rounding.up(len(item.ids)) for item in items]
        batches = plan(lengths, squared=squared, tokens=self.batch_tokens)
        with self._counting:
            self._callers += 1
            alone = self._callers == 1
        try:
            if len(batches) == 1:
                return self.run(items, wide=alone)
            answers = list(
                self._threads.map(lambda rows: self.run([items[row] for row in rows]), batches)
            )
        finally:
            with self._counting:
                self._callers -= 1
        results = dict(zip(itertools.chain(*batches), itertools.chain(*answers), strict=True))
        return [results[row] for row in range(len(items))]

    def _run(self, items: Sequence[EncodeItem], *, wide: bool) -> list[ItemResult]:
        role, buffers = self.graph(items[0].role, wide=wide), Arrays()
        feeds, works = self._feeds(role, items)
        if works and not any(work.runs for work in works):
            return [
                ItemResult(part for work in works for part in work.cut(row, {}).items())
                for row in range(len(items))
            ]
        for work in works:
            buffers |= work.buffers()
        if self.faults.gpu:
            self.faults.check_feeds(feeds)
        with self._sessions[role].run(output_names(works), feeds, buffers, wide=wide) as outputs:
            return self._results(items, outputs, works)

    def _results(
        self, items: Sequence[EncodeItem], outputs: Arrays, works: Sequence[Work]
    ) -> list[ItemResult]:
        """Return each item's requested outputs from those of the batch.

        Raises:
            NotFinite, DeviceLost: outputs are not finite, or a vector of zeros has no unit length.
        """
        finite = all_finite(outputs)
        whole, good = outputs["pooled"], np.ones(len(items), dtype=np.bool_)
        if not finite:
            good = finite_rows(items, outputs)  # all, if only padding is not finite
            whole = np.where(good[:, None], whole, np.float32(0))
            outputs = {**outputs, "pooled": whole}
        results: list[ItemResult | None] = [None] * len(items)
        for row, item in enumerate(items):
            if not good[row]:
                continue
            result = ItemResult()
            for work in works:
                result.update(work.cut(row, outputs))
            if is_usable(item, result, self._normalize):
                results[row] = result
        usable = [result for result in results if result is not None]
        if finite and len(usable) == len(items):
            return usable
        problem = ZEROS if good.all() else NOT_FINITE
        details = (
            f"{len(items) - len(usable)} of {len(items)} rows, role {items[0].role}, {self._title}"
        )
        # The first entries alone may be zeros, as after a ReLU: that is no fault of a device.
        suspicious = not finite or not whole.any(axis=1).all()
        if suspicious and (lost := self.faults.judge(problem, details)) is not None:
            raise lost
        if len(usable) < len(items):
            raise NotFinite(logged_message(problem, details), results)
        return usable

    def warm_up(self, lengths: Iterable[int]) -> None:
        """Run every graph at each length, on each worker and on all threads.

        Otherwise the first requests would wait for the slower first runs.
        """
        # The runs are sequential, and the workers alternate.
        ways = [False] * self._workers.streams + [True] * bool(self.wide_roles)
        selections = self.selections(everything(self.architecture, "embed"))
        for length, selection, wide in itertools.product(lengths, selections, ways):
            ids = np.zeros(min(length, self.rounding.most), dtype=np.int64)
            self.run([EncodeItem(ids, selection)], wide=wide)
        self.shrink()  # most requests need less memory than the warm-up

    def shrink(self) -> None:
        """Give back the memory of earlier batches.

        Do not call it after every batch: the next would have to allocate it again.
        """
        item = EncodeItem(np.zeros(1, dtype=np.int64), Selection())
        for role, session in self._sessions.items():
            # On a GPU each session has its own arena; on a CPU they share one.
            if role == "embed" or self.faults.gpu:
                session.shrink(self._feeds(role, [item])[0])

    def _feeds(self, role: GraphRole, items: Sequence[EncodeItem]) -> tuple[Arrays, list[Work]]:
        """Return the inputs of a graph, and the work of each requested output.

        Inputs that no item sets get defaults that have no effect.
        """
        ids, mask = pad([item.ids for item in items], self.rounding)
        for row, item in enumerate(items):
            if item.occluded:
                mask[row, item.occluded] = 0
        feeds: Arrays = {"ids": ids, "mask": mask}
        if "pool_mask" in self._sessions[role].inputs:
            feeds["pool_mask"] = mask.copy()
            for row, item in enumerate(items):
                feeds["pool_mask"][row, : item.left_out] = 0
        if "segments" in self._sessions[role].inputs:
            segments = [
                np.zeros_like(item.ids) if item.segments is None else item.segments
                for item in items
            ]
            feeds["segments"], _ = pad(segments, self.rounding)
        if role == "attend":
            shape = (len(items), self.architecture.layers, self.architecture.heads)
            feeds["head_mask"] = np.ones(shape, dtype=np.float32)
            for row, item in enumerate(items):
                if item.head_mask is not None:
                    feeds["head_mask"][row] = item.head_mask
        requested = set().union(*[item.selection for item in items])
        works = [
            output.begin(items, self.architecture, ids.shape[1], self._normalize, self.faults.gpu)
            for name, output in OUTPUTS.items()
            if name in requested or (output.selects and output.role == role)
        ]
        for work in works:
            feeds |= work.feeds()
        return feeds, works


def output_names(works: Sequence[Work]) -> list[str]:
    """Return the graph outputs that a batch needs, each once."""
    # "pooled" is always fetched: it is small, and the cheapest check that all numbers are finite.
    return list(dict.fromkeys(["pooled", *[name for work in works for name in work.names]]))
