"""Slices of a request for vectors: its inputs in parts that are read and queued one by one.

A slice has at most as many tokens as one request may have in the queue. Most requests are one
slice. The inputs of the next slice are tokenised once the results of the last one are there, so a
request of any number of tokens holds those of one slice.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from headlight.runtime.encode_items import ItemResult
from headlight.runtime.values import Tokenized
from headlight_service.core.scheduler.pending_requests import Computed


class Slices:
    """The slices of one request. One thread at a time uses it.

    Attributes:
        tokens: tokens of all inputs read so far.
        inputs: inputs of the computed slices: their lengths, with zeros for ids.
        results: their results.
        queue_ns, infer_ns: times of the computed slices together.
    """

    def __init__(self, source: Iterator[Tokenized], most_tokens: int) -> None:
        """Start before the first.

        Args:
            source: yields the tokenised inputs, each when it is asked for.
            most_tokens: of a slice; a single input may have more.
        """
        self._source: Iterator[Tokenized] | None = source
        self._most = most_tokens
        self._next: Tokenized | None = None
        self.tokens = 0
        self.inputs = list[Tokenized]()
        self.results = list[ItemResult]()
        self.queue_ns = self.infer_ns = 0

    @property
    def more(self) -> bool:
        """Whether inputs are left after the slice that was read last."""
        return self._next is not None

    def read(self) -> list[Tokenized]:
        """Tokenise and return the next slice. Raises InvalidInput, naming the input."""
        source, taken, tokens = self._source, list[Tokenized](), 0
        if source is None:  # the request has ended
            return taken
        one = self._next or self._one(source)
        while one is not None and (not taken or tokens + len(one.ids) <= self._most):
            taken.append(one)
            tokens += len(one.ids)
            one = self._one(source)
        self._next = one
        return taken

    def _one(self, source: Iterator[Tokenized]) -> Tokenized | None:
        one = next(source, None)
        if one is not None:
            self.tokens += len(one.ids)
        return one

    def add(self, inputs: list[Tokenized], computed: Computed) -> None:
        """Add the results of a slice, of whose inputs only the lengths are kept."""
        zeros = np.zeros(max(len(each.ids) for each in inputs), np.int64)
        self.inputs += [each._replace(ids=zeros[: len(each.ids)], segments=None) for each in inputs]
        self.results += computed.results
        self.queue_ns += computed.queue_ns
        self.infer_ns += computed.infer_ns

    def stop(self) -> None:
        """Let go of the inputs that are not read: their source refers to the request."""
        self._source = self._next = None
