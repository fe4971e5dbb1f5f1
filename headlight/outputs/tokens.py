"""Token vectors: one for each token of an input, or for those that are not skipped."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

import numpy as np

from headlight.errors import InvalidInput, Reason
from headlight.interface.checked_specs import checked_tokens
from headlight.outputs.contract import known, messages, numbers_of
from headlight.outputs.layout import Tensor
from headlight.outputs.output import Item, Output
from headlight.outputs.vector_forms import ALL_ROWS, TOKENS, shape_rows
from headlight.results import ModelRef, TokenList, TokenVectors
from headlight.spec import RowType, TokenChoice, TokensSpec, check_name

if TYPE_CHECKING:
    from headlight.description import ModelDescription
    from headlight.outputs.vector_forms import AvailableForms
    from headlight.pb import headlight_pb2 as pb
    from headlight.runtime.values import Architecture, Arrays, Ids, Tokenized


class TokenRows(Output):
    """Vectors of tokens, scaled to unit length or in fewer bytes, as requested."""

    name = "tokens"
    chosen = "kept_tokens"
    reads = ("tokens",)
    tolerance = "tokens"
    floor = 2e-5
    plain = ALL_ROWS
    by_row = True

    def checked(self, spec: TokensSpec, inputs: int) -> TokensSpec:
        return checked_tokens(spec)

    def choose(
        self, spec: TokensSpec, model: ModelDescription, forms: AvailableForms
    ) -> TokensSpec:
        check_name(f"{TOKENS}.dtype", spec.dtype, ("float32", "float16"))
        return spec

    def needs_tokens(self, choice: TokensSpec) -> bool:
        return choice.skip_special or choice.skip_prompt

    def place(self, choice: TokensSpec, tokenized: Tokenized, pooling: str) -> Ids | None:
        if not (choice.skip_special or choice.skip_prompt):
            return None
        info = tokenized.info
        if info is None or (choice.skip_special and tokenized.words is None):
            raise InvalidInput(f"{TOKENS}.skip_special", Reason.SPECIAL_UNKNOWN)
        skips = ((choice.skip_special, info.special), (choice.skip_prompt, info.prompt))
        left = np.flatnonzero(~np.any([marks for skipped, marks in skips if skipped], axis=0))
        if not len(left):
            raise InvalidInput(TOKENS, Reason.ALL_SKIPPED)
        return left

    def tensors(
        self,
        choice: TokensSpec,
        place: Ids | None,
        count: int,
        model: Architecture | ModelDescription,
    ) -> tuple[Tensor, ...]:
        shape = (count if place is None else len(place), model.dim)
        return (Tensor("tokens", choice.dtype, shape, self.axes),)

    def cut(self, choice: TokensSpec, item: Item, outputs: Arrays, row: int) -> Arrays:
        rows = rows_of(item)
        chosen = slice(len(item.ids)) if rows is None else rows
        return {"tokens": shape_rows(outputs["tokens"][row, chosen], choice)}

    def unit(self, choice: TokensSpec, usual: bool) -> bool:
        return choice.normalize

    def graph_shapes(self, architecture: Architecture) -> dict[str, tuple[int, ...]]:
        return {"tokens": (0, 0, architecture.dim)}

    def spec_of(self, message: pb.TokensOutput) -> TokensSpec:
        return TokensSpec(
            skip_special=message.skip_special,
            skip_prompt=message.skip_prompt,
            normalize=message.normalize,
            dtype=known(f"{TOKENS}.dtype", "DataType", message.dtype, get_args(RowType), "float32"),
        )

    def message_of(self, spec: TokensSpec) -> pb.TokensOutput:
        message: pb.TokensOutput = messages().TokensOutput(
            skip_special=spec.skip_special,
            skip_prompt=spec.skip_prompt,
            normalize=spec.normalize,
            dtype=None if spec.dtype == "float32" else numbers_of("DataType")[spec.dtype],
        )
        return message

    def tokens(self, choice: TokensSpec) -> TokenChoice | None:
        return None if choice.skip_special or choice.skip_prompt else "all"

    def result(
        self,
        choice: TokensSpec,
        place: Ids | None,
        arrays: Arrays,
        tokens: TokenList,
        model: ModelRef,
    ) -> TokenVectors:
        vectors = arrays["tokens"]
        places = range(len(vectors)) if place is None else place.tolist()
        return TokenVectors(vectors, tuple(places), tokens, model)


def rows_of(item: Item) -> Ids | None:
    """Return the tokens of an item whose vectors are requested: int64 [m]; None: all."""
    rows: Ids | None = item.places.get("tokens")
    return rows
