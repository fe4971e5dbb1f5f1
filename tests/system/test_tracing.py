"""A real service and a collector.

The tree of spans, and an unreachable collector that does no harm.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from itertools import pairwise

import grpc
import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from headlight.pb import headlight_pb2 as pb
from headlight.pb import headlight_pb2_grpc as pb_grpc
from tests.system.collector import Collector, attributes
from tests.system.conftest import bundle_of
from tests.system.processes import Service

SERVICE = "headlight.v1.HeadlightService"
TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
METADATA = (("traceparent", f"00-{TRACE}-{PARENT}-01"), ("x-request-id", "ticket-7"))
STAGES = ["tokenize", "queue", "infer", "reply"]
CANARY = "canary"
CALLERS = 16
BUNDLE = bundle_of("docs-rope")
SLACK_SECONDS = 10.0  # beside what the service may wait for its collector: this machine may be busy
ANSWERED = 1 + 3 + 4 * CALLERS  # requests, of calls and in a stream


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove tracing variables from the environment."""
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)


@pytest.fixture(scope="module")
def traced() -> Iterator[tuple[Collector, list[dict[str, object]]]]:
    """Return the collector's spans, and the log, after calls of each sort.

    Export is awaited before the end, because the end waits for it only a limited time.
    """
    with Collector() as collector, pytest.MonkeyPatch.context() as patched:
        patched.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")  # milliseconds
        with (
            Service(
                BUNDLE,
                "--otlp-endpoint",
                collector.endpoint,
                "--streams",
                "1",
                "--log-level",
                "debug",
            ) as service,
            grpc.insecure_channel(service.target) as channel,
        ):
            stub = pb_grpc.HeadlightServiceStub(channel)
            asked = pb.EncodeRequest(
                inputs=[pb.Input(text=f"{CANARY} one"), pb.Input(text=f"{CANARY} two, longer")]
            )
            stub.Encode(asked, metadata=METADATA)
            messages = [
                pb.EncodeStreamRequest(id=f"{CANARY}{place}", encode=asked) for place in range(3)
            ]
            messages.append(pb.EncodeStreamRequest(id="bad", encode=pb.EncodeRequest(model=CANARY)))
            assert len(list(stub.EncodeStream(iter(messages), metadata=METADATA))) == 4
            with pytest.raises(grpc.RpcError):
                stub.Encode(pb.EncodeRequest(inputs=[pb.Input(text="")]), metadata=METADATA)
            with ThreadPoolExecutor(CALLERS) as callers:
                for _ in range(4):
                    list(callers.map(lambda place: stub.Encode(asked), range(CALLERS)))
            collector.until(lambda: complete(collector))
        yield collector, service.log


def complete(collector: Collector) -> bool:
    """Return whether everything that the tests below read has arrived."""
    come = Counter(span.name for span in collector.spans)
    batches = {span.span_id for span in collector.named("batch")}
    linked = {link.span_id for span in collector.named("infer") for link in span.links}
    expected = Counter(
        {f"{SERVICE}/Encode": 2 + 4 * CALLERS, f"{SERVICE}/EncodeStream": 1, "message": 4}
    )
    return come >= expected + Counter(dict.fromkeys(STAGES, ANSWERED)) and linked <= batches


def hexed(span: Span) -> tuple[str, str]:
    return span.trace_id.hex(), span.parent_span_id.hex()


def test_a_call_has_spans_for_its_stages(traced: tuple[Collector, list[object]]) -> None:
    collector, _ = traced
    calls = [
        span for span in collector.named(f"{SERVICE}/Encode") if hexed(span) == (TRACE, PARENT)
    ]
    answered, refused = sorted(calls, key=lambda span: span.start_time_unix_nano)
    assert [span.name for span in collector.below(answered)] == STAGES
    told = attributes(answered)
    assert told.pop("gen_ai.usage.input_tokens") >= 8
    assert told == {
        "rpc.system": "grpc",
        "rpc.service": SERVICE,
        "rpc.method": "Encode",
        "rpc.grpc.status_code": 0,
        "gen_ai.operation.name": "embeddings",
        "gen_ai.request.model": "docs-rope",
        "headlight.request_id": "ticket-7",
        "headlight.inputs": 2,
        "headlight.outputs": ["pooled"],
        "headlight.priority": "interactive",
        "headlight.provider": "cpu",
        "headlight.precision": "fp32",
    }
    assert answered.kind == Span.SPAN_KIND_SERVER
    assert attributes(refused)["error.type"] == "invalid_input"
    assert [span.name for span in collector.below(refused)] == ["tokenize"]


