"""The RPCs over a real socket."""

from __future__ import annotations

from typing import Any

import grpc
import numpy as np
import pytest

from headlight.outputs.hidden import states
from headlight.outputs.maps.resolved_spec import whole
from headlight.pb import headlight_pb2 as pb
from headlight.runtime.encode_items import EncodeItem, Selection
from headlight_service.app.health import SERVICE
from headlight_service.frontends.contract.answer_encoding import FRAMING_BYTES
from tests.service.calls import refused, request, text_of, until
from tests.service.conftest import Serve, Service
from tests.service.fakes import HEADS, LAYERS, FakeRuntime, result

EVERYTHING = pb.Outputs(
    pooled=pb.PooledOutput(),
    tokens=pb.TokensOutput(),
    attention=pb.AttentionOutput(layers=[-1, 0]),
    hidden=pb.HiddenOutput(),
    token_info=pb.TokenInfoOutput(),
)


async def test_every_output_arrives_as_computed(serve: Serve) -> None:
    ids = [3, 1, 4, 1, 5]
    inputs = [pb.Input(ids=pb.TokenIds(ids=ids)), text_of(300)]
    async with serve() as service:
        response = await service.stub.Encode(request(*inputs, outputs=EVERYTHING))
    selection = Selection(
        tokens=True, attention=whole((2, 0), HEADS), hidden=states(range(LAYERS + 1))
    )
    items = [EncodeItem(np.array(values), selection) for values in (ids, [4] * 300)]
    expected = [result(item) for item in items]
    assert list(response.pooled[0].shape) == [2, 4]
    for name in ("pooled", "tokens", "attention", "hidden"):
        data = b"".join(getattr(each, name).tobytes() for each in expected)
        assert (response.pooled[0] if name == "pooled" else getattr(response, name)).data == data
    assert list(response.attention.layers) == [2, 0]
    assert list(response.attention.offsets) == [0, 2 * HEADS * 25, 2 * HEADS * (25 + 90000)]
    assert list(response.hidden.layers) == [0, 1, 2, 3]
    assert [item.token_count for item in response.items] == [5, 300]
    assert list(response.items[0].tokens.ids) == ids
    assert (response.model.name, response.model.bundle_sha256) == ("fake", "ab" * 32)
    times = response.timings
    assert times.total_ns >= times.tokenize_ns + times.queue_ns + times.infer_ns
    assert service.metric("headlight_texts_total", priority="interactive") == 2
    assert service.metric("headlight_tokens_total", priority="interactive") == 305
    assert service.metric("headlight_queue_tokens") == 0


@pytest.mark.parametrize("slack", [0, -1])
async def test_the_answer_limit_is_nearly_exact(serve: Serve, slack: int) -> None:
    """Accepted answers are below the limit on the wire, and few that would fit are refused."""
    async with serve() as service:
        size = (await service.stub.Encode(request(text_of(300), outputs=EVERYTHING))).ByteSize()
    async with serve(
        max_unary_response_bytes=size + FRAMING_BYTES if slack == 0 else size - 1
    ) as service:
        call = service.stub.Encode(request(text_of(300), outputs=EVERYTHING))
        if slack == 0:
            assert (await call).ByteSize() <= size + FRAMING_BYTES
        else:
            await refused(call, grpc.StatusCode.INVALID_ARGUMENT)


async def test_limits_are_reported_and_enforced(serve: Serve) -> None:
    async with serve(max_items=2, max_request_tokens=2500) as service:
        told = await service.stub.GetModel(pb.GetModelRequest())
        assert (told.limits.max_items, told.limits.max_request_tokens) == (2, 2500)
        assert told.limits.max_stream_output_bytes >= 4 * LAYERS * HEADS * 2000**2
        assert list(told.info.outputs) == [
            "pooled",
            "tokens",
            "attention",
            "hidden",
            "token_info",
            "spans",
        ]
        assert list(told.info.accepts) == ["text", "ids"]
        assert told.parity[0].tolerance == pytest.approx(1e-5)
        texts = [text_of(1500), text_of(1500)]
        assert len((await service.stub.Encode(request(*texts))).items) == 2
        tokens = request(*texts, outputs=pb.Outputs(tokens=pb.TokensOutput()))
        error = await refused(service.stub.Encode(tokens), grpc.StatusCode.INVALID_ARGUMENT)
        assert error.details() == "inputs: have more than 2500 tokens together; split the request"


async def test_a_model_without_tokenizer_or_attention_refuses_them(serve: Serve) -> None:
    async with serve(FakeRuntime(attend=False, tokenizer=False)) as service:
        told = (await service.stub.GetModel(pb.GetModelRequest())).info
        assert (list(told.accepts), list(told.outputs)) == (
            ["ids"],
            ["pooled", "tokens", "token_info", "spans"],
        )
        error = await refused(service.stub.Encode(request()), grpc.StatusCode.INVALID_ARGUMENT)
        assert error.details() == "inputs[0].text: this model takes ids"


