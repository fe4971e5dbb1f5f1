"""List of inputs split into requests, by cost and server limits; check for mixed weights."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, NamedTuple, TypeVar, cast

from numpy.typing import ArrayLike

from headlight.description import ModelDescription
from headlight.errors import InvalidInput, MixedWeights, Reason
from headlight.interface.arguments import Input, Prompting
from headlight.pb import headlight_pb2 as pb
from headlight.printable import escaped
from headlight.results import ModelRef
from headlight.wire.client_codec import from_model_ref, to_head_mask, to_input

# A client with gRPC's default options receives no larger message. The margin is for everything in a
# message that is not data.
STOCK_MESSAGE_BYTES = 4 * 2**20
MESSAGE_MARGIN_BYTES = 4 * 2**10
INPUT_BYTES = 8  # framing of an input in a request
ITEM_BYTES = 32  # of an `Item` in a response, without its tokens
TOKEN_BYTES = 32  # of one token of a `TokenInfo`, its piece included
SPECIAL_TOKENS = 4  # at most, around a text or a pair
MASK_FRAMING_BYTES = 8  # tag and length of a HeadMask in an input
Listing = (
    pb.EncodeRequest
    | pb.TokenizeRequest
    | pb.CompareRequest
    | pb.RerankRequest
    | pb.ClassifyRequest
)
RequestT = TypeVar("RequestT", bound=Listing)


class Cost(NamedTuple):
    """Cost of one input, or capacity of one request.

    Each number is an upper bound, never an average.
    """

    items: int
    request_bytes: int
    tokens: int
    response_bytes: int


NOTHING = Cost(0, 0, 0, 0)


def split(costs: Sequence[Cost], budget: Cost) -> Iterator[range]:
    """Yield consecutive index ranges that together cover `costs`, each the longest that fits.

    An input that does not fit alone has a range of its own. Costs are upper bounds, so only the
    server can decide that an input is too large.
    """
    begin, total = 0, Cost(0, 0, 0, 0)
    for index, cost in enumerate(costs):
        total = Cost(*map(operator.add, total, cost))
        if index > begin and any(map(operator.gt, total, budget)):
            yield range(begin, index)
            begin, total = index, cost
    if costs:
        yield range(begin, len(costs))


def measure(inputs: Sequence[Input], max_request_bytes: int) -> list[tuple[int, int]]:
    """Return (bytes in a request, upper bound of tokens) of each input.

    Only the server can count tokens. A tokenizer makes at most one token of each byte of UTF-8, so
    the number of bytes is an upper bound. (NFKC expands a few ligatures and could exceed it. The
    server then refuses the request with an error.)

    Raises:
        InvalidInput: an input has an unsupported type, or is larger than a request may be.
    """
    measured = []
    for index, item in enumerate(inputs):
        message = to_input(item, f"inputs[{index}]")
        size = message.ByteSize() + INPUT_BYTES
        if size > max_request_bytes:
            raise InvalidInput(
                f"inputs[{index}]", Reason.TOO_LARGE, size=size, most=max_request_bytes
            )
        measured.append(
            (size, len(message.ids.ids) if message.HasField("ids") else size + SPECIAL_TOKENS)
        )
    return measured


def response_bytes(model: ModelDescription) -> int:
    """Return the bytes that fit in one unary answer of the server to a stock client."""
    return without_margin(
        min(model.limits.max_unary_response_bytes or STOCK_MESSAGE_BYTES, STOCK_MESSAGE_BYTES)
    )


def without_margin(limit: int) -> int:
    """Return the data bytes in a message of at most `limit` bytes."""
    return limit - min(MESSAGE_MARGIN_BYTES, limit // 2)


class ListWork(Generic[RequestT]):
    """List of inputs in as few requests as the server's limits allow.

    Attributes:
        parts: index ranges of the inputs, one for each request.
        large: indices of inputs whose answers may be larger than a message. Each has a request of
            its own.
        answer_bytes: upper bound of all answers together.
    """

    def __init__(
        self,
        model: ModelDescription,
        base: RequestT,
        inputs: Sequence[Input],
        reading: Prompting,
        answer_bytes: int,
        *,
        size: Callable[[int], int],
        alone: bool = False,
        head_mask: ArrayLike | None = None,
        shared: Cost = NOTHING,
    ) -> None:
        """Split the inputs into requests.

        Args:
            model: for the limits.
            base: fields that all requests share.
            inputs: the inputs to encode.
            reading: how to read texts.
            answer_bytes: capacity of the answer to one request.
            size: returns the most bytes in an answer for an input of so many tokens.
            alone: whether each input has a request of its own.
            head_mask: [L, H], for every input; None: ones.
            shared: cost of each request besides `base` and its inputs.

        Raises:
            InvalidInput: an input or the mask cannot be sent.
        """
        self._model, self._inputs = model, inputs
        self._base: Any = base
        self._head_mask = to_head_mask(model, head_mask)
        mask_bytes = (
            0 if self._head_mask is None else self._head_mask.ByteSize() + MASK_FRAMING_BYTES
        )
        # upper bound of its tokens
        named = reading.get("prompt"), reading.get("prompt_name"), reading.get("role")
        prompt = len(model.prompt_text(*named).encode())
        limits, most_tokens, longest = model.limits, sys.maxsize, sys.maxsize
        most_bytes = without_margin(limits.max_request_bytes or STOCK_MESSAGE_BYTES)
        if isinstance(base, pb.EncodeRequest | pb.CompareRequest):
            # Longer inputs are refused, or truncated first.
            most_tokens, longest = limits.max_request_tokens or sys.maxsize, model.max_length
            if isinstance(base, pb.EncodeRequest) and base.outputs.spans.beyond_max_length:
                longest = sys.maxsize
        costs = list[Cost]()
        for at, (sent, tokens) in enumerate(measure(inputs, most_bytes)):
            spans_bytes, spans = self._own_spans(at)
            most = max(min(tokens + prompt, longest), spans, model.query_tokens)
            costs.append(Cost(1, sent + mask_bytes + spans_bytes, most, size(most)))
        items = 1 if alone else limits.max_items or sys.maxsize
        capacity = Cost(items, most_bytes - base.ByteSize(), most_tokens, answer_bytes)
        budget = Cost(*(max(1, most - used) for most, used in zip(capacity, shared, strict=True)))
        self.parts = list(split(costs, budget))
        self.large = {
            part.start for part in self.parts if costs[part.start].response_bytes > answer_bytes
        }
        self.answer_bytes = sum(cost.response_bytes for cost in costs)
        self._origin: ModelRef | None = None  # weights of the first answer

    def _own_spans(self, at: int) -> tuple[int, int]:
        """Return the bytes of the spans of an input in a request, and how many vectors they get."""
        return 0, 0

    def request(self, part: range) -> RequestT:
        """Return the request for some of the inputs, by index."""
        request: Any = type(self._base)()
        request.CopyFrom(self._base)
        request.inputs.extend(
            to_input(self._inputs[index], f"inputs[{index}]", self._head_mask) for index in part
        )
        return cast("RequestT", request)

    def check_origin(self, message: pb.ModelRef) -> None:
        """Raise MixedWeights for an answer whose weights differ: replicas are being replaced."""
        ref = from_model_ref(message)
        first = self._origin = self._origin or ref
        if not ref.compares_with(first):
            met = sorted(
                escaped(f"{each.name} {each.version} {each.precision}") for each in (first, ref)
            )
            raise MixedWeights(Reason.MIXED_WEIGHTS, models=", ".join(met))
