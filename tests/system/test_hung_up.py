"""Cancelled and expired streams, while the service waits for their next message."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import grpc
import pytest

from headlight.pb import headlight_pb2 as pb
from headlight.pb import headlight_pb2_grpc as pb_grpc
from tests.system.processes import Service

TRIES = 60  # one to three in ten were taken for streams that had ended well
# gRPC tells two things then, and the second may come late on a machine that stands still in
# between.
BY_LUCK = 1
STARTED = 'grpc_server_started_total{grpc_method="EncodeStream"'
HANDLED = 'grpc_server_handled_total{grpc_code="%s",grpc_method="EncodeStream"'


def ended(service: Service) -> dict[str, float]:
    """Return the streams by the status they were counted with, once none is open."""
    while True:
        codes = {code.name: service.counted(HANDLED % code.name) for code in grpc.StatusCode}
        if sum(codes.values()) == service.counted(STARTED):
            return codes


@pytest.mark.parametrize(("seconds", "code"), [(60.0, "CANCELLED"), (0.05, "DEADLINE_EXCEEDED")])
def test_abandoned_streams_are_counted_with_their_cancel_cause(
    rope: Service, seconds: float, code: str
) -> None:
    before = ended(rope)
    with grpc.insecure_channel(rope.target) as channel:
        stub = pb_grpc.HeadlightServiceStub(channel)
        for _ in range(TRIES):
            over = threading.Event()

            def asked(over: threading.Event = over) -> Iterator[pb.EncodeStreamRequest]:
                yield pb.EncodeStreamRequest(
                    id="a", encode=pb.EncodeRequest(inputs=[pb.Input(text="one")])
                )
                over.wait()

            call = stub.EncodeStream(asked(), timeout=seconds)
            if seconds > 1:
                next(call)
                call.cancel()
            with pytest.raises(grpc.RpcError):
                list(call)
            over.set()
        # After this call, each of them has been started or never will be.
        stub.GetModel(pb.GetModelRequest(), timeout=60)
    after = ended(rope)
    assert after["OK"] - before["OK"] <= BY_LUCK
    assert after[code] - before[code] >= TRIES / 2
