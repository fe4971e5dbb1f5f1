"""tei.v1 over real sockets: numbers, tokens, descriptions and statuses."""

from __future__ import annotations

from typing import Any

import grpc
import numpy as np
import pytest
from google.protobuf import descriptor_pool
from grpc_health.v1 import health_pb2, health_pb2_grpc

from headlight import AsyncClient, __version__
from headlight.runtime import Runtime
from headlight_service.frontends.grpc.tei import tei_messages as pb
from tests.service.calls import refused, until
from tests.service.conftest import Serve, Service
from tests.service.fakes import MAX_LENGTH, FakeRuntime
from tests.service.frontends.grpc.tei.tei_calls import call, call_stream

TEXTS = ["two paths", "a", "été: 日本"]
WRONG_MODEL: dict[str, Any] = {
    "EmbedSparse": pb.EmbedSparseRequest(),
    "EmbedSparseStream": [pb.EmbedSparseRequest()],
    "Predict": pb.PredictRequest(),
    "PredictPair": pb.PredictPairRequest(),
    "PredictStream": [pb.PredictRequest()],
    "PredictPairStream": [pb.PredictPairRequest()],
    "Rerank": pb.RerankRequest(),
    "RerankStream": [pb.RerankStreamRequest()],
}


async def test_vectors_are_those_of_the_client(serve: Serve, runtime: Runtime) -> None:
    async with serve(runtime) as service, AsyncClient(service.target) as encoder:
        expected = await encoder.encode(TEXTS, normalize=True)
        plain = await encoder.encode(TEXTS, normalize=False, dimensions=4)
        for text, vector, short in zip(TEXTS, expected, plain, strict=True):
            answer = await call(service.channel, "Embed", pb.EmbedRequest(inputs=text))
            np.testing.assert_allclose(answer.embeddings, vector, atol=1e-6)
            request = pb.EmbedRequest(inputs=text, normalize=False, dimensions=4)
            answer = await call(service.channel, "Embed", request)
            np.testing.assert_allclose(answer.embeddings, short, atol=1e-6)
        streamed = await call_stream(
            service.channel, "EmbedStream", [pb.EmbedRequest(inputs=text) for text in TEXTS]
        )
        vectors = [answer.embeddings for answer in streamed]
        np.testing.assert_allclose(vectors, expected, atol=1e-6)


async def test_token_vectors_are_those_of_the_client(serve: Serve, runtime: Runtime) -> None:
    async with serve(runtime) as service, AsyncClient(service.target) as encoder:
        expected = await encoder.encode_tokens(TEXTS)
        requests = [pb.EmbedAllRequest(inputs=text) for text in TEXTS]
        answer = await call(service.channel, "EmbedAll", requests[0])
        for each in (answer, *await call_stream(service.channel, "EmbedAllStream", requests[:1])):
            rows = [row.embeddings for row in each.token_embeddings]
            np.testing.assert_allclose(rows, expected[0], atol=1e-6)
        streamed = await call_stream(service.channel, "EmbedAllStream", requests)
        assert [len(each.token_embeddings) for each in streamed] == [len(e) for e in expected]


async def test_an_answer_has_its_size_and_times(service: Service) -> None:
    embedding = call(service.channel, "Embed", pb.EmbedRequest(inputs="one two three"))
    metadata = (await embedding).metadata
    assert (metadata.compute_chars, metadata.compute_tokens) == (13, 3)
    assert 0 < metadata.inference_time_ns < metadata.total_time_ns
    headers: dict[str, Any] = dict(await embedding.initial_metadata())
    assert headers["x-compute-type"] == "cpu"
    assert headers["x-compute-characters"] == "13"
    assert headers["x-compute-tokens"] == "3"
    times = ("compute", "total", "tokenization", "queue", "inference")
    assert all(int(headers[f"x-{name}-time"]) >= 0 for name in times)


async def test_tokens_have_offsets_in_bytes(serve: Serve, runtime: Runtime) -> None:
    text = "é a"
    async with serve(runtime) as service:
        whole = pb.EncodeRequest(inputs=text, add_special_tokens=True)
        tokens = (await call(service.channel, "Tokenize", whole)).tokens
        assert tokens[0].special
        assert not tokens[0].HasField("start")
        own = [token for token in tokens if not token.special]
        assert own[-1].stop == len(text.encode())
        for token in own:
            assert text.encode()[token.start : token.stop].decode() == token.text
        bare = await call_stream(service.channel, "TokenizeStream", [pb.EncodeRequest(inputs=text)])
        assert list(bare[0].tokens) == own, "absent: no special tokens"


async def test_prompts_are_named(serve: Serve) -> None:
    runtime = FakeRuntime(prompts={"query": "find this: "}, default_prompt="query")
    async with serve(runtime) as service:
        default = await call(service.channel, "Embed", pb.EmbedRequest(inputs="a"))
        named = pb.EmbedRequest(inputs="a", prompt_name="query")
        assert (await call(service.channel, "Embed", named)).embeddings == default.embeddings
        assert default.metadata.compute_tokens == 3
        await call(service.channel, "Tokenize", pb.EncodeRequest(inputs="a", prompt_name="query"))
        assert runtime.tokenizer is not None
        assert {*runtime.tokenizer.texts} == {"find this: a"}
        wrong = pb.EmbedRequest(inputs="a", prompt_name="passage")
        error = await refused(
            call(service.channel, "Embed", wrong), grpc.StatusCode.INVALID_ARGUMENT
        )
        assert error.details() == "prompt_name: is not a prompt of this model; choose query"


