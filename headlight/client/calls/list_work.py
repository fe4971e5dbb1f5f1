"""A list of inputs, laid out as several requests by what each costs and the server's limits; and which weights answered them."""

from __future__ import annotations

import operator
import sys
from collections.abc import Iterator, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from numpy.typing import ArrayLike

from headlight.description import ModelDescription
from headlight.errors import InvalidInput, MixedWeights
from headlight.pb import headlight_pb2 as pb
from headlight.results import ModelRef
from headlight.wire.client_codec import Input, Prompting, from_model_ref, to_head_mask, to_input
from headlight.wire.printable import escaped

# A stock client receives no larger message, whatever the server would send. What is not data must fit beside it.
STOCK_MESSAGE_BYTES = 4 * 2**20
MESSAGE_MARGIN_BYTES = 4 * 2**10
INPUT_BYTES = 8  # what frames an input in a request
SPECIAL_TOKENS = 4  # at most, around a text or a pair
MASK_FRAMING_BYTES = 8  # tag and length of a HeadMask in an input
WHEN_MIXED = "; call again when the roll-out has ended"
RequestT = TypeVar("RequestT", bound=pb.EncodeRequest | pb.TokenizeRequest)


class Cost(NamedTuple):
    """What one input adds to a request, or what a request may hold in all. Each is an upper bound, never an average."""

    items: int
    request_bytes: int
    tokens: int
    response_bytes: int


def split(costs: Sequence[Cost], budget: Cost) -> Iterator[range]:
    """Consecutive index ranges that together cover `costs`, each the longest that fits.

    An input that does not fit alone has a range of its own: costs are upper bounds, so whether it is too large is for
    the server to say.
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
    """(bytes in a request, upper bound of tokens) of each input.

    Only the server can count tokens. A tokenizer makes at most one of each byte of UTF-8, so the bytes bound them. (One
    that first spells single characters out at length, as NFKC does with a few ligatures, could exceed it; the server
    then refuses the request, and says so.)

    Raises:
        InvalidInput: an input of another type, or larger than a request may be.
    """
    measured = []
    for index, item in enumerate(inputs):
        message = to_input(item, f"inputs[{index}]")
        size = message.ByteSize() + INPUT_BYTES
        if size > max_request_bytes:
            raise InvalidInput(
                f"inputs[{index}]", f"takes {size} bytes, and a request at most {max_request_bytes}; shorten it"
            )
        measured.append((size, len(message.ids.ids) if message.HasField("ids") else size + SPECIAL_TOKENS))
    return measured


def response_bytes(model: ModelDescription) -> int:
    """Bytes that fit in one unary answer, the server's limit and a stock client's considered."""
    return without_margin(min(model.limits.max_unary_response_bytes or STOCK_MESSAGE_BYTES, STOCK_MESSAGE_BYTES))


def without_margin(limit: int) -> int:
    """What a message of at most `limit` bytes holds beside what is not data."""
    return limit - min(MESSAGE_MARGIN_BYTES, limit // 2)


class ListWork(Generic[RequestT]):
    """A list of inputs in as many requests as the server's limits ask for.

    Attributes:
        parts: the inputs of each request, by index.
        large: the first inputs of requests whose answers may rightly be larger than a message. Each holds one alone.
    """

    def __init__(
        self,
        model: ModelDescription,
        base: RequestT,
        inputs: Sequence[Input],
        reading: Prompting,
        answer_bytes: int,
        *,
        item_bytes: int = 0,
        token_bytes: int = 0,
        alone: bool = False,
        head_mask: ArrayLike | None = None,
    ) -> None:
        """Lay out the requests.

        Args:
            model: for the limits.
            base: what all requests say.
            inputs: what to encode.
            reading: how texts are read.
            answer_bytes: that fit in the answer to one request.
            item_bytes: that each input takes of them.
            token_bytes: that each of its tokens takes, the prompt's included.
            alone: whether each input travels in a request of its own.
            head_mask: [L, H], for every input; None: ones.

        Raises:
            InvalidInput: an input or the mask is none that can be sent.
        """
        self._model, self._inputs = model, inputs
        self._base: Any = base
        self._head_mask = to_head_mask(model, head_mask)
        mask_bytes = 0 if self._head_mask is None else self._head_mask.ByteSize() + MASK_FRAMING_BYTES
        prompt = len(model.prompt_text(reading.get("prompt"), reading.get("prompt_name")).encode())  # most tokens of it
        limits, most_tokens, longest = model.limits, sys.maxsize, sys.maxsize
        most_bytes = without_margin(limits.max_request_bytes or STOCK_MESSAGE_BYTES)
        if isinstance(base, pb.EncodeRequest):  # what is longer is refused, or cut before it counts
            most_tokens, longest = limits.max_request_tokens or sys.maxsize, model.max_length
        sizes = ((size, min(tokens + prompt, longest)) for size, tokens in measure(inputs, most_bytes))
        costs = [Cost(1, size + mask_bytes, tokens, item_bytes + tokens * token_bytes) for size, tokens in sizes]
        items = 1 if alone else limits.max_items or sys.maxsize
        rest_bytes = max(1, most_bytes - base.ByteSize())
        self.parts = list(split(costs, Cost(items, rest_bytes, most_tokens, answer_bytes)))
        self.large = {part.start for part in self.parts if costs[part.start].response_bytes > answer_bytes}
        self._origin: ModelRef | None = None  # the weights that the first answer was of

    def request(self, part: range) -> RequestT:
        """The request for some of the inputs, by index."""
        request: RequestT = type(self._base)()
        request.CopyFrom(self._base)
        request.inputs.extend(to_input(self._inputs[index], f"inputs[{index}]", self._head_mask) for index in part)
        return request

    def check_origin(self, message: pb.ModelRef) -> None:
        """Raise MixedWeights for an answer that does not compare with those before it: replicas are being replaced."""
        ref = from_model_ref(message)
        first = self._origin = self._origin or ref
        if not ref.compares_with(first):
            met = sorted(escaped(f"{each.name} {each.version} {each.precision}") for each in (first, ref))
            raise MixedWeights(f"replicas answered one call with different weights ({', '.join(met)}){WHEN_MIXED}")
