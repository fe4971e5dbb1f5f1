"""A task: what is particular to one kind of request. The driver does the rest."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from headlight.refusals import Path
from headlight.results import ModelRef, TokenList
from headlight.runtime.encode_items import EncodeItem, Selection, output_bytes
from headlight.runtime.plans.plan import Plan
from headlight.runtime.spans.span_items import SpanItems
from headlight.runtime.values import Tokenized
from headlight_service.core.admission.waiting_list import Fitting
from headlight_service.core.models import ServedModel
from headlight_service.core.requests.answer import Answer, Prepared, Timings
from headlight_service.core.requests.request import Request
from headlight_service.core.slices import Slices
from headlight_service.core.tokenization import TokenizationJob

WAVES = 8  # a wave has one part in so many of a full request's tokens: other items run in between


class AnswerForm(Protocol):
    """Size of one answer, as the frontend's protocol encodes it.

    The driver calls `overhead_bytes` before the frontend encodes the answer; for a request of
    several slices twice: with a bound of the answer, and with the answer.
    """

    def overhead_bytes(self, ref: ModelRef, prepared: Prepared, details: Any, /) -> int:
        """Return the bytes of an answer to hold besides `prepared.held_bytes`.

        Args:
            ref: the model.
            prepared: the request.
            details: those of `Work`.

        Raises:
            InvalidInput: the protocol cannot carry the answer. The message names one that would
                fit.
        """


class TokensForm(Protocol):
    """A frontend's encoder of tokens. It is slow, and runs on a thread of the tokenizer."""

    def encode(self, ref: ModelRef, tokens: Iterable[TokenList], inputs: int) -> bytes:
        """Return the answer for so many inputs, whose `tokens` are read one by one.

        Raises:
            InvalidInput: the answer is too large.
        """


@dataclasses.dataclass(slots=True)
class Work:
    """A tokenised request: what to compute, and how much it is.

    Attributes:
        prepared: the request, and the size of its answer.
        plan: computes it; not begun.
        answer: makes the answer of what the plan returns.
        answer_bytes: bytes of the answer's data, by output, for the metrics.
        smaller: returns the field that asks for most of the answer, and a choice that fits into so
            many bytes, of the answer's data alone.
        details: what the answer's form needs to know besides.
        check_size: called with the bytes of the answer besides; raises InvalidInput if they can
            never be held together with the intermediate bytes.
        wave_tokens: tokens of all waves.
        intermediate_bytes: of the held bytes, those of results that are not part of the answer.
    """

    prepared: Prepared
    plan: Plan[Any]
    answer: Callable[[Prepared, Any, Timings], Answer]
    answer_bytes: Mapping[str, int]
    smaller: Callable[[int], Fitting]
    details: Any = None
    check_size: Callable[[int], None] | None = None
    wave_tokens: int = 0
    intermediate_bytes: int = 0

    @property
    def tokens(self) -> int:
        """Tokens to compute in all; of slices, an estimate."""
        prepared = self.prepared
        return max(prepared.tokens, prepared.queued_tokens) + self.wave_tokens


class Task(Protocol):
    """One kind of request."""

    def names(self, request: Any) -> Mapping[Path, Path]:
        """Return the names of the fields of a request that its core has under others."""

    def job(self, request: Any, model: ServedModel, selection: Selection) -> TokenizationJob:
        """Return what to tokenise. Raises InvalidInput, naming the field."""

    def work(
        self,
        request: Any,
        model: ServedModel,
        selection: Selection,
        job: TokenizationJob,
        slices: Slices,
        items: Sequence[EncodeItem],
    ) -> Work:
        """Return what to compute.

        Args:
            request: the request.
            model: the model that serves it.
            selection: the requested outputs.
            job: what was tokenised.
            slices: the inputs, of which the first slice is read.
            items: those of the first slice.

        Raises:
            InvalidInput: the inputs lack what the request names.
        """


def prepare(
    request: Request,
    model: ServedModel,
    selection: Selection,
    inputs: list[Tokenized],
    items: Sequence[EncodeItem],
    *,
    least_queued: int = 0,
    least_held: int = 0,
    spans: list[SpanItems] | None = None,
) -> Prepared:
    """Return a tokenised request.

    Args:
        request: the request.
        model: the model that serves it.
        selection: the requested outputs.
        inputs: the tokenised inputs.
        items: the items to run.
        least_queued: least tokens to count for queue and quota.
        least_held: least bytes to hold while it is computed.
        spans: those of each input, if they are requested.
    """
    architecture = model.runtime.bundle.manifest.architecture
    sizes = output_bytes(items, architecture)
    tokens, data_bytes = sum([len(item.ids) for item in items]), sum(sizes.values())
    return Prepared(
        inputs,
        items,
        selection,
        architecture,
        request.outputs.token_info,
        request.priority,
        sizes,
        data_bytes,
        tokens,
        queued_tokens=max(tokens, least_queued),
        held_bytes=max(data_bytes, least_held),
        spans=spans,
        spelling=model.runtime.spelling,
    )


def numbers_answer(prepared: Prepared, numbers: Any, timings: Timings) -> Answer:
    """Return the answer of a plan that returns numbers, not outputs."""
    return Answer(prepared, [], timings, numbers)
