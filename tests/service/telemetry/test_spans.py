"""OpenTelemetry spans of requests and batches."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import grpc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind, StatusCode

from headlight.pb import headlight_pb2 as pb
from tests.service.calls import refused, request, text_of, until
from tests.service.conftest import Serve
from tests.service.fakes import FakeRuntime
from tests.service.frontends.grpc.test_encode_stream import LARGE, LARGE_TOKENS, ask, frames_of
from tests.service.raw import closed_window
from tests.service.tracing import SERVICE, RecordedSpans, context_of, id_of, links_of

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SAMPLED = (("traceparent", f"00-{TRACE}-{SPAN}-01"), ("tracestate", "vendor=value"))
LEFT_OUT = (("traceparent", f"00-{TRACE}-{SPAN}-00"),)
STAGES = ["tokenize", "queue", "infer", "reply"]
CANARY = "canary"


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


async def test_a_call_has_spans_for_its_stages(serve: Serve, recorded: RecordedSpans) -> None:
    async with serve(tracing=recorded.tracing) as service:
        await service.stub.Encode(
            request(text_of(2), text_of(3)), metadata=(*SAMPLED, ("x-request-id", "r-1"))
        )
        [call] = await recorded.calls("Encode")
    assert f"{context_of(call).trace_id:032x}" == TRACE
    assert call.parent is not None
    assert (f"{call.parent.span_id:016x}", call.parent.is_remote) == (SPAN, True)
    assert context_of(call).trace_state.get("vendor") == "value"
    assert (call.kind, call.status.status_code) == (SpanKind.SERVER, StatusCode.UNSET)
    assert attributes(call) == {
        "rpc.system": "grpc",
        "rpc.service": SERVICE,
        "rpc.method": "Encode",
        "rpc.grpc.status_code": 0,
        "gen_ai.operation.name": "embeddings",
        "gen_ai.request.model": "fake",
        "gen_ai.usage.input_tokens": 5,
        "headlight.request_id": "r-1",
        "headlight.inputs": 2,
        "headlight.outputs": ("pooled",),
        "headlight.priority": "interactive",
        "headlight.provider": "cpu",
        "headlight.precision": "fp32",
    }
    parts = recorded.below(call)
    assert [part.name for part in parts] == STAGES
    times = [time or 0 for span in parts for time in (span.start_time, span.end_time)]
    assert times == sorted(times), "one stage after another"
    assert (call.start_time or 0) <= times[0]
    assert times[-1] <= (call.end_time or 0)


async def test_two_calls_in_one_batch_link_to_its_span(
    serve: Serve, recorded: RecordedSpans
) -> None:
    async with serve(tracing=recorded.tracing, streams=1) as service:
        first = await service.hold(service.stub.Encode(request()))
        others = [asyncio.ensure_future(service.stub.Encode(request(text_of(2)))) for _ in range(2)]
        await until(lambda: service.metric("headlight_queue_tokens") == 6)
        service.engine.gate.set()
        await asyncio.gather(first, *others)
        await recorded.calls("Encode", 3)
    alone, shared = recorded.named("batch")
    assert alone.parent is None
    assert shared.parent is None
    calls = recorded.named(f"{SERVICE}/Encode")
    assert len({context_of(span).trace_id for span in (*calls, alone, shared)}) == 5
    infers = {id_of(span): span for span in recorded.named("infer")}
    assert len(links_of(shared)) == 2
    assert links_of(shared) | links_of(alone) == set(infers)
    for batch in (alone, shared):
        for member in links_of(batch):
            assert links_of(infers[member]) == {id_of(batch)}
            assert (infers[member].start_time or 0) <= (batch.start_time or 0)
    assert attributes(shared) == {
        "gen_ai.request.model": "fake",
        "headlight.provider": "cpu",
        "headlight.precision": "fp32",
        "headlight.graph": "embed",
        "headlight.priority": "interactive",
        "headlight.batch.requests": 2,
        "headlight.batch.items": 2,
        "headlight.batch.tokens": 4,
        "headlight.batch.padding": 0.0,
        "headlight.batch.wide": False,
    }


async def test_a_call_in_several_batches_links_to_each(
    serve: Serve, recorded: RecordedSpans
) -> None:
    async with serve(tracing=recorded.tracing, batch_tokens=4) as service:
        await service.stub.Encode(request(*(text_of(3) for _ in range(3))))
        [call] = await recorded.calls("Encode")
    assert recorded.stages(call) == STAGES
    [infer] = recorded.named("infer")
    batches = recorded.named("batch")
    assert len(batches) == 3
    assert links_of(infer) == {id_of(batch) for batch in batches}
    assert all(links_of(batch) == {id_of(infer)} for batch in batches)


async def test_each_message_of_a_stream_has_its_own_spans(
    serve: Serve, recorded: RecordedSpans
) -> None:
    async with serve(tracing=recorded.tracing) as service:
        requests = [ask("a"), ask("bad", 0), ask("large", LARGE_TOKENS, LARGE)]
        await frames_of(service.stub.EncodeStream(iter(requests), metadata=SAMPLED))
        [call] = await recorded.calls("EncodeStream")
    assert attributes(call)["rpc.grpc.status_code"] == 0
    messages = recorded.below(call)
    assert [message.name for message in messages] == ["message"] * 3
    by_tokens = {
        attributes(message).get("gen_ai.usage.input_tokens"): message for message in messages
    }
    assert recorded.stages(by_tokens[2]) == recorded.stages(by_tokens[LARGE_TOKENS]) == STAGES
    assert attributes(by_tokens[LARGE_TOKENS])["headlight.outputs"] == ("attention",)
    assert {attributes(batch)["headlight.graph"] for batch in recorded.named("batch")} == {
        "embed",
        "attend",
    }
    bad = by_tokens[None]
    assert recorded.stages(bad) == ["tokenize"]
    assert attributes(bad) == {"rpc.grpc.status_code": 3, "error.type": "invalid_input"}


async def test_tokenize_occlude_and_get_model_have_spans(
    serve: Serve, recorded: RecordedSpans
) -> None:
    async with serve(tracing=recorded.tracing) as service:
        await service.stub.GetModel(pb.GetModelRequest())
        await service.stub.Tokenize(pb.TokenizeRequest(inputs=[text_of(2)]))
        await service.stub.Occlude(pb.OccludeRequest(input=text_of(3)))
        await service.stub.Encode(request(dry_run=True))
        stages = [
            recorded.stages((await recorded.calls(name))[0])
            for name in ("GetModel", "Tokenize", "Occlude", "Encode")
        ]
    assert stages[:2] == [["reply"], ["tokenize", "reply"]]
    assert stages[2] == ["tokenize", "queue", "infer", "queue", "infer", "reply"]
    assert stages[3] == ["tokenize", "reply"]


async def test_a_failed_batch_has_an_error_span(serve: Serve, recorded: RecordedSpans) -> None:
    async with serve(tracing=recorded.tracing) as service:
        service.engine.fail()
        await refused(service.stub.Encode(request()), grpc.StatusCode.INTERNAL)
        [call] = await recorded.calls("Encode")
    [batch] = recorded.named("batch")
    [*before, infer] = recorded.below(call)
    assert [span.name for span in before] == ["tokenize", "queue"]
    assert infer.name == "infer"
    assert {span.status.status_code for span in before} == {StatusCode.UNSET}
    for span in (call, infer, batch):
        assert (span.status.status_code, span.status.description) == (
            StatusCode.ERROR,
            "INTERNAL: internal",
        )
        assert attributes(span)["error.type"] == "internal"
        assert span.events == (), "the text of an exception could quote what the caller sent"


async def test_shed_calls_are_error_spans_and_invalid_requests_are_not(
    serve: Serve, recorded: RecordedSpans
) -> None:
    async with serve(tracing=recorded.tracing, max_queue_tokens=4, max_request_tokens=4) as service:
        await refused(service.stub.Encode(request(text_of(0))), grpc.StatusCode.INVALID_ARGUMENT)
        running = await service.hold(service.stub.Encode(request(text_of(4))))
        await refused(service.stub.Encode(request(text_of(4))), grpc.StatusCode.RESOURCE_EXHAUSTED)
        wrong, shed = await recorded.calls("Encode", 2)
        service.engine.gate.set()
        await running
    assert (wrong.status.status_code, attributes(wrong)["error.type"]) == (
        StatusCode.UNSET,
        "invalid_input",
    )
    assert (shed.status.status_code, shed.status.description) == (
        StatusCode.ERROR,
        "RESOURCE_EXHAUSTED: queue_tokens",
    )


@pytest.mark.parametrize("code", ["cancelled", "deadline_exceeded"])
async def test_a_call_cancelled_in_the_queue_has_its_spans(
    serve: Serve, recorded: RecordedSpans, code: str
) -> None:
    """A gRPC client cancels by its own clock, which may be earlier.

    The hand-written one leaves it to the server's.
    """
    async with (
        serve(tracing=recorded.tracing, streams=1) as service,
        closed_window(service.target) as client,
    ):
        running = await service.hold(service.stub.Encode(request()))
        if code == "deadline_exceeded":
            client.ask("Encode", request(text_of(3)).SerializeToString(), {"grpc-timeout": "2S"})
        else:
            left = service.stub.Encode(request(text_of(3)))
        await until(lambda: service.metric("headlight_queue_tokens") == 5)
        if code == "cancelled":
            left.cancel()
        [call] = await recorded.calls("Encode")
        service.engine.gate.set()
        await running
    [*_, last] = recorded.below(call)
    assert last.name == "queue"
    assert attributes(call)["error.type"] == attributes(last)["error.type"] == code
    assert all(
        links_of(batch) == {id_of(recorded.named("infer")[0])} for batch in recorded.named("batch")
    )


async def test_the_sampling_decision_of_the_caller_is_followed(
    serve: Serve, recorded: RecordedSpans
) -> None:
    async with serve(tracing=recorded.tracing) as service:
        await service.stub.Encode(request(), metadata=LEFT_OUT)
        await frames_of(service.stub.EncodeStream(iter([ask("a")]), metadata=LEFT_OUT))
        await service.stub.Encode(request(), metadata=SAMPLED)
        await recorded.calls("Encode")
    assert len(recorded.named("batch")) == 1
    assert {
        f"{context_of(span).trace_id:032x}" for span in recorded.spans if span.name != "batch"
    } == {TRACE}


async def test_calls_without_a_trace_are_sampled_by_the_configured_ratio(
    serve: Serve, recorded: RecordedSpans, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "0")
    none = RecordedSpans()
    async with serve(tracing=none.tracing) as service:
        await service.stub.Encode(request())
        assert none.spans == ()
        await service.stub.Encode(request(), metadata=SAMPLED)
        await none.calls("Encode")
    assert len(none.named("batch")) == 1, "whoever is in a batch decides, not the share"


async def test_an_invalid_traceparent_starts_a_new_trace(
    serve: Serve, recorded: RecordedSpans
) -> None:
    async with serve(tracing=recorded.tracing) as service:
        for value in ("", "nonsense", "00-" + "0" * 32 + f"-{SPAN}-01", "ff" * 300):
            await service.stub.Encode(request(), metadata=(("traceparent", value),))
        calls = await recorded.calls("Encode", 4)
    assert [call.parent for call in calls] == [None] * 4


async def test_probes_are_not_traced(serve: Serve, recorded: RecordedSpans) -> None:
    from grpc_health.v1 import health_pb2, health_pb2_grpc

    async with serve(tracing=recorded.tracing) as service:
        await health_pb2_grpc.HealthStub(service.channel).Check(
            health_pb2.HealthCheckRequest(), metadata=SAMPLED
        )
        await service.stub.GetModel(pb.GetModelRequest())
        await recorded.calls("GetModel")
    assert {attributes(span).get("rpc.service", SERVICE) for span in recorded.spans} == {SERVICE}


async def test_no_caller_data_is_in_a_span(serve: Serve, recorded: RecordedSpans) -> None:
    """Texts, pairs, prompts, names, ids of messages; in answers, refusals and failures."""
    runtime = FakeRuntime()
    words = pb.Input(text=f"{CANARY} {CANARY}")
    pair = pb.Input(pair=pb.TextPair(first=CANARY, second=CANARY))
    token = (("authorization", f"Bearer {CANARY}"), ("x-request-id", f"{CANARY} with spaces"))
    async with serve(runtime, tracing=recorded.tracing) as service:

        async def ask_all() -> None:
            for asked in (
                request(words, prompt_text=CANARY),
                request(words, prompt_name=CANARY),
                request(words, model=CANARY),
                request(words, pair),
            ):
                for call in (
                    service.stub.Encode(asked, metadata=token),
                    frames_of(
                        service.stub.EncodeStream(
                            iter([pb.EncodeStreamRequest(id=CANARY, encode=asked)])
                        )
                    ),
                ):
                    await asyncio.gather(call, return_exceptions=True)
            for call in (
                service.stub.Tokenize(pb.TokenizeRequest(inputs=[words]), metadata=token),
                service.stub.Occlude(pb.OccludeRequest(input=words), metadata=token),
            ):
                await asyncio.gather(call, return_exceptions=True)

        await ask_all()
        service.engine.broken = ValueError(f"the engine says {CANARY}")
        await ask_all()
        await recorded.calls("Encode", 8)
    assert len(recorded.spans) > 50
    assert CANARY not in "".join(span.to_json() for span in recorded.spans)
    assert json.loads(recorded.spans[0].to_json())["name"]  # the searched text is the whole span


METADATA_TEXT = st.text(st.characters(min_codepoint=32, max_codepoint=255), max_size=600)


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    parent=st.one_of(st.just(SAMPLED[0][1]), METADATA_TEXT),
    states=st.lists(METADATA_TEXT, max_size=3),
)
def test_any_tracing_metadata_gets_a_span(
    recorded: RecordedSpans, parent: str, states: list[str]
) -> None:
    """An exception here would reach the caller as UNKNOWN."""
    metadata: list[tuple[str, str | bytes]] = [
        ("traceparent", parent),
        *(("tracestate", state) for state in states),
    ]
    metadata.append(("other-bin", b"\xff"))
    spans = recorded.tracing.call(SERVICE, "Encode", metadata)
    spans.end(grpc.StatusCode.OK)
    assert recorded.spans[-1].name == f"{SERVICE}/Encode"
