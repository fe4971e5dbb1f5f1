"""How long a caller is willing to wait."""

from __future__ import annotations

import math
import time
from typing import Any, cast

import grpc


def deadline_of(context: grpc.aio.ServicerContext[Any, Any]) -> float:
    """The deadline of a call on time.monotonic, which unlike gRPC's clock never jumps; infinity where there is none."""
    remaining = cast("float | None", context.time_remaining())  # the stubs do not know that it can be None
    return math.inf if remaining is None else time.monotonic() + remaining
