"""Fields of a body that several dialects have."""

from __future__ import annotations

import functools
from array import array
from collections.abc import Mapping
from typing import Any, NamedTuple

from headlight.errors import InvalidInput, NotFound, Phrase, Reason
from headlight.interface.arguments import LARGEST_ID
from headlight.refusals import Path
from headlight.runtime.tokenization.input_checks import Truncation, too_many_tokens
from headlight.spec import InputRole, PooledSpec, VectorType
from headlight_service.core.models import ServedModel
from headlight_service.core.requests.request import VECTORS, Input, OutputSpec, TokenIds
from headlight_service.frontends.http.exchange import Exchange

UNNAMED = ("", "default/not-specified")  # the latter is infinity's
INSTRUCTION: dict[Path, Path] = {("prompt_text",): ("instruction",)}  # its name in errors
REMEMBERED = 64  # resolved output specs, one for each number of dimensions
FOR_ALL = "for all requests of a service: headlight serve --truncation end"  # of truncation
TRUNCATE: Mapping[str, Truncation] = {"none": "refuse", "start": "cut_start", "end": "cut_end"}
ROLES: Mapping[str, InputRole | None] = {"query": "query", "document": "document"}


class Reading(NamedTuple):
    """How inputs are read: the name of a prompt, and a role; None: not set."""

    prompt_name: str | None
    role: InputRole | None


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


def check_applied(body: dict[str, Any], applied: Mapping[str, tuple[Any, ...]]) -> None:
    """Refuse fields with another value than one of those that change nothing; null is one of them.

    Raises:
        InvalidInput: naming the field.
    """
    for name, values in applied.items():
        value = body.get(name)
        if value is not None and value not in values:
            raise InvalidInput(name, Reason.NOT_APPLIED)


def reading_of(
    name: str | None, field: str, model: ServedModel, roles: Mapping[str, InputRole | None]
) -> Reading:
    """Return the reading of a name: the model's prompt of that name, if there is one, and a role.

    Args:
        name: as requested; empty or None: not set.
        field: that has it.
        model: whose prompts may be named.
        roles: by the names of the dialect; None: neither of a query nor of a document.

    Raises:
        InvalidInput: it is neither a name of `roles` nor of a prompt.
    """
    prompts = model.runtime.prompts.by_name
    if name and name not in roles and name not in prompts:
        raise InvalidInput(field, Reason.MUST_BE_ONE_OF, names=", ".join(roles))
    return Reading(name if name in prompts else None, roles.get(name or ""))


def role_in(body: dict[str, Any]) -> InputRole | None:
    """Return the role of `role`, which is of no other tool. Raises InvalidInput."""
    name: str | None = optional(body, "role", str, Phrase.TEXT)
    if name is not None and name not in ROLES:
        raise InvalidInput("role", Reason.MUST_BE_ONE_OF, names=", ".join(ROLES))
    return ROLES.get(name or "")


def truncation_in(body: dict[str, Any]) -> Truncation | None:
    """Return the side that `truncate` names, in any case; None: as the service is configured."""
    name: str | None = optional(body, "truncate", str, Phrase.ENDS)
    if name is not None and name.lower() not in TRUNCATE:
        raise InvalidInput("truncate", Reason.MUST_BE_ONE_OF, names=", ".join(TRUNCATE))
    return None if name is None else TRUNCATE[name.lower()]


def encoding_format(body: dict[str, Any]) -> str:
    """Return how vectors are written: "float" or "base64". Raises InvalidInput."""
    form: str = optional(body, "encoding_format", str, Phrase.FLOAT_OR_BASE64) or "float"
    if form not in ("float", "base64"):
        raise InvalidInput("encoding_format", Reason.MUST_BE, kind=Phrase.FLOAT_OR_BASE64)
    return form


def check_width(body: dict[str, Any], width: int) -> None:
    """Refuse other `dimensions` of vectors that cannot be cut. Raises InvalidInput."""
    value: int | None = optional(body, "dimensions", int, Phrase.WHOLE)
    if value not in (None, width):
        raise InvalidInput("dimensions", Reason.OTHER_WIDTH, value=value, width=width)


