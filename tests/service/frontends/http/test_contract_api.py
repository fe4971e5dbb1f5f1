"""The contract as JSON over a real socket: the numbers of gRPC, and errors that name the field."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import http.client
import json
import random
import re
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import pytest
from google.protobuf.message import Message

from headlight.pb import headlight_pb2 as pb
from headlight_service.app.listen_addresses import taken
from headlight_service.config.option_types import Address
from headlight_service.frontends.contract.json_encoding import json_value
from headlight_service.frontends.http import dialects
from headlight_service.frontends.http.dialects import contract_api
from headlight_service.frontends.http.door import Door
from headlight_service.frontends.http.exchange import Options
from headlight_service.frontends.http.http_server import HttpServer
from tests.service.calls import text_of
from tests.service.conftest import Service, serving
from tests.service.core.pipelines import until
from tests.service.fakes import HEADS, LAYERS, FakeRuntime

SECRET = "confidential"
ERROR_FIELDS = {
    *("code", "status", "message", "field", "reason"),
    *("metadata", "retry_after_ms", "request_id"),
}


class Rest:
    """The HTTP frontend of a service in this process."""

    def __init__(self, service: Service, port: int) -> None:
        self.service = service
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    async def call(
        self, method: str, path: str, body: object = None, **headers: str
    ) -> tuple[int, dict[str, str], Any]:
        """Return status, headers and value of a response. Bytes are sent as they are."""

        def run() -> tuple[int, dict[str, str], Any]:
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            self._connection.request(method, path, None if body is None else content, headers)
            response = self._connection.getresponse()
            told = json.loads(response.read())
            return response.status, dict(response.getheaders()), told

        return await asyncio.to_thread(run)

    def close(self) -> None:
        self._connection.close()

    async def refused(self, path: str, body: object) -> dict[str, Any]:
        """Return the error of a request that is refused."""
        status, _, told = await self.call("POST", path, body)
        assert set(told) == {"error"}
        error: dict[str, Any] = told["error"]
        assert set(error) == ERROR_FIELDS
        assert error["status"] == status >= 400
        return error


@contextlib.asynccontextmanager
async def rest(runtime: FakeRuntime | None = None, **options: Any) -> AsyncIterator[Rest]:
    runtime = runtime or FakeRuntime(accepts=("text", "pair", "ids"))
    async with serving(runtime, **options) as service:
        bound = taken("--api", Address("127.0.0.1", 0))
        door = Door(service.pipeline, service.metrics, [contract_api], Options())
        server = HttpServer(bound, door)
        server.start()
        client = Rest(service, server.port)
        try:
            yield client
        finally:
            client.close()
            await server.stop(1.0)


def attention(**fields: Any) -> pb.Outputs:
    return pb.Outputs(attention=pb.AttentionOutput(**fields))


ALL_TOKENS = pb.TokenSelector(named=pb.NAMED_TOKENS_ALL)
FIRST = pb.TokenSelector(indices=pb.TokenIndices(indices=[0, -1]))
OUTPUTS = {
    "pooled": pb.Outputs(pooled=pb.PooledOutput(dimensions=3, normalize=False)),
    "tokens": pb.Outputs(tokens=pb.TokensOutput(normalize=True, dtype=pb.DATA_TYPE_FLOAT16)),
    "maps": attention(),
    "rows": attention(queries=FIRST, keys=FIRST, layers=[-1]),
    "pairs": attention(pairs=[pb.LayerHead(layer=0, head=1), pb.LayerHead(layer=2)]),
    "top_k": attention(top_k=2, dtype=pb.DATA_TYPE_UINT8, head_runs=[pb.IndexRun(begin=0, end=2)]),
    "mean": attention(reduce=[pb.REDUCTION_HEAD_MEAN, pb.REDUCTION_LAYER_MEAN]),
    "rollout": attention(reduce=[pb.REDUCTION_ROLLOUT], dtype=pb.DATA_TYPE_FLOAT16),
    "weights": attention(reduce=[pb.REDUCTION_POOLING_WEIGHTS]),
    "statistics": attention(reduce=[pb.REDUCTION_STATISTICS]),
    "scores": attention(scores=True),
    "hidden": pb.Outputs(hidden=pb.HiddenOutput(layers=[0, -1], tokens=FIRST)),
    "info": pb.Outputs(token_info=pb.TokenInfoOutput()),
    "everything": pb.Outputs(
        pooled=pb.PooledOutput(dtypes=[pb.DATA_TYPE_FLOAT16, pb.DATA_TYPE_FLOAT32]),
        tokens=pb.TokensOutput(),
        attention=pb.AttentionOutput(queries=ALL_TOKENS),
        hidden=pb.HiddenOutput(),
        token_info=pb.TokenInfoOutput(),
    ),
}


def flat(nested: Any) -> list[Any]:
    if not isinstance(nested, list):
        return [nested]
    return [each for part in nested for each in flat(part)]


def untimed(response: Message | dict[str, Any]) -> dict[str, Any]:
    told = response if isinstance(response, dict) else json_value(response)
    return {name: value for name, value in told.items() if name != "timings"}


async def test_every_kind_of_input_is_taken() -> None:
    body = {
        "model": "fake",
        "inputs": [
            {"text": "a b"},
            {"ids": {"ids": [3, 1, 4], "segments": [0, 0, 1]}},
            {"text": "a", "head_mask": {"values": [1, 0.5] * LAYERS}},
        ],
        "truncation": "TRUNCATION_CUT_END",
        "priority": "PRIORITY_BULK",
        "special_tokens": "SPECIAL_TOKENS_TEXT",
        "prompt_text": "",
    }
    async with rest() as client:
        status, _, told = await client.call("POST", "/v1/encode", body)
        masks = [item.head_mask for batch in client.service.engine.batches for item in batch]
    assert status == 200, told
    assert [item["token_count"] for item in told["items"]][1] == 3
    assert told["pooled"][0]["shape"] == [3, 4]
    assert any(mask is not None and mask.shape == (LAYERS, HEADS) for mask in masks)


COMPARED: dict[str, pb.CompareRequest] = {
    "scores": pb.CompareRequest(sort=True),
    "all": pb.CompareRequest(
        late_interaction=pb.LateInteraction(),
        matrix=pb.SimilarityMatrix(dtype=pb.DATA_TYPE_FLOAT16),
        evidence=[
            pb.EvidenceRequest(unit=pb.UNIT_TOKEN, top_k=2),
            pb.EvidenceRequest(method=pb.EVIDENCE_METHOD_OCCLUSION, unit=pb.UNIT_TOKEN),
        ],
    ),
}


def tensors_of(value: Any) -> list[dict[str, Any]]:
    """Return every tensor of a JSON value."""
    if isinstance(value, list):
        return [each for part in value for each in tensors_of(part)]
    if not isinstance(value, dict):
        return []
    if "dtype" in value:
        return [value]
    return [each for part in value.values() for each in tensors_of(part)]


@pytest.mark.parametrize("name", COMPARED)
async def test_comparisons_are_those_of_grpc(name: str) -> None:
    request = COMPARED[name]
    request.MergeFrom(pb.CompareRequest(query=text_of(2), passages=[text_of(5), text_of(3)]))
    async with rest() as client:
        expected = untimed(await client.service.stub.Compare(request))
        body = json_value(request)
        _, _, told = await client.call("POST", "/v1/compare", {**body, "encoding": "base64"})
        assert untimed(told) == expected
        _, _, told = await client.call("POST", "/v1/compare", body)
        _, _, planned = await client.call("POST", "/v1/compare", {**body, "dry_run": True})
        admission = client.service.model.admission
    assert planned["data_bytes"] == told["data_bytes"]
    for found, same in zip(tensors_of(told), tensors_of(expected), strict=True):
        kind = "<f2" if "16" in same["dtype"] else "<f4"
        numbers = np.frombuffer(base64.b64decode(same.pop("data")), kind)
        np.testing.assert_allclose(flat(found.pop("data")), numbers, rtol=1e-6)
    assert untimed(told) == expected
    assert admission.outputs.held == admission.requests.held == 0


async def test_the_model_is_described_as_over_grpc() -> None:
    async with rest() as client:
        expected = json_value(await client.service.stub.GetModel(pb.GetModelRequest()))
        for path in ("/v1/model", "/v1/model?model=fake"):
            assert (await client.call("GET", path))[2] == expected
        status, _, told = await client.call("GET", "/v1/model?model=other")
    assert (status, told["error"]["code"]) == (404, "NOT_FOUND")
    assert told["error"]["message"] == "model: not served here; there is fake"


REFUSED: list[tuple[str, object, str | None, str]] = [
    ("/v1/encode", {"inputs": [SECRET]}, "inputs[0]", "send an object"),
    ("/v1/encode", {"inputs": []}, "inputs", ""),
    ("/v1/encode", {"encoding": SECRET}, "encoding", 'send "list" or "base64"'),
    ("/v1/encode", {"inputs": [{}]}, "inputs[0]", "is empty; set text"),
    ("/v1/encode", [SECRET], None, ""),
    ("/v1/encode", b'{"a": NaN}', None, "not valid JSON"),
    ("/v1/encode", b'{"a": "\xff"}', None, "not valid UTF-8"),
    ("/v1/encode", b"[" * 100_000, None, "not valid JSON"),
    ("/v1/occlude", {"inputs": []}, "inputs", "did you mean input?"),
    ("/v1/compare", {"query": {"text": ""}}, "passages", "has 0 entries"),
]


async def test_errors_name_the_field() -> None:
    async with rest() as client:
        for path, body, field, problem in REFUSED:
            error = await client.refused(path, body)
            assert (error["code"], error["field"]) == ("INVALID_ARGUMENT", field)
            assert problem in error["message"]
            assert SECRET not in error["message"]


async def test_an_answer_that_is_too_large_is_refused_before_it_is_computed() -> None:
    body = {
        "inputs": [json_value(text_of(1500))],
        "outputs": {"attention": {}},
    }
    async with rest(max_output_bytes=64 << 20) as client:
        error = await client.refused("/v1/encode", body)
        assert client.service.engine.batches == []
    assert (error["code"], error["field"]) == ("INVALID_ARGUMENT", "outputs.attention")
    assert "bytes of JSON, over 58720256" in error["message"]
    assert "would fit" in error["message"]


VALUES: list[Any] = [
    *(None, True, 0, -1, 1.5, 1 << 40, 1 << 70, "", "a", SECRET, [], {}, [[]], [None], [1, "a"]),
    *({"text": "a"}, {"ids": {"ids": [1]}}, [{"text": "a"}] * 3, "REDUCTION_ROLLOUT"),
]
NAMES = ["text", "ids", "inputs", "outputs", "attention", "encoding", "top_k", "model", "x", ""]


def places(value: Any) -> list[tuple[Any, Any]]:
    """Return every container of a JSON value with each of its keys."""
    keys = list(value) if isinstance(value, dict) else range(len(value))
    inner = [
        place for key in keys if isinstance(value[key], dict | list) for place in places(value[key])
    ]
    return [*((value, key) for key in keys), *inner]


def mutated(choose: random.Random, body: dict[str, Any]) -> bytes:
    """Return a body with one to three changes of values, names or bytes."""
    for _ in range(choose.randint(1, 3)):
        found = places(body)
        if not found:
            break
        container, key = choose.choice(found)
        kind = choose.randrange(4)
        if kind == 0:
            container[key] = choose.choice(VALUES)
        elif kind == 1 and isinstance(container, dict):
            container[choose.choice(NAMES)] = container.pop(key)
        elif kind == 2 and isinstance(container, list):
            container.extend([container[key]] * choose.choice([1, 40]))
        else:
            del container[key]
    content = bytearray(json.dumps(body).encode())
    if choose.random() < 0.2:
        content[choose.randrange(len(content))] = choose.randrange(256)
    return bytes(content)


async def test_mutated_requests_are_answered_or_refused() -> None:
    choose, codes = random.Random(27), dict[int, int]()
    bodies = [
        json_value(pb.EncodeRequest(inputs=[text_of(3), text_of(2)], outputs=outputs))
        for outputs in OUTPUTS.values()
    ]
    bodies = [{**body, "encoding": kind} for body in bodies for kind in ("list", "base64")]
    async with rest() as client:
        for _ in range(500):
            body = mutated(choose, json.loads(json.dumps(choose.choice(bodies))))
            status, _, told = await client.call("POST", "/v1/encode", body)
            assert status in (200, 400, 404), (body, told)
            if status != 200:
                assert SECRET not in told["error"]["message"]
            codes[status] = codes.get(status, 0) + 1
        status, _, _ = await client.call("POST", "/v1/encode", {"inputs": [{"text": "a"}]})
        assert status == 200
        held = client.service.model.admission
        await asyncio.to_thread(
            until, lambda: held.outputs.held == held.requests.held == 0, "something is still held"
        )
    assert min(codes[200], codes[400]) > 50, codes


async def test_the_document_describes_every_route_and_field() -> None:
    async with rest() as client:
        status, headers, document = await client.call("GET", "/openapi.json")
        door = Door(client.service.pipeline, client.service.metrics, [contract_api], Options())
        routes = {
            (route.method.lower(), re.sub(r"[*]|{\w+}", "{}", route.path))
            for dialect in dialects.ALL
            for route in dialect.routes(door)
        }
    assert (status, headers["content-type"]) == (200, "application/json")
    described = {
        (method, re.sub(r"{\w+}", "{}", path))
        for path, each in document["paths"].items()
        for method in each
    }
    assert routes == described
    for name, schema in document["components"]["schemas"].items():
        if hasattr(pb, name) and "properties" in schema:
            fields = set(getattr(pb, name).DESCRIPTOR.fields_by_name)
            assert set(schema["properties"]) - {"encoding"} == fields, name
        elif "enum" in schema:
            kind = getattr(pb, name).DESCRIPTOR
            assert schema["enum"] == [each.name for each in kind.values if each.number]
