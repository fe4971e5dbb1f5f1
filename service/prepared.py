"""A request that could run, and how large its answer would be: known, and refused where it is too large, before it runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from headlight.errors import InvalidInput
from headlight.pb import headlight_pb2 as pb
from headlight.runtime.manifest import Architecture
from headlight.runtime.values import Selection, Tokenized
from service.answers import FLOAT_BYTES, FRAMING_BYTES
from service.frames import HEADER_LIMIT_BYTES

OUTPUTS = ("pooled", "tokens", "attention", "hidden")


@dataclasses.dataclass(slots=True)
class Prepared:
    """A request, tokenised.

    Attributes:
        header: the answer without data.
        output_bytes: of data, by output.
        item_bytes: of data, by input.
    """

    inputs: list[Tokenized]
    selection: Selection
    header: pb.EncodeResponse
    output_bytes: dict[str, int]
    item_bytes: list[int]
    arrived_ns: int

    @property
    def data_bytes(self) -> int:
        return sum(self.item_bytes)

    @property
    def tokens(self) -> int:
        return sum(len(tokenized.ids) for tokenized in self.inputs)

    @property
    def largest(self) -> str:
        """The field that asks for most of the data."""
        return "outputs." + max(self.output_bytes, key=self.output_bytes.__getitem__)

    def what_fits(self, limit_bytes: int) -> str:
        """A selection whose data has at most so many bytes, as a clause for a message; empty where there is none."""
        for name, layers in (("attention", self.selection.attention), ("hidden", self.selection.hidden)):
            if self.largest != f"outputs.{name}":
                continue
            others = self.data_bytes - self.output_bytes[name]
            fitting = (limit_bytes - others) * len(layers) // self.output_bytes[name]
            if fitting > 0:
                return f"; {fitting} of these {len(layers)} layers would fit"
        total = fitting = 0
        for size in self.item_bytes:
            total += size
            fitting += total <= limit_bytes
        return f"; the first {fitting} of these {len(self.item_bytes)} inputs would fit" if fitting else ""


def sizes(
    inputs: Sequence[Tokenized], selection: Selection, architecture: Architecture
) -> tuple[dict[str, int], list[int]]:
    """Bytes of data that an answer would have: by output, and by input."""
    by_output, by_item = dict.fromkeys(OUTPUTS, 0), []
    for tokenized in inputs:
        elements = selection.output_elements(len(tokenized.ids), architecture.dim, architecture.heads)
        by_item.append(FLOAT_BYTES * sum(elements.values()))
        for name, count in elements.items():
            by_output[name] += FLOAT_BYTES * count
    return by_output, by_item


def check_unary(prepared: Prepared, limit_bytes: int) -> None:
    """Refuse an answer that the caller could not receive in one message.

    Raises:
        InvalidInput: naming the largest output, the size, what would fit and the remedy.
    """
    info = prepared.header.ByteSize() + FRAMING_BYTES
    size = info + prepared.data_bytes
    if size > limit_bytes:
        field = prepared.largest if prepared.data_bytes > info else "outputs.token_info"
        fits = prepared.what_fits(limit_bytes - info)
        remedy = "ask for fewer layers or inputs, or use EncodeStream"
        raise InvalidInput(field, f"the answer would have {size} bytes, over {limit_bytes}{fits}; {remedy}")


def check_stream(prepared: Prepared, limit_bytes: int) -> None:
    """Refuse an answer that a stream may not hold.

    Raises:
        InvalidInput: naming the largest output, the size, what would fit and the remedy.
    """
    info, size = prepared.header.ByteSize(), prepared.data_bytes
    if size > limit_bytes:
        fits = prepared.what_fits(limit_bytes)
        remedy = "ask for fewer layers or inputs per request"
        raise InvalidInput(prepared.largest, f"the answer would have {size} bytes, over {limit_bytes}{fits}; {remedy}")
    if info > HEADER_LIMIT_BYTES:
        raise InvalidInput("outputs.token_info", f"would have {info} bytes; send fewer inputs per request")
