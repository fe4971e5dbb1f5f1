"""Encode: the requested outputs of each input."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from headlight.refusals import Path
from headlight.runtime.encode_items import EncodeItem, ItemResult, Selection
from headlight.runtime.plans.plan import Plan, encode, encode_spans
from headlight.runtime.values import Tokenized
from headlight.spec import NUMBER_BYTES
from headlight_service.core.admission.waiting_list import Fitting
from headlight_service.core.models import ServedModel
from headlight_service.core.requests.answer import Answer, Prepared
from headlight_service.core.requests.request import Request
from headlight_service.core.slices import Slices
from headlight_service.core.tasks.task import Work, prepare
from headlight_service.core.tokenization import (
    TokenizationJob,
    encoding_job,
    items_of,
    span_sizes,
    spans_of,
)


class Encode:
    """The task of a `Request`. Vectors and scores of many inputs are computed in slices."""

    def names(self, request: Request) -> Mapping[Path, Path]:
        """Return no names: the core's are the contract's."""
        return {}

    def job(self, request: Request, model: ServedModel, selection: Selection) -> TokenizationJob:
        """Return what to tokenise."""
        return encoding_job(request, model, selection)

    def work(
        self,
        request: Request,
        model: ServedModel,
        selection: Selection,
        job: TokenizationJob,
        slices: Slices,
        items: Sequence[EncodeItem],
    ) -> Work:
        """Return what to compute, and how much it is."""
        if "spans" in selection:
            return self._spans(request, model, selection, job, slices.inputs, items)
        if slices.more:
            return self._sliced(request, model, selection, job, slices, items)
        prepared = prepare(request, model, selection, slices.inputs, items)
        return _work(prepared, encode([items]))

    def _spans(
        self,
        request: Request,
        model: ServedModel,
        selection: Selection,
        job: TokenizationJob,
        inputs: list[Tokenized],
        items: Sequence[EncodeItem],
    ) -> Work:
        manifest = model.runtime.bundle.manifest
        spans = spans_of(job, inputs, items, selection, model.max_length)
        count, sum_bytes = span_sizes(spans, manifest.architecture.dim)
        windows = [item for each in spans for item in each.items]
        prepared = prepare(
            request,
            model,
            selection,
            inputs,
            windows,
            least_queued=count,
            least_held=sum_bytes,
            spans=spans,
        )
        plan = encode_spans(spans, model.runtime.engine.head, normalize=manifest.normalize)
        return _work(prepared, plan, prepared.held_bytes - prepared.data_bytes)

    def _sliced(
        self,
        request: Request,
        model: ServedModel,
        selection: Selection,
        job: TokenizationJob,
        slices: Slices,
        items: Sequence[EncodeItem],
    ) -> Work:
        """Size the answer by the number of inputs alone, each as long as one can be."""
        manifest = model.runtime.bundle.manifest
        ids = np.zeros(model.max_length, np.int64)
        longest = Tokenized(ids, model.max_characters, None, prompt_length=model.max_length)
        inputs = [longest] * len(job.inputs)
        width = 0
        if "pooled" in selection:  # results are float32, whatever type is requested
            width = selection["pooled"].width or manifest.architecture.pooled_dim
        prepared = prepare(
            request,
            model,
            selection,
            inputs,
            items_of(inputs, selection, manifest.pooling, None),
            least_held=len(inputs) * width * NUMBER_BYTES["float32"],
        )
        prepared = dataclasses.replace(
            prepared, tokens=slices.estimated_tokens(), queued_tokens=job.max_tokens
        )
        return _work(prepared, encode(itertools.chain([items], slices)))


def _work(prepared: Prepared, plan: Plan[list[ItemResult]], intermediate_bytes: int = 0) -> Work:
    def smaller(room: int) -> Fitting:
        room = room * prepared.data_bytes // max(1, prepared.held_bytes)
        return prepared.largest, prepared.what_fits(room)

    return Work(
        prepared,
        plan,
        Answer,
        prepared.output_bytes,
        smaller,
        intermediate_bytes=intermediate_bytes,
    )
