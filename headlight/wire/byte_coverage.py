"""Which bytes of an answer in pieces have come."""

from __future__ import annotations

import bisect

from headlight.wire.client_codec import malformed


class Coverage:
    """Which bytes of a buffer have been written: disjoint, sorted, merged where they touch."""

    def __init__(self) -> None:
        self._begins: list[int] = []
        self._ends: list[int] = []

    def add(self, begin: int, end: int) -> None:
        """Marks begin .. end-1. Raises BadAnswer where one of them is marked already."""
        at = bisect.bisect_right(self._begins, begin)
        if (at > 0 and self._ends[at - 1] > begin) or (at < len(self._begins) and self._begins[at] < end):
            raise malformed(f"two chunks overlap in bytes {begin} to {end}")
        first, last = at, at
        if at > 0 and self._ends[at - 1] == begin:
            first, begin = at - 1, self._begins[at - 1]
        if at < len(self._begins) and self._begins[at] == end:
            last, end = at + 1, self._ends[at]
        self._begins[first:last], self._ends[first:last] = [begin], [end]

    def is_whole(self, size: int) -> bool:
        """Whether bytes 0 .. size-1, and no others, are marked."""
        return self._begins == [0] and self._ends == [size]
