"""Requested outputs: their names, which may select attention, and their form."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from headlight.errors import InvalidInput, Phrase, Reason
from headlight.spec import (
    AXIS_OF,
    VECTOR_BITS,
    AttentionSpec,
    MultiVectorSpec,
    PooledSpec,
    SparseSpec,
    TokensSpec,
)
from headlight_service.core.requests.request import OutputSpec
from headlight_service.frontends.oip import inference_messages as oip
from headlight_service.frontends.oip.model_views import IDS, Kind, View
from headlight_service.frontends.oip.request_parameters import ENCODE, MOST_CHARACTERS, one_of
from headlight_service.frontends.scoring import SCORES

DTYPES: dict[Kind, tuple[str, ...]] = {
    "embedding": tuple(VECTOR_BITS),
    "scores": ("float32",),
    "multi_vector": tuple(VECTOR_BITS),
    "tokens": ("float32", "float16"),
    "attention": ("float32", "float16"),
}
MOST_OUTPUTS = 4096
# Of attention, unless a request allows more. Without names, all is asked for: a long text's maps
# would be hundreds of megabytes, for a client that only tries.
MAX_BYTES = 64 << 20


class RequestedTensor(NamedTuple):
    """One requested output.

    Attributes:
        name: as requested.
        source: the output of the model.
        place: its place on the first axis of the attention computed; None: all of it.
    """

    name: str
    source: str
    place: int | None = None


class Outputs(NamedTuple):
    """The requested outputs, in their order, and as the core computes them."""

    requested: tuple[RequestedTensor, ...]
    spec: OutputSpec


def decode_outputs(
    view: View, requested: Sequence[oip.ModelInferRequest.InferRequestedOutputTensor], form: Any
) -> Outputs:
    """Return the requested outputs; without names, all of the model.

    Args:
        view: the model.
        requested: as in the request.
        form: see `Options`.

    Raises:
        InvalidInput: a name is unknown or comes twice, or a parameter is refused.
    """
    if len(requested) > MOST_OUTPUTS:
        raise InvalidInput(
            "outputs", Reason.TOO_MANY_OUTPUTS, count=len(requested), most=MOST_OUTPUTS
        )
    for each in requested:
        for name in ("shared_memory_region", "classification"):
            if name in each.parameters:
                raise InvalidInput(f"outputs.parameters.{name}", Reason.WHOLE_TENSORS)
    names = tuple(each.name for each in requested)
    if sum(map(len, names)) > MOST_CHARACTERS:  # not worth remembering
        return _outputs.__wrapped__(view.kind, _names_of(view), names, form)
    return _outputs(view.kind, _names_of(view), names, form)


def _names_of(view: View) -> tuple[str, ...]:
    return tuple(each.name for each in view.outputs)


@functools.lru_cache(256)
def _outputs(
    kind: Kind, known: tuple[str, ...], names: tuple[str, ...], form: tuple[tuple[str, Any], ...]
) -> Outputs:
    """Decode once for each spelling: the core resolves each OutputSpec once."""
    names, values = names or known, dict(form)
    if len(set(names)) != len(names):
        raise InvalidInput("outputs", Reason.TWICE)
    selected = [name for name in names if name not in known]
    if selected and (kind != "attention" or "attention" in names):
        _refuse_names(kind, known, selected[0])
    if kind == "scores":
        return Outputs(tuple(RequestedTensor(name, name) for name in names), SCORES)
    if kind == "sparse":
        terms = SparseSpec(top_k=values.get("top_k"), min_weight=values.get("min_weight", 0.0))
        output = OutputSpec(pooled=False, sparse=terms)
        return Outputs(tuple(RequestedTensor(name, name) for name in names), output)
    dtype = one_of("dtype", values.get("dtype"), DTYPES[kind]) or "float32"
    if kind == "embedding":
        spec = PooledSpec(
            dimensions=values.get("dimensions"),
            normalize=values.get("normalize"),
            dtypes=cast(Any, (dtype,)),
        )
        return Outputs((RequestedTensor("embedding", "embedding"),), OutputSpec(pooled=spec))
    info = "offsets" in names
    places = dict[str, int]()
    if kind == "tokens":
        rows = TokensSpec(
            skip_special=values.get("skip_special", False),
            skip_prompt=values.get("skip_prompt", False),
            normalize=values.get("normalize", False),
            dtype=cast(Any, dtype),
        )
        output = OutputSpec(pooled=False, tokens=rows, token_info=info)
    elif kind == "multi_vector":
        vectors = MultiVectorSpec(dtype=cast(Any, dtype))
        output = OutputSpec(pooled=False, multi_vector=vectors, token_info=info)
    else:
        attention, places = _attention(values, selected, dtype)
        output = OutputSpec(pooled=False, attention=attention, token_info=info)
    requested = [
        RequestedTensor(name, known[0] if name in places else name, places.get(name))
        for name in names
    ]
    return Outputs(tuple(requested), output)


def _attention(
    values: Mapping[str, Any], selected: Sequence[str], dtype: str
) -> tuple[AttentionSpec, dict[str, int]]:
    """Return the spec, and the place of each selected output on the first axis."""
    layers = _indices("attention_layers", values.get("attention_layers"))
    heads = _indices("attention_heads", values.get("attention_heads"))
    reduce = tuple(filter(None, values.get("attention_reduce", "").split(",")))
    for name in reduce:
        if name not in AXIS_OF:
            one_of("attention_reduce", name, tuple(AXIS_OF))
    most = values.get("attention_max_bytes", MAX_BYTES)
    if most < 1:
        raise InvalidInput("parameters.attention_max_bytes", Reason.MUST_BE, kind=Phrase.BYTES)
    common: dict[str, Any] = {
        "max_bytes": most,
        "reduce": reduce,
        "dtype": dtype,
        "scores": values.get("attention_scores", False),
    }
    if not selected:
        return AttentionSpec(layers=layers, heads=heads, **common), {}
    if layers or "layers" in {AXIS_OF[name] for name in reduce}:
        raise InvalidInput("outputs", Reason.LAYER_TWICE)
    parts = [_numbers(name) for name in selected]
    places = {name: place for place, name in enumerate(selected)}
    sizes = {len(each) for each in parts}
    if sizes == {1}:
        chosen = tuple(each[0] for each in parts)
        return AttentionSpec(layers=chosen, heads=heads, **common), places
    if sizes != {2} or heads:
        raise InvalidInput("outputs", Reason.MIXED_LAYERS)
    return AttentionSpec(pairs=tuple((each[0], each[1]) for each in parts), **common), places


def _numbers(name: str) -> list[int]:
    """Return the layer of an output's name, and its head if it has one."""
    start, *numbers = name.split(".")
    if start != "attention" or not 1 <= len(numbers) <= 2:
        _refuse_names("attention", ("attention", "lengths", IDS, "offsets"), name)
    return [_whole("outputs", number) for number in numbers]


def _refuse_names(kind: Kind, known: Sequence[str], name: str) -> None:
    reason = Reason.NO_OUTPUT_OF_ATTENTION if kind == "attention" else Reason.NO_OUTPUT
    names = ", ".join(known)
    raise InvalidInput("outputs", reason, name=f"{name!r:.64}", names=names, method=ENCODE)


def _indices(name: str, value: str | None) -> tuple[int, ...]:
    if value is None:
        return ()
    return tuple(_whole(f"parameters.{name}", part) for part in value.split(","))


def _whole(field: str, text: str) -> int:
    """Return a number of at most 9 digits. Raises InvalidInput."""
    digits = text.strip().removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 9):
        raise InvalidInput(field, Reason.NOT_NUMBERS, text=f"{text!r:.20}")
    return int(text)