async def test_attention_can_be_switched_off(serve: Serve) -> None:
    async with serve(FakeRuntime(attend=False), attention="off") as service:
        told = await service.stub.GetModel(pb.GetModelRequest())
        assert list(told.info.outputs) == ["pooled", "tokens", "token_info", "spans"]
        assert told.limits.max_stream_output_bytes == 64 << 20
        await service.stub.Encode(request())
        for name, wanted in (("attention", pb.AttentionOutput()), ("hidden", pb.HiddenOutput())):
            # The output is set by name.
            call = service.stub.Encode(request(outputs=pb.Outputs(**{name: wanted})))  # type: ignore[arg-type]
            error = await refused(call, grpc.StatusCode.INVALID_ARGUMENT)
            assert f"outputs.{name}: this server runs with --attention off" in (
                error.details() or ""
            )


async def test_before_the_model_is_loaded_everything_is_unavailable(serve: Serve) -> None:
    async with serve(loaded=False) as service:
        await refused(service.stub.Encode(request()), grpc.StatusCode.UNAVAILABLE)
        await refused(service.stub.GetModel(pb.GetModelRequest()), grpc.StatusCode.UNAVAILABLE)
        await refused(service.stub.EncodeStream(iter([])).read(), grpc.StatusCode.UNAVAILABLE)


async def test_a_request_that_the_queue_makes_late_is_refused_untokenised(
    serve: Serve,
) -> None:
    runtime = FakeRuntime()
    async with serve(runtime, streams=1) as service:
        first = await service.hold(service.stub.Encode(request(pb.Input(text="one"))))
        service.model.estimate.worked_off(tokens=1, seconds=1e3)
        late = request(pb.Input(text="late"))
        await refused(service.stub.Encode(late, timeout=60), grpc.StatusCode.RESOURCE_EXHAUSTED)
        stream = service.stub.EncodeStream(
            iter([pb.EncodeStreamRequest(id="1", encode=late)]), timeout=60
        )
        assert (await stream.read()).error.code == grpc.StatusCode.RESOURCE_EXHAUSTED.value[0]
        late.dry_run = True  # waits for nothing
        assert (await service.stub.Encode(late, timeout=60)).data_bytes > 0
        only = request(pb.Input(text="read"), outputs=pb.Outputs(token_info=pb.TokenInfoOutput()))
        assert len((await service.stub.Encode(only, timeout=60)).items) == 1
        service.engine.gate.set()
        await first
    assert runtime.tokenizer is not None
    assert runtime.tokenizer.texts == ["one", "late", "read"]


MALFORMED = [b"\xff\xff\xff", b"\x0a\x02\xff\xfe", b"\x0b" * 20_000, b"\x12\x04\x0a\x02\xc3\x28"]


@pytest.mark.parametrize("raw", MALFORMED)
async def test_undecodable_messages_are_invalid_argument(service: Service, raw: bytes) -> None:
    channel: Any = service.channel
    await refused(channel.unary_unary(f"/{SERVICE}/Encode")(raw), grpc.StatusCode.INVALID_ARGUMENT)
    await refused(
        channel.unary_unary(f"/{SERVICE}/Tokenize")(raw), grpc.StatusCode.INVALID_ARGUMENT
    )
    stream = channel.stream_stream(f"/{SERVICE}/EncodeStream")(iter([raw]))
    error = await refused(stream.read(), grpc.StatusCode.INVALID_ARGUMENT)
    assert "decode" in (error.details() or "") or "id" in (error.details() or "")


async def test_unknown_methods_are_counted_as_other(service: Service) -> None:
    channel: Any = service.channel
    for name in ("Nope", "Invented", "x" * 100):
        await refused(channel.unary_unary(f"/{SERVICE}/{name}")(b""), grpc.StatusCode.UNIMPLEMENTED)
    labels = {"grpc_type": "unary", "grpc_service": "other", "grpc_method": "other"}
    assert service.sample("grpc_server_handled_total", **labels, grpc_code="UNIMPLEMENTED") == 3


async def test_calls_of_our_service_count_as_requests_and_probes_do_not(service: Service) -> None:
    await service.stub.Encode(request())
    await refused(service.stub.Encode(request(model="no")), grpc.StatusCode.NOT_FOUND)
    check = service.channel.unary_unary("/grpc.health.v1.Health/Check", bytes, bytes)
    await check(b"")

    def counted(code: str) -> float | None:
        labels = {"protocol": "grpc", "method": "Encode", "code": code}
        return service.sample("headlight_requests_total", **labels)

    await until(lambda: (counted("OK"), counted("NOT_FOUND")) == (1, 1))
    [family] = [
        each for each in service.metrics.registry.collect() if each.name == "headlight_requests"
    ]
    assert {sample.labels["method"] for sample in family.samples} == {"Encode"}
