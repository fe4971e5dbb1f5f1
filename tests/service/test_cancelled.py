"""Why a call was cancelled, where its caller's clock and ours differ by what the call was on its way."""

from __future__ import annotations

from typing import Any

import pytest
from grpc import StatusCode

from service.interceptor import _cancelled


class Call:
    """One that has so many seconds left."""

    def __init__(self, remaining: float | None) -> None:
        self.remaining = remaining

    def time_remaining(self) -> float | None:
        return self.remaining


@pytest.mark.parametrize(
    ("remaining", "lasted", "status"),
    [
        (0.0, 0.001, StatusCode.DEADLINE_EXCEEDED),
        (0.04, 1.0, StatusCode.DEADLINE_EXCEEDED),
        (0.06, 1.0, StatusCode.CANCELLED),
        (0.04, 0.005, StatusCode.CANCELLED),  # the whole of it short, and given up at once
        (None, 100.0, StatusCode.CANCELLED),
    ],
)
def test_a_deadline_may_end_a_call_a_little_early(remaining: float | None, lasted: float, status: StatusCode) -> None:
    call: Any = Call(remaining)
    assert _cancelled(call, lasted) is status
