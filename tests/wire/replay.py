"""Server of an old version: it returns that version's recorded answers to every request."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from concurrent import futures
from typing import Any

import grpc

from headlight.pb import headlight_pb2 as pb
from tests.wire.golden import Recorded

SERVICE = "headlight.v1.HeadlightService"


@contextlib.contextmanager
def replaying(
    calls: dict[str, Recorded], chosen: dict[str, str], more: bytes = b""
) -> Iterator[str]:
    """Serve recorded answers; yield the target.

    Args:
        calls: by name.
        chosen: by method, the name of the call whose answer is given.
        more: bytes after each message, as of fields that a later version has.
    """

    def unary(name: str) -> Callable[[bytes, Any], bytes]:
        return lambda request, context: calls[name].responses[0] + more

    def stream(name: str) -> Callable[[Iterator[bytes], Any], Iterator[bytes]]:
        def answer(requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
            for raw in requests:
                asked = pb.EncodeStreamRequest.FromString(raw)
                for frame in frames_of(calls, name):
                    frame.id = asked.id
                    yield frame.SerializeToString() + more

        return answer

    handlers = {
        method: grpc.stream_stream_rpc_method_handler(stream(name))
        if method == "EncodeStream"
        else grpc.unary_unary_rpc_method_handler(unary(name))
        for method, name in chosen.items()
    }
    server = grpc.server(futures.ThreadPoolExecutor(4))
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE, handlers)])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(None).wait()


def frames_of(calls: dict[str, Recorded], name: str) -> list[pb.EncodeStreamResponse]:
    """Return the frames that answered one request: "stream/ID" is one of the recorded stream.

    A unary answer is one frame.
    """
    name, _, request_id = name.partition("/")
    if not request_id:
        return [
            pb.EncodeStreamResponse(response=pb.EncodeResponse.FromString(calls[name].responses[0]))
        ]
    return [frame for frame in calls[name].parsed("responses") if frame.id == request_id]
