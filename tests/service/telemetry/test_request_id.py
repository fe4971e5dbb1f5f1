"""Request ids: log lines that have them, their sources, and responses that return them.

Also data that no log line may contain.
"""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from google.rpc.error_details_pb2 import RequestInfo
from google.rpc.status_pb2 import Status

from headlight.pb import headlight_pb2 as pb
from headlight_service.frontends.grpc.grpc_status import DETAILS
from headlight_service.telemetry.request_id import REQUEST_ID, given_id
from tests.service.calls import refused, request, until
from tests.service.conftest import Serve
from tests.service.fakes import FAILURE
from tests.service.frontends.grpc.test_encode_stream import ask, frames_of
from tests.service.logged import root_log
from tests.service.raw import closed_window
from tests.service.tracing import RecordedSpans, context_of

GIVEN = ((REQUEST_ID, "ticket-7/a"),)
CANARY, CANARY_ID = "canary", 987_654_321_987_654_321


class Log:
    """Log lines as they would be printed."""

    def __init__(self, stream: io.StringIO) -> None:
        self._stream = stream

    @property
    def text(self) -> str:
        return self._stream.getvalue()

    @property
    def entries(self) -> list[dict[str, Any]]:
        """Return all entries except asyncio's, which are of callbacks of another test's loop."""
        found: list[dict[str, Any]] = [json.loads(line) for line in self.text.splitlines()]
        return [entry for entry in found if entry["logger"] != "asyncio"]

    def events(self, name: str) -> list[dict[str, Any]]:
        return [entry for entry in self.entries if entry["event"] == name]


@pytest.fixture(params=["info"])
def log(request: pytest.FixtureRequest) -> Iterator[Log]:
    """Configure the log as the service does; parametrise indirectly by the level."""
    with root_log(request.param) as stream:
        yield Log(stream)


at_debug = pytest.mark.parametrize("log", ["debug"], indirect=True)


def told_id(error: grpc.aio.AioRpcError) -> str:
    """Return the id in the trailing metadata of a failed call, which is also among its details."""
    trailing: Any = error.trailing_metadata()
    metadata = dict(trailing)
    for packed in Status.FromString(metadata[DETAILS]).details:
        info = RequestInfo()
        if packed.Unpack(info):
            assert info.request_id == metadata[REQUEST_ID]
    return str(metadata[REQUEST_ID])


@pytest.mark.parametrize(
    "value", ["a", "0f8fad5b-d9cb-469f-a165-70867728950e", "Root=1-67891233-abc/def:1.2", "x" * 128]
)
def test_printable_request_ids_are_used(value: str) -> None:
    assert given_id([("other", "b"), (REQUEST_ID, value)]) == value


@pytest.mark.parametrize(
    "value", ["", "x" * 129, "two words", 'quo"te', "new\nline", "é", b"bytes", "{}", "<b>"]
)
def test_long_or_unprintable_request_ids_are_ignored(value: str | bytes) -> None:
    assert given_id([(REQUEST_ID, value)]) is None
    assert given_id(None) is None


@pytest.mark.parametrize("given", [True, False])
async def test_a_failure_is_logged_and_answered_under_one_id(
    serve: Serve, log: Log, given: bool
) -> None:
    async with serve() as service:
        service.engine.fail()
        error = await refused(
            service.stub.Encode(request(), metadata=GIVEN if given else None),
            grpc.StatusCode.INTERNAL,
        )
        service.engine.broken = ValueError(CANARY)
        bug = await refused(
            service.stub.Encode(request(), metadata=GIVEN if given else None),
            grpc.StatusCode.INTERNAL,
        )
    [failed], [unexpected] = log.events("request_failed"), log.events("unexpected_failure")
    assert (failed["request_id"], unexpected["request_id"]) == (told_id(error), told_id(bug))
    assert failed["problem"] == FAILURE, "whose error id leads to what the engine logged"
    assert (failed["level"], failed["status"], failed["reason"]) == (
        "error",
        "INTERNAL",
        "internal",
    )
    assert (told_id(error) == told_id(bug) == "ticket-7/a") is given
    assert "trace_id" not in failed
    assert CANARY not in log.text


async def test_a_failed_message_of_a_stream_is_logged_under_the_id_of_the_call(
    serve: Serve, log: Log
) -> None:
    async with serve() as service:
        service.engine.fail()
        await frames_of(service.stub.EncodeStream(iter([ask("a"), ask("b")]), metadata=GIVEN))
    assert [entry["request_id"] for entry in log.events("request_failed")] == ["ticket-7/a"] * 2


