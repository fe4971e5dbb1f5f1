"""Two models in one process: each answers its own vectors through every door."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from headlight import AsyncClient, Client
from headlight.cli.main import main
from headlight.errors import NotFound
from headlight.pb import headlight_pb2 as pb
from headlight.pb import headlight_pb2_grpc as pb_grpc
from headlight.runtime import Runtime
from headlight.runtime.values import Floats
from headlight_service.frontends.oip import inference_messages as oip
from tests.service.frontends.oip.inference_calls import InferenceStub, of_texts
from tests.system.conftest import MODELS, bundle_of
from tests.system.processes import ROOT, Service

TEXTS = ["the first text", "a second one, which is longer"]
FILE = """
[[model]]
source = "{rope}"
name = "search"
aliases = ["stable"]

[[model]]
source = "{sinusoidal}"
max_items = 2
default = true
"""


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    file = tmp_path_factory.mktemp("models") / "models.toml"
    rope, sinusoidal = map(bundle_of, MODELS)
    file.write_text(FILE.format(rope=rope, sinusoidal=sinusoidal), encoding="utf-8")
    with Service(f"--models={file}") as service:
        yield service


@pytest.fixture(scope="module")
def expected() -> Mapping[str, Floats]:
    """The vectors of TEXTS, by every name of each model. The models' widths differ."""
    found = dict[str, Floats]()
    for kind, names in (
        (MODELS[0], ("search", "stable", MODELS[0])),
        (MODELS[1], ("", MODELS[1])),
    ):
        with Runtime(bundle_of(kind), provider="cpu") as runtime:
            vectors, version = runtime.encode(TEXTS), runtime.model().version
        found |= dict.fromkeys((*names, f"{names[-1]}@{version}"), vectors)
    return found


def ask(service: Service, path: str, body: object = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(f"http://{service.rest}{path}", data, headers)
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def test_each_name_is_answered_by_its_model_over_grpc(
    models: Service, expected: Mapping[str, Floats]
) -> None:
    for name, vectors in expected.items():
        with Client(models.target, model=name) as client:
            np.testing.assert_allclose(client.encode(TEXTS), vectors, atol=1e-6)
            client.occlusion("ab")  # the first call: nothing has described the model

    async def once(name: str) -> Floats:
        async with AsyncClient(models.target, model=name) as client:
            return await client.encode(TEXTS)

    np.testing.assert_allclose(asyncio.run(once("stable")), expected["stable"], atol=1e-6)
    with Client(models.target, model="nobody") as client, pytest.raises(NotFound, match="search"):
        client.encode(TEXTS)


def test_each_name_is_answered_by_its_model_over_http(
    models: Service, expected: Mapping[str, Floats]
) -> None:
    for name, vectors in expected.items():
        answer = ask(models, "/v1/embeddings", {"input": TEXTS, "model": name})
        np.testing.assert_allclose(
            [each["embedding"] for each in answer["data"]], vectors, atol=1e-6
        )
        body = {"inputs": [{"text": text} for text in TEXTS], "model": name}
        encoded = ask(models, "/v1/encode", body)
        np.testing.assert_allclose(encoded["pooled"][0]["data"], vectors, atol=1e-6)
    np.testing.assert_allclose(ask(models, "/embed", {"inputs": TEXTS}), expected[""], atol=1e-6)
    listed = [each["id"] for each in ask(models, "/v1/models")["data"]]
    assert listed == ["search", "stable", *MODELS]
    assert ask(models, "/info")["model_id"] == MODELS[1]
    assert ask(models, "/info?model=stable")["model_id"] == "search"
    assert ask(models, "/v1/model?model=stable")["model"]["name"] == MODELS[0]
    with pytest.raises(urllib.error.HTTPError, match="404"):
        ask(models, "/info?model=nobody")


async def test_contracts_list_describe_and_check_each_model(
    models: Service, expected: Mapping[str, Floats]
) -> None:
    async with grpc.aio.insecure_channel(models.target) as channel:
        found = await pb_grpc.HeadlightServiceStub(channel).ListModels(pb.ListModelsRequest())
        assert [each.model.name for each in found.models] == [*MODELS]
        assert [each.default for each in found.models] == [False, True]
        assert {name for each in found.models for name in each.names} == {*expected} - {""} | {
            f"{name}@{found.models[0].model.version}" for name in ("search", "stable")
        }
        stub = InferenceStub(channel)
        for name in ("search", MODELS[1]):
            answer = await stub.ModelInfer(of_texts(*TEXTS, model=name))
            vectors = np.frombuffer(answer.raw_output_contents[0], "<f4")
            np.testing.assert_allclose(vectors, expected[name].ravel(), atol=1e-6)
        index = await stub.RepositoryIndex(oip.RepositoryIndexRequest())
        assert {each.name for each in index.models} >= {"search", MODELS[1]}
        health = health_pb2_grpc.HealthStub(channel)
        for name in expected:
            checked = await health.Check(health_pb2.HealthCheckRequest(service=name))
            assert checked.status == health_pb2.HealthCheckResponse.SERVING
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await health.Check(health_pb2.HealthCheckRequest(service="nobody"))
        assert refused.value.code() == grpc.StatusCode.NOT_FOUND
        assert "search" not in str(refused.value.details())


def test_the_client_and_the_command_line_list_the_models(
    models: Service, expected: Mapping[str, Floats], capsys: pytest.CaptureFixture[str]
) -> None:
    with Client(models.target) as client:
        listed = client.list_models()
    assert [(each.model.name, each.task, each.default) for each in listed] == [
        (MODELS[0], "embed", False),
        (MODELS[1], "embed", True),
    ]
    assert {name for each in listed for name in each.names} >= {*expected} - {""}
    assert main(["models", "--target", models.target]) == 0
    _, *lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [*MODELS]
    for name in ("stable", MODELS[1]):  # each command whose answer names its model
        for command in ("embed", "attend", "heads"):
            form = ("--format", "json", "--target", models.target, "--model", name)
            assert main([command, "a text", *form]) == 0
            answered = json.loads(capsys.readouterr().out)
            assert answered["model"]["name"] == (MODELS[1] if name == MODELS[1] else MODELS[0])


def test_each_model_has_its_limits_and_its_metrics(models: Service) -> None:
    with Client(models.target, model="search") as client:
        client.encode(TEXTS)
        assert client.model().limits.max_items > 2
    with Client(models.target) as client:
        client.encode(TEXTS)
        assert client.model().limits.max_items == 2
    for name in MODELS:
        assert models.counted(f'headlight_texts_total{{model="{name}"') > 0
        assert models.counted(f'headlight_model_info{{model="{name}"') == 1


def test_two_models_of_one_name_and_version_are_refused(tmp_path: Path) -> None:
    bundle = str(bundle_of(MODELS[0]))
    ports = ("--grpc", "127.0.0.1:0", "--metrics", "127.0.0.1:0", "--api", "off")
    command = [sys.executable, "-m", "headlight", "serve", bundle, bundle, *ports]
    ended = subprocess.run(
        command, check=False, cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert ended.returncode == 2
    assert f"model 2 of 2: {MODELS[0]} is a name of another model" in ended.stderr
