"""Split of a long list into requests: a pure policy over the inputs' costs and the server's limits."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from headlight.description import ModelDescription
from headlight.errors import InvalidInput
from headlight.wire.client_codec import Input, to_input

# A stock client receives no larger message, whatever the server would send. What is not data must fit beside it.
STOCK_MESSAGE_BYTES = 4 * 2**20
MESSAGE_MARGIN_BYTES = 4 * 2**10
INPUT_BYTES = 8  # what frames an input in a request
SPECIAL_TOKENS = 4  # at most, around a text or a pair


@dataclasses.dataclass(frozen=True, slots=True)
class Cost:
    """What one input adds to a request, or what a request may hold in all. Each is an upper bound, never an average."""

    items: int
    request_bytes: int
    tokens: int
    response_bytes: int

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.items + other.items,
            self.request_bytes + other.request_bytes,
            self.tokens + other.tokens,
            self.response_bytes + other.response_bytes,
        )

    def fits(self, budget: Cost) -> bool:
        """Whether no part exceeds that of `budget`."""
        return (
            self.items <= budget.items
            and self.request_bytes <= budget.request_bytes
            and self.tokens <= budget.tokens
            and self.response_bytes <= budget.response_bytes
        )


def split(costs: Sequence[Cost], budget: Cost) -> Iterator[range]:
    """Consecutive index ranges that together cover `costs`, each the longest that fits.

    An input that does not fit alone has a range of its own: costs are upper bounds, so whether it is too large is for
    the server to say.
    """
    begin, total = 0, Cost(0, 0, 0, 0)
    for index, cost in enumerate(costs):
        total += cost
        if index > begin and not total.fits(budget):
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


def request_bytes(model: ModelDescription) -> int:
    """Bytes of inputs that fit in one request, the server's limit and a stock server's considered."""
    return without_margin(model.limits.max_request_bytes or STOCK_MESSAGE_BYTES)


def response_bytes(model: ModelDescription) -> int:
    """Bytes that fit in one unary answer, the server's limit and a stock client's considered."""
    return without_margin(min(model.limits.max_unary_response_bytes or STOCK_MESSAGE_BYTES, STOCK_MESSAGE_BYTES))


def without_margin(limit: int) -> int:
    """What a message of at most `limit` bytes holds beside what is not data."""
    return limit - min(MESSAGE_MARGIN_BYTES, limit // 2)
