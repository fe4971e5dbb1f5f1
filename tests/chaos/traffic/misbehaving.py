"""Misbehaving callers: cancel, die, do not read, send garbage, exceed limits, miss deadlines.

If one of them is answered all the same, the answer is compared with the reference like any other.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import grpc
import numpy as np

from headlight.pb import headlight_pb2 as pb
from headlight.pb import headlight_pb2_grpc as pb_grpc
from tests.chaos.mutations.of_protobuf import METHODS, mutated, seeds
from tests.chaos.traffic.callers import SECONDS, Callers, check_vectors, request
from tests.chaos.traffic.ledger import Wrong
from tests.chaos.traffic.relay import Relay, doomed_client
from tests.service.calls import NARROW

SERVICE = "/headlight.v1.HeadlightService"
EOF: Any = grpc.aio.EOF  # type: ignore[attr-defined]  # unknown to the stubs
FLOOD = 6  # calls at once
SLOW_SECONDS = 0.05  # between two frames
MEGABYTES = (
    b"\x12\x02\x0a\x00" * 1_000_000,
    pb.EncodeRequest(inputs=[pb.Input(text="z" * 4_000_000)]).SerializeToString(),
)


class Faults:
    """Faults of the clients."""

    def __init__(
        self, callers: Callers, channel: grpc.aio.Channel, target: str, stall_seconds: float
    ) -> None:
        self._callers = callers
        self._chance = callers.chance
        self._raw: Any = channel  # whose stubs want serializers, which bytes need not
        self._target = target
        self._stall_seconds = stall_seconds
        self._good = [message for kind in seeds() for message in kind]

    async def cancelled(self) -> str:
        """Cancel at any moment from before the call has arrived to after it was answered."""
        batch = self._callers.some()
        call = self._callers.stub.Encode(request(*batch), timeout=SECONDS)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(
                asyncio.shield(asyncio.ensure_future(call.code())), self._chance.uniform(0, 0.05)
            )
        if call.cancel():
            return "CANCELLED"
        check_vectors(await call, batch)
        return "OK"

    async def late(self) -> str:
        """Allow less time than the call takes, or next to none."""
        batch = self._callers.some()
        answer = await self._callers.stub.Encode(
            request(*batch), timeout=10 ** self._chance.uniform(-4, -1)
        )
        check_vectors(answer, batch)
        return "OK"

    async def malformed(self) -> str:
        method = self._chance.choice(METHODS)
        raw = mutated(self._chance.choice(self._good), self._chance)
        if method == "EncodeStream":
            async for _ in self._raw.stream_stream(f"{SERVICE}/{method}")(
                iter([raw]), timeout=SECONDS
            ):
                pass
        else:
            await self._raw.unary_unary(f"{SERVICE}/{method}")(raw, timeout=SECONDS)
        return "OK"

    async def megabytes(self) -> str:
        """Send megabytes of garbage, which are refused."""
        await self._raw.unary_unary(f"{SERVICE}/Encode")(
            self._chance.choice(MEGABYTES), timeout=SECONDS
        )
        return "OK"

    async def too_large(self) -> str:
        """Request an answer beyond the message limit."""
        outputs = pb.Outputs(attention=pb.AttentionOutput())
        await self._callers.stub.Encode(
            request(self._callers.known.long, outputs=outputs), timeout=SECONDS
        )
        return "OK"

    async def flooding(self) -> str:
        """Send more tokens at once than the queue accepts.

        Some calls are answered, some shed with a retry delay.
        """
        ends = await asyncio.gather(*(self._flood() for _ in range(FLOOD)))
        return "RESOURCE_EXHAUSTED" if "RESOURCE_EXHAUSTED" in ends else "OK"

    async def _flood(self) -> str:
        batch = [self._callers.known.long] * 3
        call = self._callers.stub.Encode(request(*batch), timeout=SECONDS)
        if await call.code() is grpc.StatusCode.RESOURCE_EXHAUSTED:
            if "grpc-retry-pushback-ms" not in dict(await call.trailing_metadata()):
                raise Wrong("shed without a word on when to come again")
            return "RESOURCE_EXHAUSTED"
        check_vectors(await call, batch)
        return "OK"

    async def slow(self) -> str:
        """Read frame by frame with pauses, each shorter than the reply timeout."""
        return await self._read_long(0.0)

    async def stalled(self) -> str:
        """Stop reading for longer than the service allows."""
        return await self._read_long(3 * self._stall_seconds)

    async def reset(self) -> str:
        """Reset the connection in the middle of an answer."""
        async with (
            Relay(self._target) as relay,
            grpc.aio.insecure_channel(relay.target, options=NARROW) as channel,
        ):
            call = self._stream_long(pb_grpc.HeadlightServiceStub(channel))
            first = await call.read()
            if first.WhichOneof("frame") == "error":
                return status_of(first)  # it was shed, so there is no answer to interrupt
            relay.cut_connections()
            while await call.read() != EOF:
                pass
        return "OK"

    async def killed(self) -> str:
        """Kill a client process in the middle of calls."""
        async with doomed_client(self._target):
            pass
        return "KILLED"

    def _stream_long(self, stub: Any) -> Any:
        encode = request(
            self._callers.known.long, outputs=pb.Outputs(attention=pb.AttentionOutput(layers=[0]))
        )
        return stub.EncodeStream(
            iter([pb.EncodeStreamRequest(id="1", encode=encode)]), timeout=SECONDS
        )

    async def _read_long(self, first_pause: float) -> str:
        async with grpc.aio.insecure_channel(self._target, options=NARROW) as channel:
            return await self._read(
                self._stream_long(pb_grpc.HeadlightServiceStub(channel)), first_pause
            )

    async def _read(self, call: Any, first_pause: float) -> str:
        known = self._callers.known.long
        data, pause = bytearray(known.attention.nbytes), first_pause
        while (frame := await call.read()) != EOF:
            if frame.WhichOneof("frame") == "error":
                return status_of(frame)
            chunk = frame.chunk
            data[chunk.offset_bytes : chunk.offset_bytes + len(chunk.data)] = chunk.data
            await asyncio.sleep(pause)
            pause = SLOW_SECONDS
        if await call.code() is not grpc.StatusCode.OK:
            return str((await call.code()).name)
        known.check_attention(np.frombuffer(data, "<f4").reshape(known.attention.shape))
        return "OK"


def status_of(frame: pb.EncodeStreamResponse) -> str:
    """Return the status name that ended one request of a stream."""
    return next(code.name for code in grpc.StatusCode if code.value[0] == frame.error.code)
