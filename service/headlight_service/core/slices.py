"""Slices of a request: its inputs in parts that are tokenised and queued one by one.

A slice has at most as many tokens as one request may have in the queue. Most requests are one
slice. Only vectors are computed in several; the inputs of the next slice are tokenised once the
results of the last one are there, so a request of any number of tokens holds those of one slice.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError

import numpy as np

from headlight.runtime.encode_items import EncodeItem, Selection
from headlight.runtime.values import Floats, Tokenized
from headlight_service.core.models import ServedModel
from headlight_service.core.tokenization import TokenizationJob, items_of, tokenized


class Slices:
    """Iterator over the items of each slice. One thread at a time uses it.

    Attributes:
        inputs: inputs of the slices so far. Of all but the last, only the lengths are kept, with
            zeros for ids.
        tokens: tokens that were read so far.
        more: whether inputs are left after the last slice.
        several: whether there is more than one slice.
    """

    def __init__(
        self,
        job: TokenizationJob,
        model: ServedModel,
        selection: Selection,
        head_masks: Sequence[Floats | None] | None,
        *,
        cancelled: Callable[[], bool],
        charge: Callable[[float], None],
    ) -> None:
        """Start before the first.

        Args:
            job: what to tokenise.
            model: the model.
            selection: the requested outputs.
            head_masks: of each input.
            cancelled: returns whether to stop.
            charge: called with `tokens` after each slice, also of one that is refused.
        """
        self._job, self._model, self._selection, self._masks = job, model, selection, head_masks
        self._source: Iterator[Tokenized] = tokenized(job, model.runtime, cancelled)
        self._most = job.max_tokens if job.sliced else sys.maxsize
        self._charge, self._cancelled = charge, cancelled
        self._ahead: Tokenized | None = None  # read, and the first of the next slice
        self._last = 0  # inputs of all slices but the last
        self.inputs = list[Tokenized]()
        self.tokens = 0
        self.more, self.several = True, False

    def __iter__(self) -> Iterator[list[EncodeItem]]:
        return self

    def __next__(self) -> list[EncodeItem]:
        """Tokenise the next slice. Raises InvalidInput, naming the input."""
        if not self.more:
            raise StopIteration
        done, self._last = self._last, len(self.inputs)
        self.inputs[done:] = _lengths(self.inputs[done:])
        try:
            self.inputs += self._read()
        finally:
            self._charge(self.tokens)
        if self._cancelled():
            raise CancelledError
        part, job = slice(self._last, len(self.inputs)), self._job
        inputs = self.inputs[part]
        self._model.density.learn(job.inputs[part], job.sizes[part], inputs)
        masks = self._masks and self._masks[part]
        pooling = self._model.runtime.bundle.manifest.pooling
        return items_of(inputs, self._selection, pooling, masks)

    def estimated_tokens(self) -> int:
        """Return about how many tokens all slices have."""
        job, model, done = self._job, self._model, len(self.inputs)
        read = sum([len(each.ids) for each in self.inputs])
        return read + model.density.tokens(job.inputs[done:], job.sizes[done:], model.max_length)

    def _read(self) -> list[Tokenized]:
        taken, tokens = list[Tokenized](), 0
        one = self._ahead or self._one()
        while one is not None and (not taken or tokens + len(one.ids) <= self._most):
            taken.append(one)
            tokens += len(one.ids)
            one = self._one()
        self._ahead, self.more = one, one is not None
        self.several = self.several or self.more
        return taken

    def _one(self) -> Tokenized | None:
        one = next(self._source, None)
        if one is not None:
            self.tokens += len(one.ids)
        return one


def _lengths(inputs: Sequence[Tokenized]) -> list[Tokenized]:
    """Return inputs without their ids: zeros, which all share."""
    zeros = np.zeros(max([len(each.ids) for each in inputs], default=0), np.int64)
    return [
        each._replace(ids=zeros[: len(each.ids)], segments=None, occluded=(), matched=None)
        for each in inputs
    ]