def test_a_stream_has_spans_for_its_messages(traced: tuple[Collector, list[object]]) -> None:
    collector, _ = traced
    [call] = collector.named(f"{SERVICE}/EncodeStream")
    assert hexed(call) == (TRACE, PARENT)
    messages = collector.below(call)
    assert [span.name for span in messages] == ["message"] * 4
    stages = [[span.name for span in collector.below(message)] for message in messages]
    assert sorted(stages) == [[], STAGES, STAGES, STAGES]
    [bad] = [message for message in messages if not collector.below(message)]
    told = {
        "rpc.grpc.status_code": 5,
        "error.type": "not_found",
        "headlight.request_id": "ticket-7",
    }
    assert attributes(bad) == told


def test_batch_spans_link_to_their_members(traced: tuple[Collector, list[object]]) -> None:
    """With one slot, some of sixteen concurrent callers share a batch."""
    collector, _ = traced
    infers = {span.span_id: span for span in collector.named("infer")}
    batches = {span.span_id: span for span in collector.named("batch")}
    assert len(infers) == ANSWERED
    assert {(each, link.span_id) for each, span in infers.items() for link in span.links} == {
        (link.span_id, each) for each, span in batches.items() for link in span.links
    }
    assert all(span.links for span in infers.values())
    assert all(not span.parent_span_id for span in batches.values())
    sizes = [
        (len(span.links), attributes(span)["headlight.batch.requests"]) for span in batches.values()
    ]
    assert all(linked == requests for linked, requests in sizes)
    assert max(sizes)[0] >= 2
    shared = max(batches.values(), key=lambda span: len(span.links))
    assert len({link.trace_id for link in shared.links}) == len(shared.links), (
        "each in the trace of its caller"
    )
    assert 0 < attributes(shared)["headlight.batch.padding"] < 1


def test_all_spans_arrive_without_caller_data(
    traced: tuple[Collector, list[dict[str, object]]],
) -> None:
    collector, log = traced
    assert len(collector.named(f"{SERVICE}/Encode")) == 2 + 4 * CALLERS
    [name] = {
        pair.value.string_value
        for export in collector.exports
        for sent in export.resource_spans
        for pair in sent.resource.attributes
        if pair.key == "service.name"
    }
    assert name == "headlight"
    assert all(CANARY.encode() not in export.SerializeToString() for export in collector.exports)
    assert [entry["request_id"] for entry in log if entry["event"] == "request_failed"] == [
        "ticket-7"
    ] * 2
    assert {entry["trace_id"] for entry in log if entry["event"] == "request_failed"} == {TRACE}
    assert CANARY not in json.dumps(log)


def test_pending_spans_are_exported_at_shutdown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "3600000")
    with Collector() as collector:
        with Service(BUNDLE, "--otlp-endpoint", collector.endpoint) as service:
            with grpc.insecure_channel(service.target) as channel:
                stub = pb_grpc.HeadlightServiceStub(channel)
                stub.Encode(pb.EncodeRequest(inputs=[pb.Input(text="join two paths")]))
            assert collector.spans == []
        assert {span.name for span in collector.spans} == {f"{SERVICE}/Encode", "batch", *STAGES}


@pytest.mark.parametrize("listening", [False, True], ids=["refuses connections", "never answers"])
def test_an_unreachable_collector_is_harmless(
    listening: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "10")  # milliseconds: so that it is tried at once
    # Seconds: far longer than the end may take.
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "300")
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "64")
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "64")
    with socket.socket() as away:
        away.bind(("127.0.0.1", 0))
        if listening:
            away.listen()
        endpoint = f"http://127.0.0.1:{away.getsockname()[1]}"
        with Service(BUNDLE, "--otlp-endpoint", endpoint) as service:
            with grpc.insecure_channel(service.target) as channel:
                stub = pb_grpc.HeadlightServiceStub(channel)
                for _ in range(100):  # some 600 spans
                    stub.Encode(
                        pb.EncodeRequest(inputs=[pb.Input(text="join two paths")]), timeout=30
                    )
                if not listening:
                    told = service.wait_for("message")
                    assert (told["level"], told["logger"].partition(".")[0]) == (
                        "warning",
                        "opentelemetry",
                    )
            service.terminate()
            began = time.monotonic()
            assert service.wait() == 0
            assert time.monotonic() - began < 2.0 + SLACK_SECONDS
    told_at: dict[str, list[datetime]] = {}
    for entry in service.log:
        if entry["logger"].startswith("opentelemetry"):
            told_at.setdefault(entry["logger"], []).append(datetime.fromisoformat(entry["time"]))
    for times in told_at.values():  # 59: a line has its time a moment before it is let through
        assert all((after - before).total_seconds() > 59 for before, after in pairwise(times)), (
            "one in a minute"
        )