def check_length(body: dict[str, Any], name: str, model: ServedModel) -> int | None:
    """Return the most tokens of an input that a field names, once they are the model's or more.

    Raises:
        InvalidInput: it is less: inputs are cut to the model's length only.
    """
    most: int | None = optional(body, name, int, Phrase.WHOLE)
    if most is not None and most != -1 and most < model.max_length:
        raise InvalidInput(name, Reason.NOT_APPLIED)
    return most


def object_texts(
    value: Any, field: str, model: ServedModel, kind: Phrase = Phrase.DOCUMENTS
) -> list[str]:
    """Return the texts of a list of texts and of objects with `text`. Raises InvalidInput."""
    if not isinstance(value, list):
        raise InvalidInput(field, Reason.MUST_BE, kind=kind)
    if not value:
        raise InvalidInput(field, Reason.NO_ENTRIES)
    model.check_items(field, len(value))
    texts: list[Any] = [each.get("text") if isinstance(each, dict) else each for each in value]
    for at, text in enumerate(texts):
        if type(text) is not str:
            raise InvalidInput(f"{field}[{at}]", Reason.MUST_BE, kind=Phrase.DOCUMENT)
    return texts


def ids_or_texts(body: dict[str, Any], field: str, model: ServedModel) -> list[Input]:
    """Return texts and ids: a field is one of them, or a list. A flat list of ids is one input."""
    value = body.get(field)
    values = value if isinstance(value, list) else [value]
    if isinstance(value, list) and value and all(type(each) is int for each in value):
        values = [value]
    if not values:
        raise InvalidInput(field, Reason.EMPTY_TEXT)
    model.check_items(field, len(values))
    if sum([len(each) for each in values if isinstance(each, list)]) > model.most_tokens:
        raise too_many_tokens(model.most_tokens)
    return [_id_or_text(f"{field}[{place}]", each) for place, each in enumerate(values)]


def _id_or_text(field: str, value: Any) -> Input:
    if value == []:
        raise InvalidInput(field, Reason.EMPTY_TEXT)
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(type(each) is int for each in value):
        if all(0 <= each <= LARGEST_ID for each in value):
            return TokenIds(array("q", value), array("q"))
        raise InvalidInput(field, Reason.NO_TOKEN_ID)
    raise InvalidInput(field, Reason.MUST_BE, kind=Phrase.TEXT_OR_IDS)


def requested_model(exchange: Exchange, body: dict[str, Any], *needs: str) -> ServedModel:
    """Return the model that a body names; else the default one for these needs; see `Models.get`.

    So, too, if it names one that is not served, with `--any-model-name`.
    """
    models, name = exchange.door.pipeline.models, optional(body, "model", str, Phrase.TEXT) or ""
    try:
        return models.get("" if name in UNNAMED else name, *needs)
    except NotFound:
        if exchange.door.options.any_model_name:
            return models.get("", *needs)
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
def outputs_of(
    dimensions: int | None, normalize: bool | None = None, dtypes: tuple[VectorType, ...] = ()
) -> OutputSpec:
    """Return the requested outputs: the model's vectors in one form."""
    spec = PooledSpec(dimensions=dimensions, normalize=normalize, dtypes=dtypes)
    return VECTORS if spec == PooledSpec() else OutputSpec(spec)


def width_warnings(model: ServedModel, width: int, field: str = "dimensions") -> list[str]:
    """Return a warning if vectors were cut to a width that the model was not trained for."""
    manifest = model.runtime.bundle.manifest
    whole, trained = manifest.architecture.pooled_dim, manifest.dimensions
    if width in (whole, *trained):
        return []
    widths = ", ".join(map(str, sorted({*trained, whole})))
    return [
        f"{field}: {width} is not among the widths that this model was trained for, as far as "
        f"it says: {widths}; search with such vectors may find less"
    ]
