"""KServe's gRPC client against a real service. Run by `nox -s clients-more`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import grpc
import numpy as np
import pytest
from kserve import InferenceGRPCClient, InferInput, InferRequest

from headlight import Client
from tests.clients.abandoned import LONG, SOON, abandoned, cancel_at_work
from tests.clients.more.conftest import (
    MANY,
    MODEL,
    TEXTS,
    TOO_LONG,
    Vectors,
    assert_equal,
    run_example,
)
from tests.clients.overload import BUSY, refusals
from tests.system.processes import Service

CLIENTS = ("kserve",)
COUNTED = ("oip", "ModelInfer")


def asking(texts: Sequence[str], model: str = MODEL, **options: Any) -> InferRequest:
    """Return a request whose texts are raw bytes."""
    tensor = InferInput("text", [len(texts)], "BYTES")
    tensor.set_data_from_numpy(np.array([text.encode() for text in texts], dtype=object))
    return InferRequest(model, [tensor], parameters=options)


def misshapen() -> InferRequest:
    request = asking(["a", "b"])
    request.inputs[0].shape = [3]
    return request


@pytest.fixture
async def client(service: Service) -> AsyncIterator[InferenceGRPCClient]:
    async with InferenceGRPCClient(service.target) as made:
        yield made


async def test_descriptions(client: InferenceGRPCClient) -> None:
    assert await client.is_server_live()
    assert await client.is_server_ready()
    for kind in ("", ".tokens", ".attention"):
        assert await client.is_model_ready(MODEL + kind)


async def test_numbers_equal_those_of_the_grpc_client(
    client: InferenceGRPCClient, vectors: Vectors
) -> None:
    as_list = InferRequest(MODEL, [InferInput("text", [len(TEXTS)], "BYTES", list(TEXTS))])
    for request in (asking(TEXTS), as_list):
        [output] = (await client.infer(request)).outputs
        assert (output.name, output.datatype) == ("embedding", "FP32")
        assert_equal(output.as_numpy(), vectors(TEXTS))


async def test_token_vectors_and_attention(service: Service, client: InferenceGRPCClient) -> None:
    with Client(service.target) as own:
        attentions = [own.attend(text) for text in TEXTS]
    longest = max(len(each.tokens.ids) for each in attentions)
    answer = await client.infer(asking(TEXTS, f"{MODEL}.tokens"))
    tokens = {each.name: each.as_numpy() for each in answer.outputs}
    assert tokens["token_embeddings"].shape == (len(TEXTS), longest, 256)
    answer = await client.infer(asking(TEXTS, f"{MODEL}.attention"))
    found = {each.name: each.as_numpy() for each in answer.outputs}
    for item, expected in enumerate(attentions):
        n = len(expected.tokens.ids)
        assert found["lengths"][item] == tokens["lengths"][item] == n
        assert_equal(found["attention"][item, :, :, :n, :n], np.asarray(expected.weights))
        assert tokens["input_ids"][item, :n].tolist() == list(expected.tokens.ids)


async def test_the_longest_list(client: InferenceGRPCClient, vectors: Vectors) -> None:
    [output] = (await client.infer(asking(MANY[:2048]))).outputs
    assert_equal(output.as_numpy(), vectors(MANY[:2048]))


@pytest.mark.parametrize(
    ("request_of", "code", "says"),
    [
        (lambda: asking(["a"], "other"), "NOT_FOUND", "there is docs-rope"),
        (misshapen, "INVALID_ARGUMENT", "text[2]: the buffer"),
        (lambda: asking([""]), "INVALID_ARGUMENT", "text[0]: is empty"),
        (lambda: asking([TOO_LONG]), "INVALID_ARGUMENT", "tokens"),
        (lambda: asking(MANY), "INVALID_ARGUMENT", "2048"),
        (lambda: asking(["a"], x=1), "INVALID_ARGUMENT", "parameters.x: is not an option"),
    ],
    ids=["unknown model", "wrong shape", "empty", "too long", "too many", "unknown option"],
)
async def test_errors_are_those_of_grpc(
    client: InferenceGRPCClient, request_of: Callable[[], InferRequest], code: str, says: str
) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await client.infer(request_of())
    assert error.value.code().name == code
    assert says in str(error.value.details())
    assert (await client.infer(asking(["a"]))).outputs


async def test_an_unknown_model_is_not_ready(client: InferenceGRPCClient) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await client.is_model_ready("other")
    assert error.value.code() is grpc.StatusCode.NOT_FOUND


async def test_a_timeout_ends_the_work(service: Service, client: InferenceGRPCClient) -> None:
    assert await client.is_server_ready()  # it is connected
    with (
        abandoned(service, *COUNTED, code="DEADLINE_EXCEEDED"),
        pytest.raises(grpc.aio.AioRpcError) as error,
    ):
        await client.infer(asking(LONG), timeout=SOON)
    assert error.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert (await client.infer(asking(["a"]))).outputs


async def test_a_cancelled_task_ends_the_work(
    service: Service, client: InferenceGRPCClient
) -> None:
    with abandoned(service, *COUNTED, code="CANCELLED"):
        await cancel_at_work(service, client.infer(asking(LONG)))
    assert (await client.infer(asking(["a"]))).outputs


async def refused(options: dict[str, Any]) -> int:
    """Return how many of twelve requests at once raised that they were refused."""
    async with InferenceGRPCClient(**options) as client:
        requests = (client.infer(asking([BUSY])) for _ in range(12))
        answers = await asyncio.gather(*requests, return_exceptions=True)
    errors = [each for each in answers if isinstance(each, grpc.aio.AioRpcError)]
    assert {each.code().name for each in errors} <= {"RESOURCE_EXHAUSTED"}
    return len(errors)


def test_refused_requests_are_retried_with_the_policy_of_the_page(busy: Service) -> None:
    before = refusals(busy)
    errors = asyncio.run(refused({"url": busy.target}))
    assert errors == refusals(busy) - before > 0
    before = refusals(busy)
    errors = asyncio.run(refused(run_example("kserve", busy, 1)["patient"]))
    assert errors < refusals(busy) - before


def test_the_page_runs_as_written(service: Service, vectors: Vectors) -> None:
    known = run_example("kserve", service)
    assert_equal(known["vectors"], vectors(["join two paths", "read a file"]))
    assert_equal(known["first"].sum(-1), np.ones(known["first"].shape[:2], np.float32))
