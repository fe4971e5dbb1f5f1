"""Why a call was cancelled, where its caller's clock and ours differ by what the call was on its
way.
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
        (0.04, 0.005, StatusCode.CANCELLED),  # the whole of it short, and given up at once
        (math.inf, 100.0, StatusCode.CANCELLED),
    ],
)
def test_a_deadline_may_end_a_call_a_little_early(
    left: float, lasted: float, status: StatusCode
) -> None:
    assert _cancelled(left, lasted) is status
