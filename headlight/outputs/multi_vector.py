"""A vector for each token, matched one by one: late interaction (ColBERT)."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, get_args

import numpy as np

from headlight.errors import InvalidInput, Reason
from headlight.interface.checked_specs import checked_multi_vector
from headlight.outputs.contract import known, messages, numbers_of
from headlight.outputs.layout import Tensor
from headlight.outputs.output import Item, Output
from headlight.outputs.vector_forms import as_type, unit_length
from headlight.results import ModelRef, TokenList, TokenVectors
from headlight.spec import VECTOR_BITS, MultiVectorSpec, VectorType, check_name

if TYPE_CHECKING:
    from headlight.description import ModelDescription
    from headlight.outputs.vector_forms import AvailableForms
    from headlight.pb import headlight_pb2 as pb
    from headlight.runtime.values import Architecture, Array, Arrays, Floats, Ids, Tokenized

FIELD = "outputs.multi_vector"
STEPS = np.float32(127)  # of int8, in a number from 0 to 1


class MultiVectors(Output):
    """The vectors of unit length that a model projects from those of its tokens."""

    name = "multi_vector"
    chosen = "multi_vector_tokens"
    reads = ("multi_vector",)
    tolerance = "multi_vector"
    floor = 1e-5

    def checked(self, spec: MultiVectorSpec, inputs: int) -> MultiVectorSpec:
        return checked_multi_vector(spec)

    def given_by(self, architecture: Architecture) -> bool:
        return architecture.multi_vector_dim > 0

    def choose(
        self, spec: MultiVectorSpec, model: ModelDescription, forms: AvailableForms
    ) -> MultiVectorSpec:
        check_name(f"{FIELD}.dtype", spec.dtype, VECTOR_BITS)
        if VECTOR_BITS[spec.dtype] == 1 and (width := model.multi_vector_dim) % 8:
            raise InvalidInput(
                f"{FIELD}.dtype", Reason.BITS_OF_WIDTH, width=width, dtype=spec.dtype
            )
        return spec

    def whole(self, architecture: Architecture) -> MultiVectorSpec:
        return MultiVectorSpec()

    def place(self, choice: MultiVectorSpec, tokenized: Tokenized, pooling: str) -> Ids:
        if tokenized.matched is None:
            return np.arange(len(tokenized.ids))
        if not len(tokenized.matched):
            raise InvalidInput(FIELD, Reason.NO_VECTOR)
        return tokenized.matched

    def tensors(
        self,
        choice: MultiVectorSpec,
        place: Ids | None,
        count: int,
        model: Architecture | ModelDescription,
    ) -> tuple[Tensor, ...]:
        width = model.multi_vector_dim // (8 if VECTOR_BITS[choice.dtype] == 1 else 1)
        shape = (count if place is None else len(place), width)
        return (Tensor("multi_vector", choice.dtype, shape, self.axes),)

    def cut(self, choice: MultiVectorSpec, item: Item, outputs: Arrays, row: int) -> Arrays:
        rows: Ids | None = item.places.get("multi_vector")
        chosen = slice(len(item.ids)) if rows is None else rows
        vectors = unit_length(outputs["multi_vector"][row, chosen])
        return {"multi_vector": in_type(vectors, choice.dtype)}

    def unit(self, choice: MultiVectorSpec, usual: bool) -> bool:
        return choice.dtype in ("float32", "float16")

    def graph_shapes(self, architecture: Architecture) -> dict[str, tuple[int, ...]]:
        return {"multi_vector": (0, 0, architecture.multi_vector_dim)}

    def message_of(self, spec: MultiVectorSpec) -> pb.MultiVectorOutput:
        number = None if spec.dtype == "float32" else numbers_of("DataType")[spec.dtype]
        message: pb.MultiVectorOutput = messages().MultiVectorOutput(dtype=number)
        return message

    def spec_of(self, message: pb.MultiVectorOutput) -> MultiVectorSpec:
        types = get_args(VectorType)
        return MultiVectorSpec(
            dtype=known(f"{FIELD}.dtype", "DataType", message.dtype, types, "float32")
        )

    def tokens(self, choice: MultiVectorSpec) -> None:
        return None

    def result(
        self,
        choice: MultiVectorSpec,
        place: Ids | None,
        arrays: Arrays,
        tokens: TokenList,
        model: ModelRef,
    ) -> TokenVectors:
        vectors = arrays["multi_vector"]
        places = range(len(vectors)) if place is None else place.tolist()
        return TokenVectors(vectors, tuple(places), tokens, model)

    def counted(self, result: TokenVectors, original: int, encoded: int) -> TokenVectors:
        return dataclasses.replace(result, cut_tokens=original - encoded)


def in_type(vectors: Floats, dtype: VectorType) -> Array:
    """Convert vectors of unit length, float32 [n, D]; int8: 127 times their numbers, rounded."""
    if dtype == "int8":
        steps: Array = np.rint(vectors * STEPS)
        return steps.astype(np.int8)
    return as_type(vectors, dtype)
