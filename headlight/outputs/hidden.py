"""Hidden states: the residual stream behind the embedding and behind each layer."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from headlight.errors import InvalidInput, Reason
from headlight.interface.checked_specs import checked_hidden
from headlight.outputs.contract import (
    indices_in,
    known,
    messages,
    numbers_of,
    selector_of,
    set_indices,
    token_choice,
)
from headlight.outputs.layout import Tensor
from headlight.outputs.maps.resolved_spec import check_tokens, needs_details, resolve_indices
from headlight.outputs.maps.token_units import known_tokens, pooled_token, select
from headlight.outputs.output import Item, Output
from headlight.results import Hidden, ModelRef, TokenList
from headlight.spec import NUMBER_BYTES, HiddenSpec, TokenChoice, check_name

if TYPE_CHECKING:
    from headlight.description import Limits, ModelDescription
    from headlight.outputs.vector_forms import AvailableForms
    from headlight.pb import headlight_pb2 as pb
    from headlight.runtime.values import Architecture, Arrays, GraphRole, Ids, Tokenized

HIDDEN = "outputs.hidden"


@dataclasses.dataclass(frozen=True, slots=True)
class States:
    """Hidden states: absolute layers in the requested order, and the spec as requested.

    Attributes:
        needs_tokens: as in Choice.
    """

    layers: tuple[int, ...]
    spec: HiddenSpec

    @property
    def needs_tokens(self) -> bool:
        return needs_details(self.spec.tokens)


class HiddenStates(Output):
    """States of some layers and tokens."""

    name = "hidden"
    axes = ("layer", "token", "value")
    chosen = "hidden_tokens"
    role: GraphRole = "attend"
    tolerance = "hidden"
    floor = 2e-5
    layered = True
    by_row = True

    def checked(self, spec: HiddenSpec, inputs: int) -> HiddenSpec:
        return checked_hidden(spec)

    def choose(self, spec: HiddenSpec, model: ModelDescription, forms: AvailableForms) -> States:
        check_tokens(f"{HIDDEN}.tokens", spec.tokens, model.pooling)
        check_name(f"{HIDDEN}.dtype", spec.dtype, NUMBER_BYTES)
        if spec.dtype == "uint8":
            raise InvalidInput(f"{HIDDEN}.dtype", Reason.NO_RANGE_OF_8_BITS)
        return States(resolve_indices(f"{HIDDEN}.layers", spec.layers, model.layers + 1), spec)

    def whole(self, architecture: Architecture) -> States:
        return states(_all(architecture))

    def place(self, choice: States, tokenized: Tokenized, pooling: str) -> Ids | None:
        info = known_tokens(tokenized)[0] if choice.needs_tokens else None
        length = len(tokenized.ids)
        vector = pooled_token(pooling, length, tokenized.left_out)
        return select(f"{HIDDEN}.tokens", choice.spec.tokens, length, info, vector)

    def tensors(
        self, choice: States, place: Ids | None, count: int, model: Architecture | ModelDescription
    ) -> tuple[Tensor, ...]:
        shape = (len(choice.layers), count if place is None else len(place), model.dim)
        return (Tensor("hidden", choice.spec.dtype, shape, self.axes),)

    def fetched(self, choices: Sequence[States]) -> list[str]:
        layers = {layer for choice in choices for layer in choice.layers}
        return [f"hidden_{layer}" for layer in sorted(layers)]

    def cut(self, choice: States, item: Item, outputs: Arrays, row: int) -> Arrays:
        chosen = item.places.get("hidden")
        tokens = slice(len(item.ids)) if chosen is None else chosen
        parts = [outputs[f"hidden_{layer}"][row, tokens] for layer in choice.layers]
        return {"hidden": np.stack(parts, dtype=choice.spec.dtype, casting="same_kind")}

    def graph_shapes(self, architecture: Architecture) -> dict[str, tuple[int, ...]]:
        return {f"hidden_{layer}": (0, 0, architecture.dim) for layer in _all(architecture)}

    def spec_of(self, message: pb.HiddenOutput) -> HiddenSpec:
        return HiddenSpec(
            layers=indices_in(message.layers, message.layer_runs),
            tokens=token_choice(f"{HIDDEN}.tokens", message.tokens)
            if message.HasField("tokens")
            else "all",
            dtype=known(f"{HIDDEN}.dtype", "DataType", message.dtype, NUMBER_BYTES, "float32"),
        )

    def entries(
        self, message: pb.HiddenOutput, architecture: Architecture, tokens: int, limits: Limits
    ) -> Iterable[tuple[str, int, int]]:
        yield "layers", len(message.layers) + len(message.layer_runs), architecture.layers + 1
        yield "tokens", len(message.tokens.indices.indices), tokens

    def message_of(self, spec: HiddenSpec) -> pb.HiddenOutput:
        message: pb.HiddenOutput = messages().HiddenOutput(
            tokens=selector_of(spec.tokens), dtype=numbers_of("DataType")[spec.dtype]
        )
        set_indices(message.layers, message.layer_runs, spec.layers)
        return message

    def tokens(self, choice: States) -> TokenChoice | None:
        return choice.spec.tokens

    def result(
        self, choice: States, place: Ids | None, arrays: Arrays, tokens: TokenList, model: ModelRef
    ) -> Hidden:
        places = None if place is None else tuple(place.tolist())
        return Hidden(arrays["hidden"], choice.layers, tokens, model, places)


def _all(architecture: Architecture) -> range:
    return range(architecture.layers + 1)  # the embedding's too


def states(layers: Iterable[int]) -> States:
    """Return the choice of whole hidden states of these absolute layers."""
    layers = tuple(layers)
    return States(layers, HiddenSpec(layers=layers))
