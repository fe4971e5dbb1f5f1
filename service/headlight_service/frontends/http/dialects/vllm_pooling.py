"""vLLM's /pooling: vectors and scores of texts, or of each of their tokens."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from numpy.typing import NDArray

from headlight.errors import InvalidInput, Phrase, Reason
from headlight.interface.scoring import activated
from headlight.spec import TokensSpec
from headlight_service.core.models import ServedModel, counted
from headlight_service.core.requests.answer import Answer
from headlight_service.core.requests.request import OutputSpec, Request
from headlight_service.frontends.http.dialects.fields import (
    check_applied,
    check_width,
    encoding_format,
    ids_or_texts,
    optional,
    outputs_of,
    requested_model,
    role_in,
)
from headlight_service.frontends.http.dialects.vllm import (
    EDGE,
    PROTOCOL,
    encode_error,
    truncation_of,
)
from headlight_service.frontends.http.door import Door
from headlight_service.frontends.http.exchange import Exchange, Response, Route, json_response
from headlight_service.frontends.http.json_answers import (
    BASE64,
    DECIMAL,
    JsonForm,
    base64_of,
    lists_of,
)
from headlight_service.frontends.scoring import LABELLING, SCORES, check_scores
from headlight_service.frontends.tei.tei_requests import MULTI_VECTORS

__all__ = ["EDGE", "PROTOCOL", "encode_error", "routes"]

# What a request of each task needs of a model.
TASKS: Mapping[str, tuple[str, ...]] = {
    "embed": ("embed",),
    "classify": LABELLING,
    "token_embed": ("multi_vector", "embed"),
    "token_classify": LABELLING,
}
# Values of other options that change nothing.
APPLIED: Mapping[str, tuple[Any, ...]] = {
    "messages": (),
    "data": (),
    "add_special_tokens": (True,),
    "embed_dtype": ("float32",),
    "endianness": ("native", "little"),
    "padding": ("do_not_pad",),
}


class _Pooling(NamedTuple):
    """A decoded request.

    Attributes:
        output: whose numbers the answer has.
        activation: from logits to scores; empty: none.
        as_text: whether numbers are base64.
    """

    model: ServedModel
    request: Request
    output: str
    activation: str
    as_text: bool

    def arrays(self, answer: Answer) -> Sequence[NDArray[Any]]:
        """Return the numbers of each input."""
        [arrays] = answer.arrays(self.output).values()
        return [activated(each, self.activation) for each in arrays] if self.activation else arrays


def routes(door: Door) -> list[Route]:
    """Return the routes."""
    return [Route("POST", "/pooling", _pooling)]


async def _pooling(exchange: Exchange) -> Response:
    pooling = await exchange.decoded(_request)
    form = JsonForm(pooling.model.limits, BASE64 if pooling.as_text else DECIMAL)
    answer = await exchange.submit(pooling.request, form)
    shown = base64_of if pooling.as_text else lists_of
    tokens = answer.prepared.tokens

    def encode() -> Response:
        return json_response(
            {
                "id": exchange.request_id,
                "object": "list",
                "model": pooling.model.name,
                "data": [
                    {"index": at, "object": "pooling", "data": shown(array)}
                    for at, array in enumerate(pooling.arrays(answer))
                ],
                "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
            }
        )

    return await exchange.encoded(encode, form.size)


def _request(exchange: Exchange, body: dict[str, Any]) -> _Pooling:
    task: str | None = optional(body, "task", str, Phrase.TEXT)
    if task is not None and task not in TASKS:
        raise InvalidInput("task", Reason.MUST_BE_ONE_OF, names=", ".join(TASKS))
    model = requested_model(exchange, body, *TASKS.get(task or "", ()))
    with counted(model):
        check_applied(body, APPLIED)
        raw = optional(body, "use_activation", bool, Phrase.TRUE_OR_FALSE) is False
        output, spec = _output(body, task or _usual_task(model), model, raw=raw)
        if body.get("input") is None:
            raise InvalidInput("input", Reason.MISSING_INPUT)
        request = Request(
            ids_or_texts(body, "input", model),
            spec,
            model.key,
            truncation=truncation_of(body, model),
            role=role_in(body),
        )
        activation = "" if raw or output != "scores" else model.description.activation
        return _Pooling(model, request, output, activation, encoding_format(body) == "base64")


def _usual_task(model: ServedModel) -> str:
    """Return the task of a request that names none."""
    task = model.description.task
    if task in LABELLING:
        return "token_classify" if model.description.token_labels else "classify"
    return "token_embed" if task == "multi_vector" else "embed"


def _output(
    body: dict[str, Any], task: str, model: ServedModel, *, raw: bool
) -> tuple[str, OutputSpec]:
    """Return the output that a task needs, and its form.

    Raises:
        InvalidInput: the model does not give it, or not in the width that the body names.
    """
    if task == "embed":
        model.check_gives("pooled", "task")
        width = optional(body, "dimensions", int, Phrase.WHOLE)
        return "pooled", outputs_of(width, normalize=not raw)
    if task == "token_embed" and model.gives("multi_vector"):
        check_width(body, model.description.multi_vector_dim)
        check_applied(body, {"use_activation": (True,)})
        return "multi_vector", MULTI_VECTORS
    if task == "token_embed":
        model.check_gives("tokens", "task")
        check_width(body, model.description.dim)
        return "tokens", _token_rows(normalize=not raw)
    if task == "classify":
        check_scores(model, "task")
    else:
        model.check_gives("scores", "task")
        if not model.description.token_labels:
            raise InvalidInput("task", Reason.CLASSIFIES_TEXTS)
    check_applied(body, {"dimensions": ()})
    return "scores", SCORES


@functools.cache
def _token_rows(*, normalize: bool) -> OutputSpec:
    return OutputSpec(pooled=False, tokens=TokensSpec(normalize=normalize))
