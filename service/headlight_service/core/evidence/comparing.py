"""Comparison of a query with passages: one request, whose inputs are the query and the passages."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, cast

from headlight.comparison import PASSAGE_PROMPTS, QUERY_PROMPTS, CompareSpec
from headlight.errors import InvalidInput, Reason, renamed
from headlight.interface.comparison_arguments import PASSAGE, QUERY, side_names
from headlight.refusals import moved
from headlight.results import ModelRef
from headlight.runtime.comparison.comparison_plan import (
    ComparisonPlan,
    evidence_names,
    plan_comparison,
)
from headlight.runtime.comparison.passage_comparison import ComparisonNumbers, PassageNumbers
from headlight.runtime.encode_items import ItemResult, output_bytes
from headlight.runtime.values import Floats
from headlight_service.core.admission.admission_control import largest_output
from headlight_service.core.admission.answer_window import AnswerWindow
from headlight_service.core.admission.waiting_list import Fitting
from headlight_service.core.evidence.encoding_waves import WaveEncoding
from headlight_service.core.models import ServedModel
from headlight_service.core.pipeline import AnswerForm, Pipeline
from headlight_service.core.requests.answer import Answer, Prepared, Timings
from headlight_service.core.requests.request import ComparisonRequest
from headlight_service.core.tokenization import TokenizationJob, sided_job

if TYPE_CHECKING:
    from headlight_service.telemetry.request_trace import RequestTrace


@dataclasses.dataclass(slots=True)
class Compared(Answer):
    """The answer to a ComparisonRequest.

    Attributes:
        spec: the request.
        passages: their numbers, in the order of the answer.
    """

    spec: CompareSpec
    passages: list[PassageNumbers]


class ComparisonForm(Protocol):
    """Size of one answer, as the frontend's protocol encodes it."""

    def overhead_bytes(self, ref: ModelRef, prepared: Prepared, plan: ComparisonPlan) -> int:
        """Return the bytes of an answer, its data included.

        Raises:
            InvalidInput: the protocol cannot carry the answer.
        """


class Comparing(WaveEncoding):
    """A comparison. Until it is computed, the token vectors count as bytes of the answer."""

    request: ComparisonRequest

    def __init__(
        self,
        pipeline: Pipeline,
        request: ComparisonRequest,
        form: ComparisonForm,
        trace: RequestTrace | None = None,
        window: AnswerWindow | None = None,
        *,
        when_queued: Callable[[], object] | None = None,
    ) -> None:
        """Prepare as described at `Pipeline.submit`."""
        unused = cast("AnswerForm", form)
        super().__init__(pipeline, request, unused, trace, window, when_queued=when_queued)
        self._comparison_form = form
        self._numbers: ComparisonNumbers
        self._plan: ComparisonPlan

    def _job_of(self, model: ServedModel) -> TokenizationJob:
        request, choose = self.request, model.runtime.prompts.choose
        with renamed(QUERY):
            before = choose(request.query_prompt_name, request.query_prompt_text, QUERY_PROMPTS)
        with renamed(PASSAGE):
            others = choose(request.prompt_name, request.prompt_text, PASSAGE_PROMPTS)
        return sided_job(request, model, before, others, with_info=request.spec.details)

    def _measure(self) -> int:
        """Plan the comparison, and return the bytes of the answer."""
        model, prepared, request = self._model, self._prepared, self.request
        manifest = model.runtime.bundle.manifest
        self._plan = plan = plan_comparison(request.spec, manifest, prepared.inputs, request.inputs)
        if not request.dry_run:
            plan.check_max_bytes()
        self._occluded, self._numbers = plan.occluded, ComparisonNumbers(plan)
        prepared.items = plan.items(prepared.items)
        prepared.output_bytes = output_bytes(prepared.items, manifest.architecture)
        held = sum(prepared.output_bytes.values()) + plan.cosine_bytes
        prepared.data_bytes = prepared.held_bytes = held
        size = self._comparison_form.overhead_bytes(model.ref, prepared, plan)
        most = largest_output(model.admission.outputs.limit)
        if held + size > most and not request.dry_run:
            raise InvalidInput("passages", Reason.PASSAGES_BYTES, size=held + size, most=most)
        return size

    @property
    def _window_size(self) -> int:
        return self._prepared.data_bytes + self._overhead

    def _smaller(self, room: int) -> Fitting:
        return "passages", {"fits": ""}

    def _take_whole(self, results: Sequence[ItemResult]) -> None:
        self._numbers.take_whole(results)
        # No vectors are held any more.
        self._budget.give_back_answer(self._prepared.data_bytes)
        self._leave_window(self._overhead)

    def _take_hidden(self, vectors: Floats) -> None:
        self._numbers.take_hidden(vectors)

    def _result(self, timings: Timings) -> Answer:
        return Compared(self._prepared, [], timings, self._plan.spec, self._numbers.passages())

    def _count(self, answer: Answer) -> None:
        if isinstance(answer, Compared):  # no dry run
            self._model.metrics.output_bytes["comparison"].inc(self._plan.data_bytes)
            self._count_times(answer.timings)

    def _fail(self, error: Exception) -> None:
        if isinstance(error, InvalidInput):
            request = self.request
            names = evidence_names(request.spec) | side_names(len(request.inputs) - 1)
            error = error.at(moved(error.refusal.path, names))
        super()._fail(error)
