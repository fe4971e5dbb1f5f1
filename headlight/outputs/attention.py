"""Attention: maps of heads, or what is left of them after reductions.

`headlight.outputs.maps` has its choice, its tokens, its graph outputs and its reductions.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from headlight.errors import Phrase
from headlight.interface.checked_specs import checked_attention
from headlight.outputs.answer_numbers import kind_of_attention
from headlight.outputs.contract import require
from headlight.outputs.layout import Tensor
from headlight.outputs.maps.derived_forms import FORMS, form, form_error
from headlight.outputs.maps.graph_selectors import OUTPUTS_OF, BatchAttention
from headlight.outputs.maps.resolved_spec import Choice, resolve_attention, whole
from headlight.outputs.maps.token_units import (
    Places,
    attention_shape,
    axis_units,
    place,
    places_of,
)
from headlight.outputs.maps.wire_form import (
    announce,
    attention_message,
    attention_places,
    attention_spec,
)
from headlight.outputs.output import Item, Output, Work, that_fit
from headlight.refusals import Argument
from headlight.results import AttentionMaps, ModelRef, TokenList
from headlight.spec import AXIS_OF, STATISTICS, AttentionSpec

if TYPE_CHECKING:
    from headlight.description import Limits, ModelDescription
    from headlight.interface.arguments import Input
    from headlight.outputs.answer_numbers import Kind
    from headlight.outputs.vector_forms import AvailableForms
    from headlight.pb import headlight_pb2 as pb
    from headlight.runtime.values import Architecture, Arrays, Floats, GraphRole, Tokenized


class AttentionMap(Output):
    """Attention of some layers and heads, in the form of a spec."""

    name = "attention"
    extras = ("attention_indices", "attention_scales")
    role: GraphRole = "attend"
    layered = True
    selects = True
    tolerance = "attention"
    floor = 1e-5
    forms = tuple(FORMS)

    def checked(self, spec: AttentionSpec, inputs: int) -> AttentionSpec:
        return checked_attention(spec)

    def choose(self, spec: AttentionSpec, model: ModelDescription, forms: AvailableForms) -> Choice:
        return resolve_attention(spec, model, model.pooling)

    def whole(self, architecture: Architecture) -> Choice:
        return whole(range(architecture.layers), architecture.heads)

    def place(self, choice: Choice, tokenized: Tokenized, pooling: str) -> Places:
        return place(choice, tokenized)

    def tensors(
        self,
        choice: Choice,
        place: Places | None,
        count: int,
        model: Architecture | ModelDescription,
    ) -> tuple[Tensor, ...]:
        return _tensors(choice, place or Places(count))

    def max_bytes(self, choice: Choice) -> int | None:
        return choice.spec.max_bytes

    def smaller(
        self, choice: Choice, items: Sequence[Item], size: int, room: int
    ) -> dict[str, Argument]:
        spec, what = choice.spec, Phrase.PAIRS_FIT if choice.spec.pairs else Phrase.LAYERS_FIT
        by_layer = choice.axes[0] in ("layer", "pair")
        if by_layer and (fitting := that_fit(choice.layers, what, size, room)):
            return fitting
        if spec.reduce or spec.top_k or spec.scores or spec.pairs:
            return {}
        forms: list[tuple[Phrase, dict[str, Any]]] = [
            (Phrase.FLOAT16_FITS, {"dtype": "float16"}),
            (Phrase.HEAD_MEAN_FITS, {"reduce": ("head_mean",)}),
            (Phrase.TOP_K_FITS, {"top_k": 8}),
            (Phrase.SMALL_HEAD_MEAN_FITS, {"reduce": ("head_mean",), "dtype": "float16"}),
        ]
        if spec.keys == "all" and spec.unit == "token":
            forms.append((Phrase.STATISTICS_FIT, {"reduce": ("statistics",), "dtype": "float32"}))
        for fits, changes in forms:
            form = dataclasses.replace(choice, spec=dataclasses.replace(spec, **changes))
            tensors = [each for item in items for each in _tensors(form, places_of(item))]
            if sum(tensor.size_bytes for tensor in tensors) <= room:
                return {"fits": fits}
        return {}

    def begin(
        self, items: Sequence[Item], architecture: Architecture, longest: int, unit: bool, gpu: bool
    ) -> Work:
        return BatchAttention(items, architecture.layers, architecture.heads, longest, gpu)

    def graph_shapes(self, architecture: Architecture) -> dict[str, tuple[int, ...]]:
        layers, selected = range(architecture.layers), [*itertools.chain(*OUTPUTS_OF.values())]
        shapes: dict[str, tuple[int, ...]] = {
            name.format(layer): (0, 0, 0, 0) for layer in layers for name in selected
        }
        return shapes | {f"rows_{layer}": (0, architecture.heads, 0, 0) for layer in layers}

    def form(self, name: str, architecture: Architecture) -> Choice:
        return form(name, architecture)

    def form_error(self, name: str, result: Arrays, answer: Floats) -> float:
        return form_error(name, result, answer)

    def spec_of(self, message: pb.AttentionOutput) -> AttentionSpec:
        return attention_spec(message)

    def entries(
        self, message: pb.AttentionOutput, architecture: Architecture, tokens: int, limits: Limits
    ) -> Iterable[tuple[str, int, int]]:
        yield "layers", len(message.layers) + len(message.layer_runs), architecture.layers
        yield "heads", len(message.heads) + len(message.head_runs), architecture.heads
        yield "pairs", len(message.pairs), architecture.layers * architecture.heads
        yield "reduce", len(message.reduce), len(AXIS_OF)
        yield "spans", len(message.spans), tokens
        yield "queries", len(message.queries.indices.indices), tokens
        yield "keys", len(message.keys.indices.indices), tokens

    def announce(self, response: pb.EncodeResponse, choice: Choice, items: Sequence[Item]) -> None:
        announce(response, choice, items)

    def message_of(self, spec: AttentionSpec) -> pb.AttentionOutput:
        return attention_message(spec)

    def places_in(
        self,
        response: pb.EncodeResponse,
        choice: Choice,
        counts: Sequence[int],
        inputs: Sequence[Input],
    ) -> list[Places]:
        return attention_places(response.attention_map, choice, counts)

    def kind(self, tensor: str, choice: Choice, usual: bool) -> Kind:
        kind = kind_of_attention(choice.spec)
        return "scales" if tensor == "attention_scales" and kind != "positive" else kind

    def result(
        self, choice: Choice, place: Places, arrays: Arrays, tokens: TokenList, model: ModelRef
    ) -> AttentionMaps:
        keys, indices = axis_units(place.keys, place.length), arrays.get("attention_indices")
        if indices is not None:
            most = len(keys.tokens)
            require(indices.max(initial=0) < most, f"an index of attention beyond its {most} keys")
        return AttentionMaps(
            values=arrays["attention"],
            axes=choice.axes,
            layers=choice.layers,
            heads=choice.common_heads,
            queries=axis_units(place.queries, place.length),
            keys=keys,
            tokens=tokens,
            model=model,
            indices=indices,
            scales=arrays.get("attention_scales"),
            statistics=STATISTICS if "statistics" in choice.spec.reduce else (),
        )


def _tensors(choice: Choice, places: Places) -> tuple[Tensor, ...]:
    spec, shape, axes = choice.spec, attention_shape(choice, places), choice.axes
    tensors = [Tensor("attention", spec.dtype, shape, axes)]
    if spec.top_k:
        tensors.append(Tensor("attention_indices", "uint16", shape, axes))
    if spec.dtype == "uint8":
        tensors.append(Tensor("attention_scales", "float32", shape[:-1], axes[:-1]))
    return tuple(tensors)
