"""Compare: a query with passages.

Its inputs are the query and the passages, or the pairs of both if the model reranks.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from headlight.errors import InvalidInput, Reason, renamed
from headlight.interface.comparison_arguments import (
    PASSAGE,
    QUERY,
    check_no_prompt,
    side_names,
)
from headlight.interface.scoring import pair_names
from headlight.refusals import Path
from headlight.runtime.comparison.comparison_layout import (
    SCORED_BY,
    check_additive,
    evidence_names,
    layout_of,
    scores,
)
from headlight.runtime.encode_items import EncodeItem, Selection
from headlight.runtime.plans.compare import compare
from headlight_service.core.admission.admission_control import largest_output
from headlight_service.core.models import ServedModel
from headlight_service.core.requests.request import ComparisonRequest, OutputSpec
from headlight_service.core.slices import Slices
from headlight_service.core.tasks.task import WAVES, Work, numbers_answer, prepare
from headlight_service.core.tokenization import TokenizationJob, encoding_job, sided_job

SCORES = {name: OutputSpec(**scores(name)) for name in SCORED_BY}


class Compare:
    """The task of a `ComparisonRequest`. Its answer has no token vectors, only their cosines."""

    def names(self, request: ComparisonRequest) -> Mapping[Path, Path]:
        """Return the names of query, passages and evidence."""
        count = len(request.inputs)
        sides = (
            pair_names(count, "passages", text=True) if request.of_pairs else side_names(count - 1)
        )
        return evidence_names(request.spec) | sides

    def job(
        self, request: ComparisonRequest, model: ServedModel, selection: Selection
    ) -> TokenizationJob:
        """Return what to tokenise."""
        if request.of_pairs:
            return self._job_of_pairs(request, model, selection)
        choose = model.runtime.prompts.choose
        with renamed(QUERY):
            first = choose(request.query_prompt_name, request.query_prompt_text, "query")
        with renamed(PASSAGE):
            others = choose(request.prompt_name, request.prompt_text, "document")
        return sided_job(request, model, first, others, with_info=request.spec.details)

    def _job_of_pairs(
        self, request: ComparisonRequest, model: ServedModel, selection: Selection
    ) -> TokenizationJob:
        prompt = request.query_prompt_name, request.query_prompt_text
        with renamed(QUERY):
            model.runtime.check_pair_prompt(*prompt)
        with renamed(PASSAGE):
            check_no_prompt(
                {"prompt_name": request.prompt_name, "prompt_text": request.prompt_text}
            )
        side = dataclasses.replace(request, prompt_name=prompt[0], prompt_text=prompt[1])
        return encoding_job(side, model, selection)._replace(sliced=False)

    def work(
        self,
        request: ComparisonRequest,
        model: ServedModel,
        selection: Selection,
        job: TokenizationJob,
        slices: Slices,
        items: Sequence[EncodeItem],
    ) -> Work:
        """Choose the tokens to compare and to hide."""
        manifest = model.runtime.bundle.manifest
        output, head = model.description.score_output, model.runtime.engine.head
        check_additive(request.spec, head, manifest.architecture.dim)
        layout = layout_of(request.spec, manifest, output, slices.inputs, request.inputs)
        if not request.dry_run:
            layout.check_max_bytes()
        items = layout.items(items)
        prepared = prepare(request, model, selection, slices.inputs, items)
        held = prepared.data_bytes + layout.cosine_bytes

        def check_size(size: int) -> None:
            most = largest_output(model.admission.outputs.limit)
            if held + size > most:
                raise InvalidInput("passages", Reason.PASSAGES_BYTES, size=held + size, most=most)

        plan = compare(
            layout,
            items,
            model.select(SCORES[output]),
            head,
            most_tokens=model.limits.max_request_tokens // WAVES,
        )
        return Work(
            dataclasses.replace(prepared, data_bytes=held, held_bytes=held),
            plan,
            numbers_answer,
            {"comparison": layout.data_bytes},
            lambda room: ("passages", {"fits": ""}),
            details=layout,
            check_size=check_size,
            wave_tokens=layout.hidden_tokens([len(each.ids) for each in items]),
            intermediate_bytes=held,
        )
