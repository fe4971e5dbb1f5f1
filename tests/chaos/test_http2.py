"""The hand-written client against a bare server of gRPC's threads."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest

from tests.chaos.faults.paths import burst, steadily
from tests.chaos.http2 import hpack
from tests.chaos.http2.connection import START, connect
from tests.chaos.http2.frames import END_HEADERS, END_STREAM, HEADERS, PING, frame

UNIMPLEMENTED = grpc.StatusCode.UNIMPLEMENTED.value[0]
ECHO = b"/test.Echo/Echo"
HUFFMAN_PATH = b"\x04" + hpack.string(hpack.POISON_PATH_HUFFMAN, huffman=True)


@pytest.fixture
def paths() -> list[str]:
    """The paths that reached the server's handlers."""
    return []


@pytest.fixture
def target(paths: list[str]) -> Iterator[str]:
    class Handlers(grpc.GenericRpcHandler):  # type: ignore[type-arg]  # only in the stubs
        def service(
            self, details: grpc.HandlerCallDetails
        ) -> grpc.RpcMethodHandler[Any, Any] | None:
            paths.append(details.method)
            if details.method.encode() != ECHO:
                return None
            return grpc.unary_unary_rpc_method_handler(lambda request, context: request)

    server = grpc.server(ThreadPoolExecutor(2), handlers=[Handlers()])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(None).wait()


async def test_a_path_that_is_not_utf_8_reaches_the_server(target: str, paths: list[str]) -> None:
    assert await burst(target, 40, 2) == {UNIMPLEMENTED: 40}
    assert await steadily(target, 3, 0.01) == {UNIMPLEMENTED: 3}
    assert set(paths) == {"/a.b/\ufffd"}


async def test_a_huffman_coded_path_that_is_not_utf_8_reaches_the_server(
    target: str, paths: list[str]
) -> None:
    plain = [field for field in hpack.request(b"") if field[0] != b":path"]
    async with await connect(target) as connection:
        connection.writer.write(START)
        payload = HUFFMAN_PATH + hpack.block(plain)
        connection.writer.write(frame(HEADERS, END_STREAM | END_HEADERS, 1, payload))
        await connection.until_ended(1)
        assert connection.statuses == {UNIMPLEMENTED: 1}
    assert paths == ["/a.b/\ufffd"]


async def test_every_form_of_a_literal_is_read_as_the_same_field(
    target: str, paths: list[str]
) -> None:
    forms = [
        (form, static)
        for form in (hpack.INDEXED, hpack.NOT_INDEXED, hpack.NEVER_INDEXED)
        for static in (0, 1)
    ]
    long = b"/test.Echo/" + b"x" * 5000  # its length takes three bytes
    async with await connect(target) as connection:
        connection.writer.write(START)
        for number, (form, static) in enumerate(forms):
            fields = hpack.request(long)
            block = b"".join(
                hpack.literal(name, value, form, bool(static)) for name, value in fields
            )
            connection.writer.write(frame(HEADERS, END_STREAM | END_HEADERS, 2 * number + 1, block))
        await connection.until_ended(len(forms))
    assert paths == [long.decode()] * len(forms)


async def test_a_closed_connection_is_distinguished_from_an_answer(target: str) -> None:
    async with await connect(target) as connection:
        connection.writer.write(START + frame(PING, 0, 0, b"short"))
        await connection.until_ended(1)
        assert connection.hung_up.is_set()
        assert connection.ended == set()
