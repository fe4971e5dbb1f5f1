"""Maximum connection age: an old connection is replaced, and the calls on it finish."""

from __future__ import annotations

import asyncio

import grpc

from headlight.pb import headlight_pb2 as pb
from tests.service.calls import request
from tests.service.conftest import Serve


async def test_calls_in_flight_finish_and_the_next_uses_a_new_connection(
    serve: Serve,
) -> None:
    async with serve(max_connection_age_seconds=1.0) as service:
        service.engine.gate.clear()
        unary = asyncio.ensure_future(service.stub.Encode(request()))
        stream = service.stub.EncodeStream()
        await stream.write(pb.EncodeStreamRequest(id="1", encode=request()))
        await service.started()
        state = service.channel.get_state()
        while state is not grpc.ChannelConnectivity.IDLE:  # the server has asked it to reconnect
            await service.channel.wait_for_state_change(state)
            state = service.channel.get_state()
        following = asyncio.ensure_future(service.stub.Encode(request()))
        await service.started()
        await stream.write(pb.EncodeStreamRequest(id="2", encode=request()))
        await stream.done_writing()
        service.engine.gate.set()
        assert len((await unary).items) == len((await following).items) == 1
        assert sorted([frame.id async for frame in stream]) == ["1", "2"]
        assert await stream.code() is grpc.StatusCode.OK
