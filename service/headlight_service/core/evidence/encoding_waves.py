"""Encodings with hidden tokens, queued in waves.

A wave is a part of them. Waves are queued one after the other, so that other requests run in
between. All but the first are queued as bulk, where clients take turns: the neighbours of many such
requests wait for at most one batch of them.
"""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Sequence

import numpy as np

from headlight.runtime.comparison.comparison_plan import OccludedUnit, hidden_item
from headlight.runtime.encode_items import EncodeItem, ItemResult
from headlight.runtime.values import Floats
from headlight_service.core.pipeline import Encoding
from headlight_service.core.requests.answer import Answer, Timings
from headlight_service.core.requests.request import VECTORS
from headlight_service.core.scheduler.pending_requests import Computed

WAVES = 8  # a wave has one part in so many of a full request's tokens: other items run in between


class WaveEncoding(Encoding):
    """A request whose inputs are run first whole, and then with hidden tokens.

    A request that has begun is not shed half way, which would waste computed results. Its waves
    wait if other requests fill the queue.
    """

    _occluded: Sequence[OccludedUnit] = ()  # set by _measure
    _begun = False
    _done = 0  # occluded units that are computed
    _queue_ns = _infer_ns = 0

    @property
    def _hidden_work(self) -> int:
        """Tokens of all waves."""
        items = self._prepared.items
        return sum([len(items[unit.item].ids) for unit in self._occluded])

    @property
    def _work(self) -> int:
        return self._prepared.tokens + self._hidden_work

    def _reserve_answer(self) -> None:
        """Charge for all waves at once: a later charge could refuse the request half way."""
        if self._occluded:
            model, admission = self._model, self._model.admission
            with admission.lock:
                admission.check_wait(
                    model.estimate, self._work, self._time_left(), self.request.priority
                )
        super()._reserve_answer()

    def _answer(self, computed: Computed) -> None:
        """Take the results of a wave. Then: `_next_wave`, or the answer after the last."""
        self._queue_ns += computed.queue_ns
        self._infer_ns += computed.infer_ns
        if not self._begun:
            self._begun = True
            self._take_whole(computed.results)
            if self._occluded:
                self._check_alone(self._hidden_work)
        else:
            vectors = [each.pooled for each in computed.results if each.pooled is not None]
            self._done += len(vectors)
            self._take_hidden(np.stack(vectors))
        if self._done == len(self._occluded):
            total_ns = time.monotonic_ns() - self._arrived_ns
            timings = Timings(self._tokenize_ns, self._queue_ns, self._infer_ns, total_ns)
            self._finish(self._result(timings))
        else:
            self._next_wave()

    def _next_wave(self) -> None:
        """Queue the next wave once there is room. Then: `_computed`, `_answer`."""
        items, model = self._prepared.items, self._model
        vectors, most = model.select(VECTORS), model.limits.max_request_tokens // WAVES
        wave, tokens = list[EncodeItem](), 0
        for unit in itertools.islice(self._occluded, self._done, None):
            length = len(items[unit.item].ids)
            if wave and tokens + length > most:
                break
            wave.append(hidden_item(items[unit.item], unit, vectors))
            tokens += length
        self._take_room(functools.partial(self._queue, wave, begun=True), 0, tokens, begun=True)

    def _take_whole(self, results: Sequence[ItemResult]) -> None:
        """Take the results of the whole inputs."""
        raise NotImplementedError

    def _take_hidden(self, vectors: Floats) -> None:
        """Take the vectors of the next occluded units: float32 [m, D]."""
        raise NotImplementedError

    def _result(self, timings: Timings) -> Answer:
        """Return the answer."""
        raise NotImplementedError