async def test_long_texts_are_refused_unless_truncation_is_asked(
    serve: Serve, runtime: Runtime
) -> None:
    long = "two paths " * (runtime.bundle.manifest.max_length // 2)
    async with serve(runtime, truncation="end") as service:
        error = await refused(
            call(service.channel, "Embed", pb.EmbedRequest(inputs=long)),
            grpc.StatusCode.INVALID_ARGUMENT,
        )
        assert "inputs: has" in (error.details() or "")
        assert "truncate: true" in (error.details() or "")
        ends = []
        for direction in (pb.TRUNCATION_DIRECTION_RIGHT, pb.TRUNCATION_DIRECTION_LEFT):
            request = pb.EmbedRequest(
                inputs=f"begin {long} end", truncate=True, truncation_direction=direction
            )
            ends.append((await call(service.channel, "Embed", request)).embeddings)
        assert ends[0] != ends[1]


async def test_invalid_requests_name_the_field(service: Service) -> None:
    wrong: dict[str, Any] = {
        "inputs: is empty": {"inputs": ""},
        "dimensions: is 5": {"inputs": "a", "dimensions": 5},
        "truncation_direction: is unknown": {"inputs": "a", "truncation_direction": 9},
    }
    for expected, fields in wrong.items():
        asked = call(service.channel, "Embed", pb.EmbedRequest(**fields))
        error = await refused(asked, grpc.StatusCode.INVALID_ARGUMENT)
        assert (error.details() or "").startswith(expected)


@pytest.mark.parametrize("name", WRONG_MODEL)
async def test_methods_of_other_models_are_refused(service: Service, name: str) -> None:
    request = WRONG_MODEL[name]
    asked = (
        call_stream(service.channel, name, request)
        if name.endswith("Stream") and name != "RerankStream"
        else call(service.channel, name, request)
    )
    error = await refused(asked, grpc.StatusCode.FAILED_PRECONDITION)
    assert "tei.v1.Embed" in (error.details() or "")


async def test_decoding_is_not_implemented(service: Service) -> None:
    asked = call(service.channel, "Decode", pb.DecodeRequest(ids=[1]))
    await refused(asked, grpc.StatusCode.UNIMPLEMENTED)


async def test_the_description_has_the_limits(serve: Serve) -> None:
    async with serve(max_items=48, max_request_tokens=4000) as service:
        info = await call(service.channel, "Info", pb.InfoRequest())
        assert (info.version, info.model_id, info.model_dtype) == (__version__, "fake", "float32")
        assert info.model_type == pb.MODEL_TYPE_EMBEDDING
        assert info.max_input_length == MAX_LENGTH
        assert (info.max_client_batch_size, info.max_batch_tokens) == (48, 48 * MAX_LENGTH)
        assert not info.HasField("docker_label")


async def test_a_model_that_is_being_loaded_is_unavailable(serve: Serve) -> None:
    async with serve(loaded=False) as service:
        for name, request in {
            "Info": pb.InfoRequest(),
            "Embed": pb.EmbedRequest(inputs="a"),
            "Tokenize": pb.EncodeRequest(inputs="a"),
        }.items():
            await refused(call(service.channel, name, request), grpc.StatusCode.UNAVAILABLE)


async def test_an_invalid_message_is_counted_as_ours(service: Service) -> None:
    multi: Any = service.channel.unary_unary("/tei.v1.Embed/Embed", None, None)
    error = await refused(multi(b"\xff\xff"), grpc.StatusCode.INVALID_ARGUMENT)
    assert "cannot be decoded" in (error.details() or "")
    labels = {"grpc_type": "unary", "grpc_service": "tei.v1.Embed", "grpc_method": "Embed"}
    await until(
        lambda: (
            service.sample("grpc_server_handled_total", grpc_code="INVALID_ARGUMENT", **labels) == 1
        )
    )


@pytest.mark.parametrize(
    ("task", "kind", "services"),
    [
        ("embed", pb.MODEL_TYPE_EMBEDDING, {"Embed"}),
        ("rerank", pb.MODEL_TYPE_RERANKER, {"Predict", "Rerank"}),
        ("classify", pb.MODEL_TYPE_CLASSIFIER, {"Predict"}),
    ],
)
async def test_the_description_and_health_depend_on_the_task(
    serve: Serve, task: str, kind: int, services: set[str]
) -> None:
    async with serve(FakeRuntime(task=task)) as service:
        info = await call(service.channel, "Info", pb.InfoRequest())
        assert info.model_type == kind
        health = health_pb2_grpc.HealthStub(service.channel)
        listed = (await health.List(health_pb2.HealthListRequest())).statuses
        ready = {
            name
            for name, each in listed.items()
            if each.status == health_pb2.HealthCheckResponse.SERVING and name.startswith("tei.v1.")
        }
        assert ready == {f"tei.v1.{name}" for name in {"Info", "Tokenize", *services}}


@pytest.mark.parametrize("name", ["tei.v1.EmbedRequest", "tei.v1.Embed"])
def test_the_default_pool_is_free_for_the_stubs_of_other_packages(name: str) -> None:
    with pytest.raises(KeyError):
        descriptor_pool.Default().FindFileContainingSymbol(name)
