"""Occlusion: the distance that a vector moves when each token is hidden."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from headlight.comparison import QUERY_PROMPTS
from headlight.errors import InvalidInput
from headlight.interface.similarity import similarity
from headlight.refusals import Path, moved
from headlight.runtime.comparison.comparison_plan import OccludedUnit
from headlight.runtime.encode_items import ItemResult
from headlight.runtime.occluded_tokens import hidden_tokens
from headlight.runtime.values import Floats, Ids
from headlight_service.core.admission.waiting_list import Fitting
from headlight_service.core.evidence.encoding_waves import WaveEncoding
from headlight_service.core.models import ServedModel
from headlight_service.core.pipeline import AnswerForm, Pipeline
from headlight_service.core.requests.answer import Answer, Timings
from headlight_service.core.requests.request import OcclusionRequest
from headlight_service.core.tokenization import TokenizationJob, sided_job

if TYPE_CHECKING:
    from headlight_service.telemetry.request_trace import RequestTrace

# Names of the inputs: the one whose tokens are hidden, and the target.
NAMES: Mapping[Path, Path] = {
    ("inputs",): ("input",),  # both together
    ("inputs", 0): ("input",),
    ("inputs", 1, "text"): ("target_text",),
}


@dataclasses.dataclass(slots=True)
class Occluded(Answer):
    """The answer to an OcclusionRequest.

    Attributes:
        hidden: int64 [m], the tokens that were hidden, m >= 1.
        moved: float32 [m], the distance of the vector from that of the whole input.
        fall: float32 [m], the fall of the similarity to the target; None: there is none.
        similarity: that of the whole input to the target.
    """

    hidden: Ids
    moved: Floats
    fall: Floats | None = None
    similarity: float = 0.0


class Occluding(WaveEncoding):
    """A request of one input, run first whole and then with one token hidden at a time."""

    request: OcclusionRequest

    def __init__(
        self,
        pipeline: Pipeline,
        request: OcclusionRequest,
        form: AnswerForm,
        trace: RequestTrace | None = None,
    ) -> None:
        super().__init__(pipeline, request, form, trace)
        self._target = request.target
        self._whole: Floats  # the vector of the whole input
        self._moved = list[float]()
        self._similarities = list[float]()
        self._hidden: Ids

    def _job_of(self, model: ServedModel) -> TokenizationJob:
        request = self.request
        if len(request.inputs) == 1:
            return super()._job_of(model)
        prompts = model.runtime.prompts
        own = prompts.choose(request.prompt_name, request.prompt_text)
        of_target = prompts.choose(None, None, QUERY_PROMPTS)
        return sided_job(request, model, own, of_target, with_info=True)

    def _measure(self) -> int:
        """Choose the tokens, and return the bytes of the answer besides its data."""
        model, prepared = self._model, self._prepared
        pooling = model.runtime.bundle.manifest.pooling
        self._hidden = hidden_tokens(self.request.hidden, pooling, prepared.inputs[0])
        self._occluded = [OccludedUnit(0, (token,)) for token in self._hidden.tolist()]
        return self._form.overhead_bytes(model.ref, prepared, self._hidden)

    def _smaller(self, room: int) -> Fitting:
        return "input", {"fits": ""}

    def _take_whole(self, results: Sequence[ItemResult]) -> None:
        first, last = results[0]["pooled"], results[-1]["pooled"]
        self._whole = first
        if len(results) > 1:
            self._target = last
        self._compare(first[None])

    def _take_hidden(self, vectors: Floats) -> None:
        self._moved += np.linalg.norm(vectors - self._whole, axis=1).tolist()
        self._compare(vectors)

    def _compare(self, vectors: Floats) -> None:
        if self._target is not None:
            measure = self._model.runtime.bundle.manifest.similarity
            self._similarities += similarity(measure, self._target, vectors)[0].tolist()

    def _result(self, timings: Timings) -> Answer:
        moved = np.array(self._moved, dtype=np.float32)
        answer = Occluded(self._prepared, [], timings, self._hidden, moved)
        if self._similarities:
            answer.similarity, *rest = self._similarities
            answer.fall = np.float32(answer.similarity) - np.array(rest, np.float32)
        return answer

    def _fail(self, error: Exception) -> None:
        if isinstance(error, InvalidInput):
            error = error.at(moved(error.refusal.path, NAMES))
        super()._fail(error)
