"""Who leaves, or is late, before the message has come has not sent an empty call: over a real socket."""

from __future__ import annotations

from typing import Any

import pytest

from service import arriving
from service.health import SERVICE
from tests.service.calls import until
from tests.service.conftest import Serve

ENCODE = {"grpc_type": "unary", "grpc_service": SERVICE, "grpc_method": "Encode"}


@pytest.mark.parametrize(("seconds", "code"), [(None, "CANCELLED"), (0.1, "DEADLINE_EXCEEDED")])
async def test_how_a_call_ended_whose_message_never_came(
    serve: Serve, seconds: float | None, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arriving, "HUNG_UP_SECONDS", 30.0)  # by far more than is needed: what comes interrupts it
    async with serve() as service:
        channel: Any = service.channel
        call = channel.stream_unary(f"/{SERVICE}/Encode")(timeout=seconds)
        await until(lambda: service.sample("grpc_server_started_total", **ENCODE) == 1)
        if seconds is None:
            call.cancel()
        await until(lambda: service.sample("grpc_server_handling_seconds_count", **ENCODE) == 1)
        assert service.sample("grpc_server_handled_total", **ENCODE, grpc_code=code) == 1