async def test_failures_are_logged_with_the_trace_id(
    serve: Serve, log: Log, recorded: RecordedSpans
) -> None:
    async with serve(tracing=recorded.tracing) as service:
        service.engine.fail()
        error = await refused(service.stub.Encode(request()), grpc.StatusCode.INTERNAL)
        [call] = await recorded.calls("Encode")
    [entry] = log.events("request_failed")
    assert call.context is not None
    assert entry["trace_id"] == f"{call.context.trace_id:032x}"
    assert (call.attributes or {})["headlight.request_id"] == entry["request_id"] == told_id(error)


async def test_errors_of_the_caller_are_not_logged(serve: Serve, log: Log) -> None:
    async with serve() as service:
        error = await refused(
            service.stub.Encode(request(pb.Input(text=""))), grpc.StatusCode.INVALID_ARGUMENT
        )
        trailing: Any = error.trailing_metadata()
        assert REQUEST_ID not in dict(trailing)
    assert log.entries == []


@at_debug
async def test_errors_of_the_caller_are_logged_at_level_debug(serve: Serve, log: Log) -> None:
    async with serve(streams=1) as service:
        await refused(
            service.stub.Encode(request(pb.Input(text="")), metadata=GIVEN),
            grpc.StatusCode.INVALID_ARGUMENT,
        )
        left = await service.hold(service.stub.Encode(request(), metadata=GIVEN))
        left.cancel()
        await until(lambda: service.metric("headlight_cancelled_total", stage="infer") == 1)
        service.engine.gate.set()  # the thread of the call computes
        await asyncio.wait_for(service.in_flight.idle(), 30)
    [entry], [gone] = log.events("request_failed"), log.events("caller_left")
    assert (entry["level"], entry["request_id"], entry["reason"]) == (
        "debug",
        "ticket-7/a",
        "invalid_input",
    )
    assert (gone["request_id"], gone["status"]) == ("ticket-7/a", "CANCELLED")


@at_debug
async def test_no_caller_data_is_in_the_log(serve: Serve, log: Log) -> None:
    words, pair = (
        pb.Input(text=f"{CANARY} {CANARY}"),
        pb.Input(pair=pb.TextPair(first=CANARY, second="")),
    )
    secret = (("authorization", f"Bearer {CANARY}"), (REQUEST_ID, f"{CANARY} and more"))
    asked = [
        request(words, prompt_text=CANARY),
        request(words, prompt_name=CANARY),
        request(words, model=CANARY),
        request(words, pair),
        request(words, words),
        request(pb.Input(ids=pb.TokenIds(ids=[1, CANARY_ID]))),
    ]
    async with serve() as service:
        for broken in (None, ValueError(f"the engine says {CANARY}")):
            service.engine.broken = broken
            streamed = [
                pb.EncodeStreamRequest(id=f"{CANARY}{place}", encode=each)
                for place, each in enumerate(asked)
            ]
            calls = [
                *(service.stub.Encode(each, metadata=secret) for each in asked),
                frames_of(
                    service.stub.EncodeStream(iter([*streamed, streamed[0]]), metadata=secret)
                ),
                service.stub.Tokenize(pb.TokenizeRequest(inputs=[words, pair]), metadata=secret),
                service.stub.Occlude(pb.OccludeRequest(input=words), metadata=secret),
            ]
            await asyncio.gather(*calls, return_exceptions=True)
    assert len(log.events("request_failed")) > 10
    assert log.events("unexpected_failure")
    assert any(
        "inputs[0].ids: the id at 1" in entry["problem"] for entry in log.events("request_failed")
    )
    assert CANARY not in log.text
    assert str(CANARY_ID) not in log.text


@pytest.mark.usefixtures("steady")
async def test_a_disconnected_slow_reader_is_logged_with_its_request_id(
    serve: Serve, log: Log, recorded: RecordedSpans
) -> None:
    options: dict[str, Any] = {"tracing": recorded.tracing, "stall_seconds": 0.2, "streams": 1}
    async with serve(**options) as service, closed_window(service.target) as client:
        before = await service.hold(service.stub.Encode(request()))
        # In one batch, so that both are answered at once.
        for metadata in (dict(GIVEN), {REQUEST_ID: "two words"}):
            client.ask("Encode", request().SerializeToString(), metadata)
        await until(lambda: service.metric("headlight_queue_tokens") == 6)
        service.engine.gate.set()
        await before
        await asyncio.wait_for(client.hung_up.wait(), 30)
        calls = [call for call in await recorded.calls("Encode", 3) if call.status.description]
    assert len(calls) == 2
    # A line names all calls of the connection; calls that time out together log one each.
    entry = log.events("reader_cut")[0]
    assert entry["request_ids"] == ["ticket-7/a"]
    assert set(entry["trace_ids"]) == {f"{context_of(call).trace_id:032x}" for call in calls}
    for call in calls:
        assert recorded.stages(call)[-1] == "reply"
        assert call.status.description == "RESOURCE_EXHAUSTED: resource_exhausted"
