"""Triton's own client against a real service: numbers, batches, streams, errors, timeouts."""

from __future__ import annotations

import asyncio
import importlib.metadata
import json
import queue
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as triton
import tritonclient.grpc.aio as triton_aio
from tritonclient.utils import InferenceServerException

from headlight import Client
from tests.clients.abandoned import LONG, SOON, abandoned, cancel_at_work, is_at_work, until
from tests.clients.conftest import Ranks
from tests.clients.overload import BUSY, QUEUE, refusals, twelve_at_once
from tests.system.processes import ROOT, Service

PAGE = ROOT / "docs/clients/tritonclient.md"
REQUIREMENTS = Path(__file__).with_name("requirements.txt")
NAME, TOKEN = "docs-rope", "0123456789" * 4
TEXTS = ["join two paths", "read a file line by line", "open"]


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with Service(ROOT / "build/bundles" / NAME) as running:
        yield running


@pytest.fixture
def client(service: Service) -> Iterator[Any]:
    with triton.InferenceServerClient(service.target) as made:
        yield made


def texts(*values: str, module: Any = triton) -> list[Any]:
    tensor = module.InferInput("text", [len(values), 1], "BYTES")
    elements = [[value.encode()] for value in values]
    tensor.set_data_from_numpy(np.array(elements, dtype=object))
    return [tensor]


def test_the_versions_are_those_of_the_requirements() -> None:
    for line in REQUIREMENTS.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            name, _, version = line.partition("==")
            assert importlib.metadata.version(name) == version


def test_the_page_runs_as_written(several: Service, ranks: Ranks) -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 7
    program = "\n".join(blocks).replace("127.0.0.1:50051", several.target)
    shapes = "\nprint([vectors.shape, maps.shape, first.shape, last.shape])\nclient.close()\n"
    shapes += "print([[place, scores[place].item()] for place in map(documents.index, best)])\n"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program + shapes],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert done.stdout.startswith("[(2, 256), (2, 1, 2, ")
    assert json.loads(done.stdout.splitlines()[-1]) == [[at, score] for at, score in ranks]


def test_service_and_client_live_in_one_process() -> None:
    program = (
        "import headlight_service.app.lifecycle, tritonclient.grpc as triton, "
        "headlight_service.frontends.oip.inference_messages as oip\n"
        "theirs = triton.service_pb2.ModelInferRequest(id='1').SerializeToString()\n"
        "assert oip.ModelInferRequest.FromString(theirs).id == '1'\n"
    )
    for order in (program, program.replace("import ", "import tritonclient.grpc, ", 1)):
        subprocess.run([sys.executable, "-W", "error", "-c", order], check=True, timeout=120)


def test_descriptions(client: Any) -> None:
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready(NAME)
    assert client.get_server_metadata().name == "headlight"
    assert client.get_model_metadata(f"{NAME}.attention").outputs[0].name == "attention"
    config = client.get_model_config(f"{NAME}.tokens").config
    kinds = {each.name: each.data_type for each in config.input}
    assert kinds == {"text": 13, "input_ids": 9, "attention_mask": 9}  # TYPE_STRING, TYPE_INT64
    models = client.get_model_repository_index().models
    assert [each.name for each in models] == [NAME, f"{NAME}.tokens", f"{NAME}.attention"]


def test_numbers_equal_those_of_our_client(client: Any, service: Service) -> None:
    with Client(service.target) as own:
        expected = own.encode(TEXTS)
        attentions = [own.attend(text) for text in TEXTS]
    found = client.infer(NAME, texts(*TEXTS)).as_numpy("embedding")
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=1e-6)
    result = client.infer(f"{NAME}.attention", texts(*TEXTS))
    maps, lengths = result.as_numpy("attention"), result.as_numpy("lengths")
    for item, attention in enumerate(attentions):
        n = lengths[item]
        inside = maps[item, :, :, :n, :n]
        np.testing.assert_allclose(inside, attention.weights, atol=1e-6)
        ids = result.as_numpy("input_ids")[item, :n]
        assert ids.tolist() == list(attention.tokens.ids)


def test_a_long_list_and_an_answer_above_4_mib(client: Any, service: Service) -> None:
    many = [f"read file number {place}" for place in range(256)]
    found = client.infer(NAME, texts(*many)).as_numpy("embedding")
    with Client(service.target) as own:
        np.testing.assert_allclose(found, own.encode(many), atol=1e-6)
    long = " ".join(["path"] * 400)
    maps = client.infer(f"{NAME}.attention", texts(long)).as_numpy("attention")
    assert maps.nbytes > 4 << 20
    with pytest.raises(InferenceServerException, match=r"text: has 10000 rows; send 1 to") as error:
        client.infer(NAME, texts(*["a"] * 10_000))
    assert error.value.status() == "StatusCode.INVALID_ARGUMENT"


async def test_asyncio(service: Service, client: Any) -> None:
    expected = client.infer(NAME, texts(*TEXTS)).as_numpy("embedding")
    async with triton_aio.InferenceServerClient(service.target) as made:
        many = await asyncio.gather(
            *(made.infer(NAME, texts(text, module=triton_aio)) for text in TEXTS)
        )
        found = np.concatenate([each.as_numpy("embedding") for each in many])
        np.testing.assert_allclose(found, expected, atol=1e-6)

        async def requests() -> AsyncIterator[dict[str, Any]]:
            for place, text in enumerate(["open", "", "close"]):
                yield {
                    "model_name": NAME,
                    "inputs": texts(text, module=triton_aio),
                    "request_id": str(place),
                }

        answers = [answer async for answer in made.stream_infer(requests())]
    results = [None if result is None else result.get_response().id for result, _ in answers]
    assert results == ["0", None, "2"]
    assert "text[0]: is empty" in str(answers[1][1])


