"""Undecodable answers: each is a BadAnswer for both clients."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent import futures
from typing import Any

import grpc
import pytest

from headlight import BadAnswer
from headlight.pb import headlight_pb2 as pb
from tests.headlight.client.test_bad_answers import METHODS, SECONDS
from tests.headlight.conftest import Open
from tests.headlight.fake_server import FakeServicer, default_limits


def garbage(request: bytes, context: Any) -> bytes:
    return b"\xff\xff\xff"


def garbage_frames(requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
    next(requests)
    yield b"\xff\xff\xff"


@pytest.fixture
def undecodable() -> Iterator[str]:
    """Server that describes its model and otherwise sends undecodable bytes."""
    described = (
        FakeServicer(default_limits()).GetModel(pb.GetModelRequest(), None).SerializeToString()
    )
    unary = grpc.unary_unary_rpc_method_handler
    methods = {
        "GetModel": unary(lambda request, context: described),
        **{name: unary(garbage) for name in ("Encode", "Tokenize", "Occlude")},
        "EncodeStream": grpc.stream_stream_rpc_method_handler(garbage_frames),
    }
    server = grpc.server(futures.ThreadPoolExecutor(2))
    handler = grpc.method_handlers_generic_handler("headlight.v1.HeadlightService", methods)
    server.add_generic_rpc_handlers((handler,))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(None).wait()


UNDECODABLE = ("encode", "attend", "tokenize", "occlusion", "attention_bytes", "pieces")


@pytest.mark.parametrize("method", UNDECODABLE)
def test_undecodable_bytes_are_a_bad_answer(
    open_client: Open, undecodable: str, method: str
) -> None:
    client = open_client(undecodable, timeout=SECONDS)
    with pytest.raises(BadAnswer, match="no message of the contract"):
        METHODS[method](client)
