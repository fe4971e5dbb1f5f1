"""LlamaIndex's class for text-embeddings-inference. Run by `nox -s clients-more`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest
from llama_index.embeddings.text_embeddings_inference import TextEmbeddingsInference

from tests.clients.abandoned import LONG, SOON, abandoned, cancel_at_work
from tests.clients.more.conftest import (
    BUNDLE,
    MANY,
    MODEL,
    TEXTS,
    TOO_LONG,
    Vectors,
    assert_equal,
    run_example,
)
from tests.system.processes import Service

CLIENTS = ("llama-index-embeddings-text-embeddings-inference",)
TOKEN = "0123456789" * 4


def embedding(service: Service, **options: Any) -> TextEmbeddingsInference:
    known = {"model_name": MODEL, "base_url": f"http://{service.rest}"}
    return TextEmbeddingsInference(**known | options)


async def test_numbers_equal_those_of_the_grpc_client(service: Service, vectors: Vectors) -> None:
    client = embedding(service)
    assert_equal(client.get_text_embedding_batch(TEXTS), vectors(TEXTS))
    assert_equal(client.get_query_embedding(TEXTS[2]), vectors(TEXTS)[2])
    assert_equal(await client.aget_text_embedding(TEXTS[0]), vectors(TEXTS)[0])


def test_long_lists_in_batches(service: Service, vectors: Vectors) -> None:
    client = embedding(service, embed_batch_size=2048)
    assert_equal(client.get_text_embedding_batch(MANY), vectors(MANY))


def test_long_texts_are_cut_at_their_end(service: Service) -> None:
    whole, longer = (embedding(service).get_text_embedding(TOO_LONG + more) for more in ("", "a"))
    assert whole == longer


def test_refused_requests_raise_errors_about_types(service: Service) -> None:
    """The class does not read the status of an answer."""
    with pytest.raises(KeyError):
        embedding(service).get_text_embedding("")
    with pytest.raises(ValueError, match=r"inputs\[1\]: is"):
        embedding(service).get_text_embedding_batch(["a text", ""])


def test_a_timeout_ends_the_work(service: Service) -> None:
    hasty = embedding(service, timeout=SOON, embed_batch_size=len(LONG))
    with abandoned(service, "tei", "/embed"), pytest.raises(httpx.TimeoutException):
        hasty.get_text_embedding_batch(LONG)
    assert len(embedding(service).get_text_embedding("a")) == 256


async def test_a_cancelled_task_ends_the_work(service: Service) -> None:
    client = embedding(service, embed_batch_size=len(LONG))
    with abandoned(service, "tei", "/embed"):
        await cancel_at_work(service, client.aget_text_embedding_batch(LONG))
    assert len(await client.aget_text_embedding("a")) == 256


def test_a_token(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text(f"reader {TOKEN}\n", encoding="ascii")
    tokens.chmod(0o600)
    with Service(BUNDLE, "--auth-tokens", str(tokens)) as service:
        assert len(embedding(service, auth_token=TOKEN).get_text_embedding("a")) == 256
        with pytest.raises(ValueError, match="Expecting value"):  # 401 without a body, as TEI's
            embedding(service, auth_token="wrong").get_text_embedding("a")


def test_the_page_runs_as_written(service: Service, vectors: Vectors) -> None:
    found = run_example("llamaindex", service, 1)["vector"]
    assert_equal(found, vectors(["join two paths"])[0])
