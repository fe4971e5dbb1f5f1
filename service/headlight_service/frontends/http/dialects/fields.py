"""Fields of a body that several dialects have."""

from __future__ import annotations

import functools
from typing import Any

from headlight.errors import InvalidInput, NotFound, Phrase, Reason
from headlight.refusals import Path
from headlight.spec import PooledSpec
from headlight_service.core.models import ServedModel
from headlight_service.core.requests.request import VECTORS, OutputSpec
from headlight_service.frontends.http.exchange import Exchange

UNNAMED = ("", "default/not-specified")  # the latter is infinity's
INSTRUCTION: dict[Path, Path] = {("prompt_text",): ("instruction",)}  # its name in errors
REMEMBERED = 64  # resolved output specs, one for each number of dimensions


def optional(body: dict[str, Any], name: str, kind: type, named: Phrase) -> Any:
    """Return a field of a body, None if it is absent or null. Raises InvalidInput: another type."""
    value = body.get(name)
    if value is not None and type(value) is not kind:
        raise InvalidInput(name, Reason.MUST_BE_OR_NULL, kind=named)
    return value


def most_returned(body: dict[str, Any], name: str) -> int | None:
    """Return how many of the best a body asks for; None, if it is absent or 0: all."""
    count: int | None = optional(body, name, int, Phrase.WHOLE_FROM_0)
    if count is not None and count < 0:
        raise InvalidInput(name, Reason.MUST_BE_OR_NULL, kind=Phrase.WHOLE_FROM_0)
    return count or None


def requested_model(exchange: Exchange, body: dict[str, Any], *tasks: str) -> ServedModel:
    """Return the model that a body names; else the default one of these tasks.

    So, too, if it names one that is not served, with `--any-model-name`.
    """
    models, name = exchange.door.pipeline.models, optional(body, "model", str, Phrase.TEXT) or ""
    try:
        return models.get("" if name in UNNAMED else name, *tasks)
    except NotFound:
        if exchange.door.options.any_model_name:
            return models.get("", *tasks)
        raise


def instruction_of(body: dict[str, Any], model: ServedModel) -> str | None:
    """Return vLLM's `instruction`, for models whose template of pairs has a place for one.

    Raises:
        InvalidInput: it is not text, or the model takes none: the scores would be the same.
    """
    instruction: str | None = optional(body, "instruction", str, Phrase.TEXT)
    template = model.runtime.bundle.manifest.pair_template
    if instruction and (template is None or not template.prompted):
        raise InvalidInput("instruction", Reason.NOT_APPLIED)
    return instruction or None


@functools.lru_cache(REMEMBERED)
def outputs_of(dimensions: int | None) -> OutputSpec:
    """Return the requested outputs: the model's vectors, cut to so many dimensions."""
    return VECTORS if dimensions is None else OutputSpec(PooledSpec(dimensions=dimensions))
