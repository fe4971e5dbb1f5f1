"""Occlude: the distance that a vector moves when each token is hidden."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headlight.refusals import Path
from headlight.runtime.encode_items import EncodeItem, Selection
from headlight.runtime.occluded_tokens import hidden_tokens
from headlight.runtime.plans.occlude import occlude
from headlight_service.core.models import ServedModel
from headlight_service.core.requests.request import VECTORS, OcclusionRequest
from headlight_service.core.slices import Slices
from headlight_service.core.tasks.task import WAVES, Work, numbers_answer, prepare
from headlight_service.core.tokenization import TokenizationJob, encoding_job, sided_job

# Names of the inputs: the one whose tokens are hidden, and the target.
NAMES: Mapping[Path, Path] = {
    ("inputs",): ("input",),  # both together
    ("inputs", 0): ("input",),
    ("inputs", 1, "text"): ("target_text",),
}


class Occlude:
    """The task of an `OcclusionRequest`."""

    def names(self, request: OcclusionRequest) -> Mapping[Path, Path]:
        """Return the names of input and target."""
        return NAMES

    def job(
        self, request: OcclusionRequest, model: ServedModel, selection: Selection
    ) -> TokenizationJob:
        """Return what to tokenise."""
        if len(request.inputs) == 1:
            return encoding_job(request, model, selection)
        prompts = model.runtime.prompts
        first = prompts.choose(request.prompt_name, request.prompt_text)
        target = prompts.choose(None, None, "query")
        return sided_job(request, model, first, target, with_info=True, query_first=False)

    def work(
        self,
        request: OcclusionRequest,
        model: ServedModel,
        selection: Selection,
        job: TokenizationJob,
        slices: Slices,
        items: Sequence[EncodeItem],
    ) -> Work:
        """Choose the tokens to hide."""
        manifest = model.runtime.bundle.manifest
        hidden = hidden_tokens(request.hidden, manifest.pooling, slices.inputs[0])
        plan = occlude(
            items,
            hidden,
            request.target,
            manifest.similarity,
            model.select(VECTORS),
            most_tokens=model.limits.max_request_tokens // WAVES,
        )
        return Work(
            prepare(request, model, selection, slices.inputs, items),
            plan,
            numbers_answer,
            {},
            lambda room: ("input", {"fits": ""}),
            details=hidden,
            wave_tokens=len(hidden) * len(items[0].ids),
        )
