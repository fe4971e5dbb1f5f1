"""Occlusion: the distance that a vector moves when each token is hidden.

The encodings of one input with a hidden token are queued in waves: parts of them, one after the
other, so that other requests run in between.
"""

from __future__ import annotations

import dataclasses
import functools
import time
from typing import TYPE_CHECKING

import numpy as np

from headlight.errors import InvalidInput
from headlight.runtime.attention.occluded_tokens import hidden_tokens
from headlight.runtime.values import Floats, Ids
from headlight_service.core.pipeline import AnswerForm, Encoding, Pipeline
from headlight_service.core.requests.answer import Answer, Timings
from headlight_service.core.requests.request import OcclusionRequest
from headlight_service.core.scheduler.pending_requests import Computed

if TYPE_CHECKING:
    from headlight_service.telemetry.request_trace import RequestTrace

WAVES = 8  # a wave has one part in so many of a full request's tokens: other items run in between


@dataclasses.dataclass(slots=True)
class Occluded(Answer):
    """The answer to an OcclusionRequest.

    Attributes:
        hidden: int64 [m], the tokens that were hidden, m >= 1.
        moved: float32 [m], the distance of the vector from that of the whole input.
    """

    hidden: Ids
    moved: Floats


class Occluding(Encoding):
    """A request of one input, run first whole and then with one token hidden at a time.

    A request that has begun is not shed half way, which would waste computed results. Its waves
    wait if other requests fill the queue.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        request: OcclusionRequest,
        form: AnswerForm,
        trace: RequestTrace | None = None,
    ) -> None:
        super().__init__(pipeline, request, form, trace)
        self._choice = request.hidden
        self._whole: Floats | None = None  # the vector of the whole input
        self._moved = list[float]()
        self._hidden: Ids

    def _measure(self) -> int:
        """Choose the tokens, and return the bytes of the answer besides its data."""
        model, prepared = self._model, self._prepared
        pooling = model.runtime.bundle.manifest.pooling
        self._hidden = hidden_tokens(self._choice, pooling, prepared.inputs[0])
        return self._form.overhead_bytes(model.ref, prepared, self._hidden)

    def _reserve_and_queue(self) -> None:
        """Charge for all waves at once, reserve the answer, and queue the whole input.

        A later charge could refuse the request half way. Then: `_computed`, `_answer`.
        """
        prepared, admission = self._prepared, self._model.admission
        self._stage = "queue"
        work = prepared.tokens * (1 + len(self._hidden))
        with admission.lock:
            admission.check_wait(work, self._time_left(), self.request.priority)
        self._budget.charge(work)
        queue = functools.partial(self._queue, prepared.items)
        self._take_room(queue, self._overhead, prepared.tokens, smaller=lambda room: ("input", ""))

    def _answer(self, computed: Computed) -> None:
        """Take the vectors of a wave. Then: `_next_wave`, or the answer after the last."""
        vectors = [result.pooled for result in computed.results if result.pooled is not None]
        length, hidden = self._prepared.tokens, self._hidden
        if self._whole is None:
            [self._whole] = vectors
            remaining = self.request.deadline - time.monotonic()
            with self._model.admission.lock:
                self._model.admission.check_alone(length * len(hidden), remaining)
        else:
            self._moved += np.linalg.norm(np.stack(vectors) - self._whole, axis=1).tolist()
        if len(self._moved) == len(hidden):
            moved = np.array(self._moved, dtype=np.float32)
            self._finish(Occluded(self._prepared, [], Timings(self._tokenize_ns), hidden, moved))
        else:
            self._next_wave()

    def _next_wave(self) -> None:
        """Queue the next wave once there is room. Then: `_computed`, `_answer`."""
        [item], length = self._prepared.items, self._prepared.tokens
        step = max(1, self._model.limits.max_request_tokens // WAVES // length)
        begin = len(self._moved)
        wave = [
            item._replace(occluded=(int(token),)) for token in self._hidden[begin : begin + step]
        ]
        queue = functools.partial(self._queue, wave)
        self._take_room(queue, 0, length * len(wave), begun=True)

    def _fail(self, error: Exception) -> None:
        super()._fail(of_one_input(error) if isinstance(error, InvalidInput) else error)


def of_one_input(error: InvalidInput) -> InvalidInput:
    """Return the same error for a request of one input, whose field is `input`."""
    return InvalidInput(error.field.replace("inputs[0]", "input"), error.problem)
