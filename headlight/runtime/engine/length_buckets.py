"""Lengths rounded up to few sizes: where a provider compiles a graph for every shape, few shapes are soon all compiled."""

from __future__ import annotations

from typing import NamedTuple


class Rounding(NamedTuple):
    """How many tokens a batch is padded to. Padding changes no number: masked tokens are not seen.

    Attributes:
        multiple: batches are as long as a multiple of so many tokens; 1: as their longest item.
        most: tokens that the model takes: learned positions have no row behind it, so nothing is padded beyond.
    """

    multiple: int
    most: int

    def up(self, length: int) -> int:
        """The tokens that a batch has whose longest item has `length`."""
        return max(length, min(-(-length // self.multiple) * self.multiple, self.most))


AS_LONG = Rounding(1, 0)  # as the longest item
