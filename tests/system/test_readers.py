"""Callers that never read their answers, against the real process.

Its memory stays bounded, it serves others, and it can shut down.
"""

from __future__ import annotations

import asyncio
import math

import grpc

from headlight.pb import headlight_pb2 as pb
from headlight.pb import headlight_pb2_grpc as pb_grpc
from headlight_service.app.health import SERVICE
from tests.service.raw import closed_window
from tests.shipped import HEADS, LAYERS
from tests.system.conftest import bundle_of
from tests.system.processes import Service, get

CALLS = 300
LENGTH = math.isqrt(3_800_000 // (4 * LAYERS * HEADS))  # tokens whose maps take nearly 4 MB
LARGE = pb.EncodeRequest(
    inputs=[pb.Input(ids=pb.TokenIds(ids=[5] * LENGTH))],
    outputs=pb.Outputs(attention=pb.AttentionOutput()),
)
SMALL = pb.EncodeRequest(inputs=[pb.Input(text="open a file")])
LIMIT = 64 << 20
STALL_SECONDS = 8
RETURNED = 'headlight_held_output_bytes{model="docs-rope"} 0.0'
STALLED = 'headlight_rejected_total{model="docs-rope",reason="stalled_reader"} 0.0'
OK = (
    'grpc_server_handled_total{grpc_code="OK",grpc_method="Encode",'
    f'grpc_service="{SERVICE}",grpc_type="unary"}} '
)


async def test_unread_answers_are_bounded_in_memory_and_time() -> None:
    options = ("--max-output-bytes", str(LIMIT), "--stall-seconds", str(STALL_SECONDS))
    with Service(bundle_of("docs-rope"), *options) as service:
        async with (
            closed_window(service.target) as client,
            grpc.aio.insecure_channel(service.target) as channel,
        ):
            stub = pb_grpc.HeadlightServiceStub(channel)
            await stub.Encode(SMALL)
            at_rest = service.resident_bytes()
            for _ in range(CALLS):
                client.ask("Encode", LARGE.SerializeToString())
            largest, served = 0, 0
            # The server does so, once the reply timeout has passed.
            while not client.hung_up.is_set():
                await stub.Encode(SMALL)
                served += 1
                largest = max(largest, service.resident_bytes())
            # An answer can arrive before its call has ended and is counted.
            while await asyncio.to_thread(service.counted, OK) < served + 1:
                pass
            while RETURNED not in (text := await asyncio.to_thread(get, service.http, "/metrics")):
                pass
    # An answer being sent exists twice, as one message and in the transport; and the engine works
    # meanwhile.
    assert largest - at_rest < 4 * LIMIT, (
        f"{(largest - at_rest) >> 20} MiB; they asked for {CALLS * 4} MB"
    )
    assert served > STALL_SECONDS
    assert STALLED not in text
    assert f"{OK}{served + 1:.1f}" in text


async def test_sigterm_waits_for_unread_answers_no_longer_than_the_reply_timeout() -> None:
    with Service(bundle_of("docs-rope"), "--stall-seconds", "6") as service:
        async with closed_window(service.target) as client:
            for _ in range(10):
                client.ask("Encode", LARGE.SerializeToString())
            while RETURNED in await asyncio.to_thread(get, service.http, "/metrics"):
                assert not client.hung_up.is_set(), "nobody looked while answers were held"
            service.terminate()
            await client.hung_up.wait()
        assert await asyncio.to_thread(service.wait) == 0
