"""OpenAI's client for Python against the real service. Run by `nox -s clients-http`."""

from __future__ import annotations

import base64
import importlib.metadata
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import openai
import pytest

from headlight import Client
from tests.clients.abandoned import LONG, SOON, abandoned, cancel_at_work
from tests.clients.http.conftest import BUNDLE
from tests.clients.overload import BUSY, QUEUE, refusals, twelve_at_once
from tests.system.processes import ROOT, Service

TEXTS = ["a fast encoder", "attention weights of each head", "Zürich", "a" * 300]
MODEL = "docs-rope"
TOO_LONG = "word " * 3000
PATH = "/v1/embeddings"


def client_of(service: Service, **options: Any) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"http://{service.rest}/v1", api_key="any", **options)


@pytest.fixture
def client(service: Service) -> Iterator[openai.OpenAI]:
    with client_of(service) as made:
        yield made


@pytest.fixture
def vectors(service: Service) -> Callable[[list[str]], np.ndarray[Any, Any]]:
    """Return the vectors that the gRPC client gets."""

    def ask(texts: list[str]) -> np.ndarray[Any, Any]:
        with Client(service.target) as grpc_client:
            return np.asarray(grpc_client.encode(texts))

    return ask


def test_the_version_is_the_pinned_one() -> None:
    pinned = Path(__file__).with_name("requirements.txt").read_text(encoding="utf-8")
    assert f"openai=={importlib.metadata.version('openai')}" in pinned.splitlines()


@pytest.mark.parametrize("form", [openai.NOT_GIVEN, "float", "base64"])
def test_numbers_equal_those_of_the_grpc_client(
    client: openai.OpenAI, vectors: Callable[[list[str]], np.ndarray[Any, Any]], form: Any
) -> None:
    answer = client.embeddings.create(model=MODEL, input=TEXTS, encoding_format=form)
    found = [each.embedding for each in answer.data]
    if form == "base64":  # given, the client does not decode it
        found = [np.frombuffer(base64.b64decode(str(each)), dtype="<f4") for each in found]
    expected = vectors(TEXTS)
    assert np.abs(np.asarray(found) - expected).max() <= 1e-6
    assert [each.index for each in answer.data] == [0, 1, 2, 3]
    assert answer.model == MODEL
    assert answer.usage.prompt_tokens == answer.usage.total_tokens > 4


def test_base64_equals_floats_to_the_bit(client: openai.OpenAI) -> None:
    one = client.embeddings.create(model=MODEL, input=TEXTS[0])  # base64, decoded by the client
    other = client.embeddings.create(model=MODEL, input=TEXTS[0], encoding_format="float")
    packed, plain = (
        np.asarray(answer.data[0].embedding, dtype=np.float32) for answer in (one, other)
    )
    assert packed.tobytes() == plain.tobytes()


def test_long_lists_and_dimensions(
    client: openai.OpenAI, vectors: Callable[[list[str]], np.ndarray[Any, Any]]
) -> None:
    texts = [f"text number {number}" for number in range(2048)]
    answer = client.embeddings.create(model=MODEL, input=texts, dimensions=64)
    found = np.asarray([each.embedding for each in answer.data])
    assert found.shape == (2048, 64)
    whole = vectors(texts)[:, :64]
    expected = whole / np.linalg.norm(whole, axis=1, keepdims=True)
    assert np.abs(found - expected).max() <= 1e-6


def test_models(client: openai.OpenAI) -> None:
    assert [each.id for each in client.models.list()] == [MODEL]
    assert client.models.retrieve(MODEL).owned_by == "headlight"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("other")


