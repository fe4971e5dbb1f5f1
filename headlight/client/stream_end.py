"""How a stream ends that is not read to its end: a refusal is no reason for the server to count a caller who left."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import grpc

LINGER_SECONDS = 0.25  # for a status that is on its way; a server that has gone is not waited for


def end(call: Any, over: bool) -> None:
    """End a blocking call.

    Args:
        call: a stream, whose requests gRPC has drawn to the end where it is over.
        over: whether nothing more is to come than the status.
    """
    try:
        if over:
            with contextlib.suppress(grpc.FutureTimeoutError, grpc.FutureCancelledError):
                call.exception(LINGER_SECONDS)
    finally:
        call.cancel()


async def end_async(call: Any, over: bool) -> None:
    """The same of asyncio."""
    try:
        if over:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(call.code(), LINGER_SECONDS)
    finally:
        call.cancel()
