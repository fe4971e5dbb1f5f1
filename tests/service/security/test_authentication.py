"""Authentication over a socket: every method except health requires a token.

Quotas apply to every computing method.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from headlight.pb import headlight_pb2 as pb
from headlight_service.core.admission.rate_limit import TOKENIZED_PER_COMPUTED, Quotas
from headlight_service.frontends.grpc.grpc_status import PUSHBACK
from headlight_service.security.auth_tokens import AuthTokens
from headlight_service.security.authentication import Authenticator
from tests.service.batching import Clock
from tests.service.calls import details_of, refused, request, text_of
from tests.service.conftest import Serve, Service

TOKEN, OTHER = "the-token-of-search", "the-token-of-batch"
GOOD = {"metadata": (("authorization", f"Bearer {TOKEN}"),)}
ELSE = {"metadata": (("authorization", f"Bearer {OTHER}"),)}
UNAUTHENTICATED, EXHAUSTED = grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.RESOURCE_EXHAUSTED
REFLECT = reflection_pb2.ServerReflectionRequest(list_services="")


@pytest.fixture
def tokens(tmp_path: Path) -> AuthTokens:
    path = tmp_path / "tokens"
    path.write_text(f"search {TOKEN}\nbatch {OTHER}\n", encoding="ascii")
    return AuthTokens(path, lambda: None)


def calls_of(service: Service) -> list[Any]:
    reflect = reflection_pb2_grpc.ServerReflectionStub(service.channel)
    stub, frame = service.stub, pb.EncodeStreamRequest(id="1", encode=request())
    return [
        lambda **more: stub.Encode(request(), **more),
        lambda **more: stub.Tokenize(pb.TokenizeRequest(inputs=[text_of(2)]), **more),
        lambda **more: stub.Occlude(pb.OccludeRequest(input=text_of(3)), **more),
        lambda **more: stub.GetModel(pb.GetModelRequest(), **more),
        lambda **more: stub.EncodeStream(iter([frame]), **more).read(),
        lambda **more: reflect.ServerReflectionInfo(iter([REFLECT]), **more).read(),
    ]


async def test_every_method_except_health_requires_a_token(
    serve: Serve, tokens: AuthTokens
) -> None:
    async with serve(authenticator=Authenticator(tokens)) as service:
        for call in calls_of(service):
            error = await refused(call(), UNAUTHENTICATED)
            assert "authorization: Bearer TOKEN" in (error.details() or "")
            wrong = (("authorization", "Bearer of-nobody-at-all"),)
            error = await refused(call(metadata=wrong), UNAUTHENTICATED)
            assert details_of(error)["ErrorInfo"].reason == "UNAUTHENTICATED"
            assert "of-nobody" not in str(error)
            assert await call(**GOOD)
        health = health_pb2_grpc.HealthStub(service.channel)
        answer = await health.Check(health_pb2.HealthCheckRequest(service="readiness"))
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
        labels = {
            "grpc_type": "unary",
            "grpc_service": "headlight.v1.HeadlightService",
            "grpc_method": "Encode",
        }
        assert (
            service.sample("grpc_server_handled_total", **labels, grpc_code="UNAUTHENTICATED") == 2
        )
        computed = sum(len(batch) for batch in service.engine.batches)
        assert computed == 6, "what was refused was not computed; Occlude has one, and three hidden"


async def test_a_refused_call_is_not_read(serve: Serve, tokens: AuthTokens) -> None:
    """It is refused although its message never comes."""
    async with serve(authenticator=Authenticator(tokens)) as service:
        call = service.stub.EncodeStream()
        assert await call.code() is UNAUTHENTICATED
        assert service.in_flight.count == 0


async def test_a_refused_unary_call_is_not_read(serve: Serve, tokens: AuthTokens) -> None:
    """Without the check it would wait for its message, which never comes."""
    async with serve(authenticator=Authenticator(tokens)) as service:
        channel: Any = service.channel
        call = channel.stream_unary("/headlight.v1.HeadlightService/GetModel")(timeout=30)
        assert await call.code() is UNAUTHENTICATED


@pytest.mark.parametrize(
    ("shown", "name"),
    [
        ({"x509_subject_alternative_name": [b"a", b"b"], "x509_common_name": [b"c"]}, "a"),
        ({"x509_common_name": [b"c"]}, "c"),
        ({}, ""),
    ],
)
def test_without_a_token_a_client_is_named_by_its_certificate(
    shown: dict[str, list[bytes]], name: str
) -> None:
    call: Any = SimpleNamespace(
        token_name=None, context=SimpleNamespace(auth_context=lambda: shown)
    )
    assert Authenticator(None).client_of(call) == name


async def test_each_client_has_its_own_quota(serve: Serve, tokens: AuthTokens) -> None:
    clock = Clock()
    async with serve(authenticator=Authenticator(tokens), quotas=Quotas(10, 10, clock)) as service:
        await service.stub.Encode(request(text_of(60)), **GOOD)
        error = await refused(service.stub.Encode(request(text_of(60)), **GOOD), EXHAUSTED)
        assert details_of(error)["ErrorInfo"].reason == "QUOTA"
        told = 2000 + 100 * 60 / TOKENIZED_PER_COMPUTED  # it was read, and will be read again
        assert details_of(error)["RetryInfo"].retry_delay.ToMilliseconds() == told
        trailing: Any = error.trailing_metadata()
        assert dict(trailing)[PUSHBACK] == f"{told:.0f}"
        assert service.metric("headlight_rejected_total", reason="quota") == 1
        await service.stub.Encode(request(text_of(60)), **ELSE)
        clock.now += told / 1000
        await service.stub.Encode(request(text_of(60)), **GOOD)
        assert "search" not in service.metrics.exposition()[1].decode(), (
            "no name of a client is a label"
        )


async def test_every_computing_method_is_charged(serve: Serve, tokens: AuthTokens) -> None:
    quotas = Quotas(10, 100, Clock())
    bucket = quotas.of("search")
    async with serve(authenticator=Authenticator(tokens), quotas=quotas) as service:
        stub = service.stub
        await stub.Encode(request(text_of(10), text_of(20)), **GOOD)
        assert bucket.level == 970
        frames = [pb.EncodeStreamRequest(id=str(i), encode=request(text_of(10))) for i in range(3)]
        assert len([frame async for frame in stub.EncodeStream(iter(frames), **GOOD)]) == 3
        assert bucket.level == 940
        hidden = len((await stub.Occlude(pb.OccludeRequest(input=text_of(10)), **GOOD)).tokens)
        level = 940 - 10 * (1 + hidden)
        assert bucket.level == level
        await stub.Tokenize(
            pb.TokenizeRequest(inputs=[text_of(16 * TOKENIZED_PER_COMPUTED)]), **GOOD
        )
        assert bucket.level == level - 16
        await stub.Encode(request(text_of(16 * TOKENIZED_PER_COMPUTED), dry_run=True), **GOOD)
        only = pb.Outputs(token_info=pb.TokenInfoOutput())
        await stub.Encode(request(text_of(16 * TOKENIZED_PER_COMPUTED), outputs=only), **GOOD)
        await stub.GetModel(pb.GetModelRequest(), **GOOD)
        assert bucket.level == level - 48
        bucket.spend(bucket.level - 1)
        await stub.Encode(request(text_of(100), outputs=only), **GOOD)
        assert bucket.level == 1 - 100 / TOKENIZED_PER_COMPUTED, "what is only read may be owed"


async def test_reading_is_charged_though_the_token_answer_is_too_large(
    serve: Serve, tokens: AuthTokens
) -> None:
    quotas = Quotas(10, 100, Clock())
    bucket = quotas.of("search")
    only = pb.Outputs(token_info=pb.TokenInfoOutput())
    many = request(*[text_of(TOKENIZED_PER_COMPUTED * 10)] * 10, outputs=only)
    async with serve(
        authenticator=Authenticator(tokens),
        quotas=quotas,
        max_request_tokens=10_000,
        max_unary_response_bytes=2048,
    ) as service:
        await refused(service.stub.Encode(many, **GOOD), grpc.StatusCode.INVALID_ARGUMENT)
        assert bucket.level == 1000 - 100


async def test_requests_refused_after_reading_are_charged_for_reading(
    serve: Serve, tokens: AuthTokens
) -> None:
    quotas = Quotas(10, 100, Clock())
    bucket, text = quotas.of("search"), text_of(10 * TOKENIZED_PER_COMPUTED)
    large = pb.Outputs(attention=pb.AttentionOutput())
    special = pb.TokenSelector(named=pb.NAMED_TOKENS_SPECIAL)
    async with serve(
        authenticator=Authenticator(tokens), quotas=quotas, max_unary_response_bytes=2048
    ) as service:
        error = await refused(
            service.stub.Encode(request(text, outputs=large), **GOOD),
            grpc.StatusCode.INVALID_ARGUMENT,
        )
        assert "the answer would have" in (error.details() or "")
        assert bucket.level == 1000 - 10
        wrong = service.stub.Occlude(pb.OccludeRequest(input=text, tokens=special), **GOOD)
        assert "no special token" in (
            (await refused(wrong, grpc.StatusCode.INVALID_ARGUMENT)).details() or ""
        )
        assert bucket.level == 1000 - 20
        bucket.spend(bucket.level - 150)
        for _ in range(3):  # it is read once; who does not wait as told is not read again
            error = await refused(service.stub.Encode(request(text), **GOOD), EXHAUSTED)
            assert details_of(error)["ErrorInfo"].reason == "QUOTA"
            assert bucket.level == 140
        assert service.engine.batches == []


async def test_an_occlusion_is_not_refused_midway_and_leaves_a_debt(
    serve: Serve, tokens: AuthTokens
) -> None:
    quotas = Quotas(10, 10, Clock())
    async with serve(
        authenticator=Authenticator(tokens), quotas=quotas, max_request_tokens=2000
    ) as service:
        await service.stub.Occlude(pb.OccludeRequest(input=text_of(40)), **GOOD)
        assert quotas.of("search").level < -1000
        calls = calls_of(service)
        for call in calls[:3]:
            await refused(call(**GOOD), EXHAUSTED)
        frame = await calls[4](**GOOD)
        assert frame.error.code == EXHAUSTED.value[0]
        assert frame.error.retry_after_ms > 100_000
        assert (frame.error.reason, frame.error.field) == ("QUOTA", "")
