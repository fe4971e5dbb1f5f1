"""Token vectors: one for each token of an input, or for those that are not skipped."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

import numpy as np

from headlight.errors import InvalidInput, Reason
from headlight.interface.checked_specs import checked_tokens
from headlight.outputs.answer_places import check_places
from headlight.outputs.contract import known, messages, numbers_of
from headlight.outputs.output import Item, Output, Tensor, Told
from headlight.outputs.vector_forms import ALL_ROWS, TOKENS, shape_rows
from headlight.spec import RowType, TokensSpec, check_name

if TYPE_CHECKING:
    from headlight.outputs.vector_forms import AvailableForms
    from headlight.pb import headlight_pb2 as pb
    from headlight.runtime.bundle.manifest import Architecture, Manifest
    from headlight.runtime.values import Arrays, Ids, Tokenized


class TokenRows(Output):
    """Vectors of tokens, scaled to unit length or in fewer bytes, as requested."""

    name = "tokens"
    chosen = "kept_tokens"
    reads = ("tokens",)
    tolerance = "tokens"
    plain = ALL_ROWS
    by_row = True

    def choose(
        self, spec: TokensSpec, manifest: Manifest, forms: AvailableForms, *, head: bool
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
        self, choice: TokensSpec, item: Item, architecture: Architecture
    ) -> tuple[Tensor, ...]:
        shape = (row_count(item), architecture.dim)
        return (Tensor("tokens", choice.dtype, shape, self.axes),)

    def cut(self, choice: TokensSpec, item: Item, outputs: Arrays, row: int) -> Arrays:
        rows = rows_of(item)
        chosen = slice(len(item.ids)) if rows is None else rows
        return {"tokens": shape_rows(outputs["tokens"][row, chosen], choice)}

    def usable(self, choice: TokensSpec, result: Arrays, unit: bool) -> bool:
        return not choice.normalize or bool(result["tokens"].any(axis=-1).all())

    def graph_shapes(self, architecture: Architecture) -> dict[str, tuple[int, ...]]:
        return {"tokens": (0, 0, architecture.dim)}

    def spec_of(self, message: pb.TokensOutput) -> TokensSpec:
        return TokensSpec(
            skip_special=message.skip_special,
            skip_prompt=message.skip_prompt,
            normalize=message.normalize,
            dtype=known(f"{TOKENS}.dtype", "DataType", message.dtype, get_args(RowType), "float32"),
        )

    def check(self, message: pb.TokensOutput, answer: Told) -> None:
        some = message.skip_special or message.skip_prompt
        kept = answer.response.kept_tokens
        check_places("kept_tokens", answer.response, kept, None if some else "all")


def rows_of(item: Item) -> Ids | None:
    """Return the tokens of an item whose vectors are requested: int64 [m]; None: all."""
    rows: Ids | None = item.places.get("tokens")
    return rows


def row_count(item: Item) -> int:
    """Return the number of tokens whose vectors are requested."""
    rows = rows_of(item)
    return len(item.ids) if rows is None else len(rows)


def tokens_output(spec: TokensSpec) -> pb.TokensOutput:
    """Encode a spec of token vectors. Raises InvalidInput as `checked_tokens`."""
    spec = checked_tokens(spec)
    message: pb.TokensOutput = messages().TokensOutput(
        skip_special=spec.skip_special,
        skip_prompt=spec.skip_prompt,
        normalize=spec.normalize,
        dtype=None if spec.dtype == "float32" else numbers_of("DataType")[spec.dtype],
    )
    return message
