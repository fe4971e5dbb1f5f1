"""Requests and errors, as tests over a socket build and read them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import grpc
import pytest
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, RequestInfo, RetryInfo
from google.rpc.status_pb2 import Status

from headlight.pb import headlight_pb2 as pb
from headlight_service.frontends.grpc.grpc_status import DETAILS

# Otherwise the buffer of a fast connection holds a whole answer unread.
NARROW = [("grpc.http2.bdp_probe", 0)]


def text_of(length: int) -> pb.Input:
    """Return a text of so many tokens; if large, too long to be tokenised in place."""
    return pb.Input(text=" ".join(["word"] * length))


def request(*inputs: pb.Input, **fields: Any) -> pb.EncodeRequest:
    return pb.EncodeRequest(inputs=inputs or [text_of(2)], **fields)


async def until(condition: Callable[[], bool]) -> None:
    """Let the event loop run until something holds, for two minutes at most."""
    async with asyncio.timeout(120):
        while not condition():
            await asyncio.sleep(0)


async def refused(call: Any, status: grpc.StatusCode) -> grpc.aio.AioRpcError:
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await call
    assert error.value.code() is status, repr(error.value)
    return error.value


def unpacked(status: Status) -> dict[str, Any]:
    """Return the details of a status, by the name of their type."""
    known = {
        kind.DESCRIPTOR.full_name: kind for kind in (BadRequest, ErrorInfo, RequestInfo, RetryInfo)
    }
    kinds = [(known[packed.TypeName()], packed.value) for packed in status.details]
    return {kind.__name__: kind.FromString(value) for kind, value in kinds}


def details_of(error: Any) -> dict[str, Any]:
    """Return the google.rpc details of a failed call, by the name of their type."""
    metadata: Any = error.trailing_metadata()
    status = Status.FromString(dict(metadata)[DETAILS])
    assert (status.code, status.message) == (error.code().value[0], error.details())
    return unpacked(status)
