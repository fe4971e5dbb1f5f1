"""A list of inputs, laid out as several requests, and which weights answered them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from numpy.typing import ArrayLike

from headlight.client.calls.request_plan import Cost, measure, request_bytes, split
from headlight.description import ModelDescription
from headlight.errors import MixedWeights
from headlight.pb import headlight_pb2 as pb
from headlight.results import ModelRef
from headlight.wire.client_codec import Input, Prompting, from_model_ref, to_head_mask, to_input
from headlight.wire.printable import escaped

MASK_FRAMING_BYTES = 8  # tag and length of a HeadMask in an input
WHEN_MIXED = "; call again when the roll-out has ended"
RequestT = TypeVar("RequestT", bound=pb.EncodeRequest | pb.TokenizeRequest)


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
        cost: Callable[[int], tuple[int, int]],
        answer_bytes: int,
        *,
        alone: bool = False,
        head_mask: ArrayLike | None = None,
    ) -> None:
        """Lay out the requests.

        Args:
            model: for the limits.
            base: what all requests say.
            inputs: what to encode.
            reading: how texts are read.
            cost: of the most tokens that an input can have with its prompt: the tokens that the server counts, and the
                bytes in the answer.
            answer_bytes: that fit in the answer to one request.
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
        most_bytes = request_bytes(model)
        costs = [Cost(1, size + mask_bytes, *cost(tokens + prompt)) for size, tokens in measure(inputs, most_bytes)]
        limits, most = model.limits, sys.maxsize
        items = 1 if alone else limits.max_items or most
        rest_bytes = max(1, most_bytes - base.ByteSize())
        self.parts = list(split(costs, Cost(items, rest_bytes, limits.max_request_tokens or most, answer_bytes)))
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
