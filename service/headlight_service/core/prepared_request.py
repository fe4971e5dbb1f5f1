"""A request that could run, and how large its answer would be: known, and refused where it is too large, before it runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from headlight.errors import InvalidInput
from headlight.pb import headlight_pb2 as pb
from headlight.runtime.attention.resolved_spec import Choice
from headlight.runtime.attention.token_units import attention_bytes
from headlight.runtime.bundle.manifest import Architecture
from headlight.runtime.encode_items import EncodeItem, Selection
from headlight.runtime.values import Tokenized
from headlight.wire.priority import Priority
from headlight_service.frontends.grpc.answer_encoding import FRAMING_BYTES
from headlight_service.frontends.grpc.answer_frames import HEADER_LIMIT_BYTES


@dataclasses.dataclass(slots=True)
class Prepared:
    """A request, tokenised.

    Attributes:
        inputs: as tokenised.
        items: to run.
        header: the answer without data.
        output_bytes: of data, by output.
        data_bytes: their sum.
        architecture: of the model.
        arrived_ns: on time.monotonic_ns.
        priority: how soon it is wanted.
        read: the tokens read that were charged for; see `rate_limit.has_read`.
    """

    inputs: list[Tokenized]
    items: list[EncodeItem]
    header: pb.EncodeResponse
    output_bytes: dict[str, int]
    data_bytes: int
    architecture: Architecture
    arrived_ns: int
    priority: Priority = "interactive"
    read: float = 0.0

    @property
    def selection(self) -> Selection:
        return self.items[0].selection

    @property
    def item_bytes(self) -> list[int]:
        """Of data, by input."""
        return [sum(item.output_bytes(self.architecture).values()) for item in self.items]

    @property
    def largest(self) -> str:
        """The field that asks for most of the data."""
        sizes = self.output_bytes
        return "outputs." + max(sizes, key=sizes.__getitem__)

    def what_fits(self, limit_bytes: int) -> str:
        """A selection whose data has at most so many bytes, as a clause for a message; empty where there is none."""
        sizes, selection = self.output_bytes, self.selection
        for name, part in (("attention", selection.attention), ("hidden", selection.hidden)):
            if part is None or self.largest != f"outputs.{name}":
                continue
            room = limit_bytes - (self.data_bytes - sizes[name])
            layered = not isinstance(part, Choice) or part.axes[0] in ("layer", "pair")
            fitting = room * len(part.layers) // sizes[name] if layered else 0
            if fitting > 0:
                what = "pairs" if isinstance(part, Choice) and part.spec.pairs else "layers"
                return f"; {fitting} of these {len(part.layers)} {what} would fit"
            if isinstance(part, Choice) and (smaller := self._smaller(part, room)):
                return smaller
        total = fitting = 0
        for size in self.item_bytes:
            total += size
            fitting += total <= limit_bytes
        return f"; the first {fitting} of these {len(self.items)} inputs would fit" if fitting else ""

    def _smaller(self, choice: Choice, room: int) -> str:
        """A smaller form of the same attention."""
        spec = choice.spec
        if spec.reduce or spec.top_k or spec.scores or spec.pairs:
            return ""
        forms: list[tuple[str, dict[str, Any]]] = [
            ("dtype float16", {"dtype": "float16"}),
            ("reduce head_mean", {"reduce": ("head_mean",)}),
            ("top_k 8", {"top_k": 8}),
            ("reduce head_mean with dtype float16", {"reduce": ("head_mean",), "dtype": "float16"}),
        ]
        if spec.keys == "all" and spec.unit == "token":
            forms.append(("reduce statistics", {"reduce": ("statistics",), "dtype": "float32"}))
        for words, changes in forms:
            smaller = dataclasses.replace(choice, spec=dataclasses.replace(spec, **changes))
            if sum(attention_bytes(smaller, item.where) for item in self.items) <= room:
                return f"; {words} would fit"
        return ""


def output_bytes(items: Sequence[EncodeItem], architecture: Architecture) -> dict[str, int]:
    """Bytes of data of all items of one selection, by output."""
    first, wanted = items[0].output_bytes(architecture), items[0].selection
    if wanted.vectors_alone:  # all are of one size
        return {name: len(items) * size for name, size in first.items()}
    sizes = [first, *(item.output_bytes(architecture) for item in items[1:])]
    return {name: sum(size[name] for size in sizes) for name in first}


def check_max_bytes(prepared: Prepared) -> None:
    """Refuse attention that is more than its caller wants.

    Raises:
        InvalidInput: with the size and what would fit.
    """
    choice = prepared.selection.attention
    if choice is None or choice.spec.max_bytes is None:
        return
    size = prepared.output_bytes["attention"]
    if size > choice.spec.max_bytes:
        fits = prepared.what_fits(choice.spec.max_bytes + prepared.data_bytes - size)
        problem = f"attention would have {size} bytes, over the {choice.spec.max_bytes} allowed{fits}"
        raise InvalidInput("outputs.attention.max_bytes", f"{problem}; ask for less, or allow more")


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
        remedy = "ask for fewer layers or inputs, reduce attention, or use EncodeStream"
        raise InvalidInput(field, f"the answer would have {size} bytes, over {limit_bytes}{fits}; {remedy}")


def check_stream(prepared: Prepared, limit_bytes: int) -> None:
    """Refuse an answer that a stream may not hold.

    Raises:
        InvalidInput: naming the largest output, the size, what would fit and the remedy.
    """
    size = prepared.data_bytes
    if size > limit_bytes:
        fits = prepared.what_fits(limit_bytes)
        remedy = "ask for fewer layers or inputs per request, or reduce attention"
        raise InvalidInput(prepared.largest, f"the answer would have {size} bytes, over {limit_bytes}{fits}; {remedy}")
    check_header(prepared, HEADER_LIMIT_BYTES)


def check_header(prepared: Prepared, limit_bytes: int) -> None:
    """Refuse what an answer says beside its data, where that alone is too much. Raises InvalidInput with its size."""
    info = prepared.header.ByteSize()
    if info > limit_bytes:
        raise InvalidInput("outputs.token_info", f"would have {info} bytes; send fewer inputs per request")
