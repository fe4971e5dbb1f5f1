"""Chroma's embedding functions against a real service. Run by `nox -s clients-more`."""

from __future__ import annotations

import socket
from typing import Any

import chromadb
import httpx
import openai
import pytest
from chromadb.utils.embedding_functions import HuggingFaceEmbeddingServer, OpenAIEmbeddingFunction

from tests.clients.more.conftest import (
    MANY,
    MODEL,
    TEXTS,
    TOO_LONG,
    Vectors,
    assert_equal,
    assert_retried,
    run_example,
)
from tests.clients.overload import BUSY
from tests.system.processes import Service

CLIENTS = ("chromadb",)


def hugging_face(service: Service) -> HuggingFaceEmbeddingServer:
    return HuggingFaceEmbeddingServer(url=f"http://{service.rest}/embed")


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenAI's function reads its key from a variable, and warns about one that it is given."""
    monkeypatch.setenv("OPENAI_API_KEY", "any")


def open_ai(service: Service, **options: Any) -> OpenAIEmbeddingFunction:
    known = {"model_name": MODEL, "api_base": f"http://{service.rest}/v1"}
    return OpenAIEmbeddingFunction(**known | options)


@pytest.mark.parametrize("function", [hugging_face, open_ai])
def test_numbers_equal_those_of_the_grpc_client(
    service: Service, vectors: Vectors, function: Any
) -> None:
    assert_equal(function(service)(TEXTS), vectors(TEXTS))


@pytest.mark.parametrize("function", [hugging_face, open_ai])
def test_the_longest_list(service: Service, vectors: Vectors, function: Any) -> None:
    assert_equal(function(service)(MANY[:2048]), vectors(MANY[:2048]))


def test_the_function_for_hugging_face_does_not_wait_longer_than_five_seconds() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/embed"
        with pytest.raises(httpx.ReadTimeout):
            HuggingFaceEmbeddingServer(url=url)(["a"])


@pytest.mark.parametrize("function", [hugging_face, open_ai])
def test_a_collection_finds_the_nearest_text(service: Service, function: Any) -> None:
    client = chromadb.EphemeralClient(chromadb.Settings(anonymized_telemetry=False))
    collection = client.create_collection(function.__name__, embedding_function=function(service))
    documents = ["join two paths", "parse a date"]
    collection.add(ids=["paths", "dates"], documents=documents)
    found = collection.query(query_texts=["how are paths joined?"], n_results=1)
    assert found["ids"] == [["paths"]]


@pytest.mark.parametrize("texts", [[""], [TOO_LONG], MANY], ids=["empty", "too long", "too many"])
def test_errors_are_those_of_openai_or_about_the_content(
    service: Service, texts: list[str]
) -> None:
    """Hugging Face's function does not read the status of an answer."""
    with pytest.raises(openai.BadRequestError):
        open_ai(service)(texts)
    with pytest.raises(ValueError, match="could not convert string to float: 'error'"):
        hugging_face(service)(texts)


def test_dimensions_are_left_out_without_an_error(service: Service) -> None:
    assert len(open_ai(service, dimensions=64)(["a"])[0]) == 256


def test_refused_requests_are_retried_by_the_function_for_openai(busy: Service) -> None:
    function = open_ai(busy)
    function.client = function.client.with_options(max_retries=50)  # two by default
    assert_retried(busy, lambda: [float(number) for number in function([BUSY])[0]])


def test_the_page_runs_as_written(service: Service, vectors: Vectors) -> None:
    found = run_example("chroma", service)["vectors"]
    assert_equal(found, vectors(["join two paths", "parse a date"]))
