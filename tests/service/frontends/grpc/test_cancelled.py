"""Cancel causes near the deadline.

The clocks of client and server differ by the network delay.
"""

from __future__ import annotations

import math

import pytest
from grpc import StatusCode

from headlight_service.frontends.grpc.interceptor import _cancelled


@pytest.mark.parametrize(
    ("left", "lasted", "status"),
    [
        (0.0, 0.001, StatusCode.DEADLINE_EXCEEDED),
        (0.04, 1.0, StatusCode.DEADLINE_EXCEEDED),
        (0.06, 1.0, StatusCode.CANCELLED),
        (0.04, 0.005, StatusCode.CANCELLED),  # a short timeout, and cancelled at once
        (math.inf, 100.0, StatusCode.CANCELLED),
    ],
)
def test_a_deadline_may_end_a_call_a_little_early(
    left: float, lasted: float, status: StatusCode
) -> None:
    assert _cancelled(left, lasted) is status
