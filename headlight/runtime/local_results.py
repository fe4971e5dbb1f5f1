"""An input of a runtime in this process, before it is computed and after."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

from headlight.outputs.registry import OUTPUTS
from headlight.results import ModelRef, TokenList
from headlight.runtime.encode_items import EncodeItem, ItemResult
from headlight.runtime.spans.span_items import SpanItems
from headlight.runtime.spelling import Spelling
from headlight.runtime.values import Tokenized
from headlight.span_vectors import SpanVectors


class Prepared(NamedTuple):
    """One input, tokenised, and its item for the engine."""

    tokenized: Tokenized
    item: EncodeItem

    @property
    def tokens(self) -> TokenList:
        """The tokens, which must have been requested."""
        info = self.tokenized.info
        if info is None:
            raise RuntimeError("an input was prepared without its tokens. This is a bug.")
        # without a tokenizer, ids have no spelling
        return info if info.pieces else dataclasses.replace(info, pieces=("",) * len(info))

    def result(
        self, output: str, result: ItemResult, model: ModelRef, spelling: Spelling | None = None
    ) -> Any:
        """Return what callers get of an output; they get the same from a client."""
        choice, place = self.item.selection[output], self.item.places.get(output)
        its, tokenized = OUTPUTS[output], self.tokenized
        if spelling is not None and its.most_spelled(choice):
            place = spelling.pieces(its.spelled(result))
        made = its.result(choice, place, result, self.tokens, model)
        return its.counted(made, tokenized.original_length, len(tokenized.ids))


def span_vectors(
    each: Prepared, work: SpanItems, result: ItemResult, model: ModelRef
) -> SpanVectors:
    """Return the vectors of the spans of one input, which `work` has placed."""
    vectors: SpanVectors = each._replace(item=work.items[0]).result("spans", result, model)
    return vectors