def test_streaming_in_order_with_an_error_between(client: Any) -> None:
    answers: queue.Queue[Any] = queue.Queue()
    client.start_stream(callback=lambda result, error: answers.put((result, error)))
    for place in range(20):
        client.async_stream_infer(
            NAME if place != 7 else "absent",
            texts("open " * (20 - place)),
            request_id=str(place),
            enable_empty_final_response=True,
        )
    found = [answers.get(timeout=60) for _ in range(20)]
    client.stop_stream()
    for place, (result, error) in enumerate(found):
        if place == 7:
            assert result is None
            assert f"there is {NAME}" in error.message()
        else:
            response = result.get_response()
            assert response.id == str(place)
            assert response.parameters["triton_final_response"].bool_param


@pytest.mark.parametrize("timeout", [{"client_timeout": SOON}, {"timeout": 1}])
def test_a_timeout_ends_the_work(service: Service, client: Any, timeout: dict[str, Any]) -> None:
    """One is of the call, in seconds; the other is of the protocol, in microseconds."""
    with (
        abandoned(service, "oip", "ModelInfer", "DEADLINE_EXCEEDED"),
        pytest.raises(InferenceServerException) as error,
    ):
        client.infer(NAME, texts(*LONG), **timeout)
    assert error.value.status() == "StatusCode.DEADLINE_EXCEEDED"
    assert client.infer(NAME, texts("open"), timeout=60_000_000, priority=1) is not None


def test_a_cancelled_call_ends_the_work(service: Service, client: Any) -> None:
    answers: queue.Queue[Any] = queue.Queue()
    with abandoned(service, "oip", "ModelInfer", "CANCELLED"):
        call = client.async_infer(
            NAME, texts(*LONG), callback=lambda result, error: answers.put(error)
        )
        until(lambda: is_at_work(service), "it did not begin")
        call.cancel()
        error = answers.get(timeout=60)
    assert isinstance(error, InferenceServerException)
    assert error.status() == "StatusCode.CANCELLED"
    assert client.infer(NAME, texts("open")).as_numpy("embedding").shape[0] == 1


def test_a_cancelled_stream_ends_the_work(service: Service, client: Any) -> None:
    answers: queue.Queue[Any] = queue.Queue()
    with abandoned(service, "oip", "ModelStreamInfer", "CANCELLED"):
        client.start_stream(callback=lambda result, error: answers.put(error))
        client.async_stream_infer(NAME, texts(*LONG))
        until(lambda: is_at_work(service), "it did not begin")
        client.stop_stream(cancel_requests=True)
    assert answers.get(timeout=60).status() == "StatusCode.CANCELLED"
    client.start_stream(callback=lambda result, error: answers.put(result))
    client.async_stream_infer(NAME, texts("open"))
    assert answers.get(timeout=60).as_numpy("embedding").shape[0] == 1
    client.stop_stream()


async def test_a_cancelled_task_ends_the_work(service: Service) -> None:
    async with triton_aio.InferenceServerClient(service.target) as client:
        with abandoned(service, "oip", "ModelInfer", "CANCELLED"):
            await cancel_at_work(service, client.infer(NAME, texts(*LONG, module=triton_aio)))
        answer = await client.infer(NAME, texts("open", module=triton_aio))
        assert answer.as_numpy("embedding").shape[0] == 1


def test_calls_that_are_refused_for_load_are_not_repeated() -> None:
    with (
        Service(ROOT / "build/bundles" / NAME, *QUEUE) as service,
        triton.InferenceServerClient(service.target) as client,
    ):
        answers = twelve_at_once(service, lambda: client.infer(NAME, texts(BUSY)))
        errors = [each for each in answers if isinstance(each, InferenceServerException)]
        assert len(errors) == refusals(service)
    assert {each.status() for each in errors} == {"StatusCode.RESOURCE_EXHAUSTED"}


@pytest.mark.parametrize(
    ("call", "status"),
    [
        (lambda client: client.load_model(NAME), "UNIMPLEMENTED"),
        (lambda client: client.unload_model(NAME), "UNIMPLEMENTED"),
        (lambda client: client.get_inference_statistics(NAME), "UNIMPLEMENTED"),
        (lambda client: client.get_system_shared_memory_status(), "UNIMPLEMENTED"),
        (lambda client: client.get_log_settings(), "UNIMPLEMENTED"),
        (lambda client: client.is_model_ready("absent"), "NOT_FOUND"),
        (lambda client: client.infer("absent", texts("a")), "NOT_FOUND"),
        (lambda client: client.infer(NAME, texts("a"), parameters={"x": 1}), "INVALID_ARGUMENT"),
        (lambda client: client.infer(NAME, texts("a"), sequence_id=5), "INVALID_ARGUMENT"),
    ],
)
def test_errors_are_raised_as_the_clients_own(client: Any, call: Any, status: str) -> None:
    with pytest.raises(InferenceServerException) as error:
        call(client)
    assert error.value.status() == f"StatusCode.{status}"
    assert error.value.message()


def test_tokens_are_sent_as_headers(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text(f"someone {TOKEN}\n", encoding="utf-8")
    tokens.chmod(0o600)
    with (
        Service(ROOT / "build/bundles" / NAME, "--auth-tokens", str(tokens)) as service,
        triton.InferenceServerClient(service.target) as client,
    ):
        with pytest.raises(InferenceServerException) as error:
            client.infer(NAME, texts("open"))
        assert error.value.status() == "StatusCode.UNAUTHENTICATED"
        headers = {"authorization": f"Bearer {TOKEN}"}
        assert client.infer(NAME, texts("open"), headers=headers).as_numpy("embedding").size
