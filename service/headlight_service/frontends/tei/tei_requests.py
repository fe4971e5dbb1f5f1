"""Requests of text-embeddings-inference as requests of the core."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import Literal

from headlight.errors import InvalidInput
from headlight.runtime.tokenization.input_checks import Truncation
from headlight.spec import PooledSpec
from headlight_service.core.models import ServedModel
from headlight_service.core.requests.request import OutputSpec, Request

Direction = Literal["right", "left"]
CUTS: dict[Direction, Truncation] = {"right": "cut_end", "left": "cut_start"}
TOKEN_VECTORS = OutputSpec(pooled=False, tokens=True)
# Names of the core's fields in an error, and of the door's.
FIELDS = {
    "outputs.pooled.dimensions": "dimensions",
    "outputs.pooled.normalize": "normalize",
    "outputs.pooled": "inputs",
    "outputs.tokens": "inputs",
}
# Remedies that the core's errors name, and those of the contract.
REMEDIES = {'truncate="end"': "truncate: true", ", or use prompt_text": ""}
KINDS = re.compile(r"^(inputs\[\d+\])\.(text|ids)$")


@functools.lru_cache(maxsize=64)
def pooled_output(*, normalize: bool, dimensions: int | None) -> OutputSpec:
    """Return pooled vectors as the requested output. Cached: the core resolves each object once."""
    return OutputSpec(PooledSpec(dimensions=dimensions, normalize=normalize))


def truncation_of(
    truncate: bool | None, direction: Direction | None, model: ServedModel
) -> Truncation | None:
    """Return the treatment of a text that is too long.

    Args:
        truncate: as requested; None: as the service is configured.
        direction: the side to cut; None: right, or as the service is configured.
        model: the model.

    Returns:
        None: as the service is configured.
    """
    if truncate is None and (direction is None or not auto_truncate(model)):
        return None
    return "refuse" if truncate is False else CUTS[direction or "right"]


def auto_truncate(model: ServedModel) -> bool:
    """Return whether texts that are too long are cut unless a request says otherwise."""
    return model.truncation != "refuse"


def tokenize_request(
    texts: Sequence[str],
    model: ServedModel,
    *,
    prompt_name: str | None,
    size_bytes: int,
    client: str,
) -> Request:
    """Return the request for tokens of prompt and text, read as one text.

    So offsets count both, as the contract has them. An empty text that is refused stays empty.

    Raises:
        InvalidInput: the model has no prompt of that name.
    """
    prompt = model.default_prompt
    if prompt_name is not None:
        prompt = model.runtime.prompts.choose(prompt_name, None)
    return Request(
        [prompt.text + text if text or model.empty_texts == "encode" else text for text in texts],
        size_bytes=size_bytes,
        client=client,
        prompt_text="",
    )


def own_field(error: InvalidInput, *, single: bool) -> InvalidInput:
    """Return an error with the field and the remedy that the contract has.

    Args:
        error: the core's error.
        single: whether `inputs` is one text, not a list.
    """
    field = FIELDS.get(error.field, error.field)
    if (found := KINDS.match(field)) is not None:
        field = "inputs" if single else found[1]
    problem = error.problem
    for core, contract in REMEDIES.items():
        problem = problem.replace(core, contract)
    return InvalidInput(field, problem)