@pytest.mark.parametrize(
    ("value", "fields", "kind", "param", "code", "says"),
    [
        ("a", {"model": "no"}, openai.NotFoundError, "model", "model_not_found", MODEL),
        ([], {}, openai.BadRequestError, "input", None, "empty list"),
        (["a", ""], {}, openai.BadRequestError, "input", None, "input[1]"),
        (TOO_LONG, {}, openai.BadRequestError, "input", None, "tokens"),
        ([1, 2], {}, openai.BadRequestError, "input", None, "check_embedding_ctx_length=False"),
        (["a"] * 2049, {}, openai.BadRequestError, "input", None, "2048"),
        ("a", {"dimensions": 100_000}, openai.BadRequestError, "dimensions", None, "100000"),
        ("a" * 5_000_000, {}, openai.APIStatusError, None, None, "--max-request-bytes"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_errors_are_those_of_the_client(
    client: openai.OpenAI, value: Any, fields: Any, kind: Any, param: Any, code: Any, says: str
) -> None:
    with pytest.raises(kind) as caught:
        client.embeddings.create(**{"model": MODEL, "input": value, **fields})
    error = caught.value
    assert (error.param, error.code, error.type) == (param, code, "invalid_request_error")
    assert says in error.message
    assert error.request_id
    assert client.embeddings.create(model=MODEL, input="a").data  # the client goes on


def test_a_timeout_ends_the_work(service: Service, client: openai.OpenAI) -> None:
    hasty = client.with_options(max_retries=0, timeout=SOON)
    with abandoned(service, "openai", PATH), pytest.raises(openai.APITimeoutError):
        hasty.embeddings.create(model=MODEL, input=LONG)
    assert hasty.with_options(timeout=60).embeddings.create(model=MODEL, input="a").data


async def test_a_cancelled_task_ends_the_work(service: Service) -> None:
    url = f"http://{service.rest}/v1"
    async with openai.AsyncOpenAI(base_url=url, api_key="any", max_retries=0) as client:
        with abandoned(service, "openai", PATH):
            await cancel_at_work(service, client.embeddings.create(model=MODEL, input=LONG))
        assert (await client.embeddings.create(model=MODEL, input="a")).data


def test_a_deadline_of_the_service(service: Service, client: openai.OpenAI) -> None:
    hasty = client.with_options(max_retries=0, default_headers={"x-request-timeout": "0.001"})
    with (
        abandoned(service, "openai", PATH, code="504"),
        pytest.raises(openai.InternalServerError) as caught,
    ):
        hasty.embeddings.create(model=MODEL, input=LONG)
    assert (caught.value.status_code, caught.value.code) in ((504, "timeout"), (504, None))


def test_a_wrong_key_is_an_authentication_error(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text(f"search {'a' * 20}\n")
    with Service(BUNDLE, "--auth-tokens", str(tokens)) as service:
        with client_of(service) as client, pytest.raises(openai.AuthenticationError) as caught:
            client.models.list()
        assert caught.value.code == "invalid_api_key"
        with client_of(service) as client:
            client.api_key = "a" * 20
            assert client.embeddings.create(model=MODEL, input="a").data


def test_shed_requests_are_retried_after_the_delay() -> None:
    """Twelve requests to a queue that holds two: all are answered in the end."""
    with Service(BUNDLE, *QUEUE) as service, client_of(service, max_retries=50) as client:
        answers = twelve_at_once(
            service, lambda: client.embeddings.create(model=MODEL, input=BUSY).data
        )
        assert [len(each) for each in answers] == [1] * 12


def test_bulk_requests_wait_instead() -> None:
    with Service(BUNDLE, *QUEUE) as service:
        headers = {"x-headlight-priority": "bulk"}
        with (
            client_of(service, max_retries=0, default_headers=headers) as client,
            ThreadPoolExecutor(16) as pool,
        ):
            asked = [
                pool.submit(client.embeddings.create, model=MODEL, input=BUSY) for _ in range(12)
            ]
            assert all(len(each.result().data) == 1 for each in asked)
        assert not refusals(service)


def test_the_example_of_the_page_runs(service: Service) -> None:
    page = (ROOT / "docs/clients/openai.md").read_text(encoding="utf-8")
    example = page.split("```python\n")[1].split("```")[0]
    known: dict[str, Any] = {}
    exec(example.replace("127.0.0.1:8000", service.rest), known)
    assert np.asarray(known["vectors"]).shape == (2, 256)
