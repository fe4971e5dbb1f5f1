"""A graph that some library has opened: what the engine asks of it, whichever library that is."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from numpy.typing import NDArray

Outputs = dict[str, NDArray[Any]]
Shape = tuple[int | str | None, ...]  # a number, or anything else where the size varies


class Session(Protocol):
    """A graph, ready to run; called by as many threads as one likes.

    Attributes:
        inputs: the names it takes.
        outputs: the shape of each that it gives.
    """

    @property
    def inputs(self) -> frozenset[str]: ...

    @property
    def outputs(self) -> Mapping[str, Shape]: ...

    def run(
        self, names: Sequence[str], feeds: Outputs, buffers: Outputs, *, wide: bool = False
    ) -> contextlib.AbstractContextManager[Outputs]:
        """Run one batch.

        Args:
            names: of the outputs wanted.
            feeds: all its inputs, C-contiguous.
            buffers: arrays of the right shape and type, C-contiguous, that some of the outputs are to be written into.
            wide: on all threads, where the session was opened for that.

        Returns:
            The outputs named, which hold their numbers until the context is left: copy what is to last.
        """

    def shrink(self, feeds: Outputs) -> None:
        """Give back the memory that batches before needed, as far as the library can. `feeds` is a batch to run for that."""
