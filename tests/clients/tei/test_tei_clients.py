"""Clients of text-embeddings-inference against a real service: numbers, lists, errors."""

from __future__ import annotations

import asyncio
import importlib
import importlib.metadata
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from huggingface_hub import AsyncInferenceClient, InferenceClient
from huggingface_hub.errors import HfHubHTTPError, InferenceTimeoutError

from headlight import Client
from tests.clients.abandoned import LONG, SOON, abandoned, cancel_at_work
from tests.clients.overload import BUSY, QUEUE, refusals, twelve_at_once
from tests.system.processes import ROOT, Service

PAGES = ROOT / "docs/clients"
REQUIREMENTS = Path(__file__).with_name("requirements.txt")
VERSIONS = {"huggingface_hub": "2.4.0"}  # of constraints.txt
TEXTS = ["join two paths", "read a file line by line", "été: 日本"]
TOKEN = "0123456789" * 4
MANY = 512  # texts in one request, the default limit
# The part of TEI's contract that a client of vectors needs, as protoc gets it.
CONTRACT = """
syntax = "proto3";
package tei.v1;
service Info { rpc Info (InfoRequest) returns (InfoResponse); }
service Embed {
  rpc Embed (EmbedRequest) returns (EmbedResponse);
  rpc EmbedStream (stream EmbedRequest) returns (stream EmbedResponse);
  rpc EmbedAll (EmbedAllRequest) returns (EmbedAllResponse);
}
service Rerank { rpc RerankStream (stream RerankStreamRequest) returns (RerankResponse); }
service Tokenize { rpc Tokenize (EncodeRequest) returns (EncodeResponse); }
enum ModelType { MODEL_TYPE_EMBEDDING = 0; MODEL_TYPE_CLASSIFIER = 1; MODEL_TYPE_RERANKER = 2; }
message InfoRequest {}
message InfoResponse {
  string version = 1; optional string sha = 2; optional string docker_label = 3;
  string model_id = 4; optional string model_sha = 5; string model_dtype = 6;
  ModelType model_type = 7; uint32 max_concurrent_requests = 8; uint32 max_input_length = 9;
  uint32 max_batch_tokens = 10; optional uint32 max_batch_requests = 11;
  uint32 max_client_batch_size = 12; uint32 tokenization_workers = 13;
}
message Metadata {
  uint32 compute_chars = 1; uint32 compute_tokens = 2; uint64 total_time_ns = 3;
  uint64 tokenization_time_ns = 4; uint64 queue_time_ns = 5; uint64 inference_time_ns = 6;
}
enum TruncationDirection { TRUNCATION_DIRECTION_RIGHT = 0; TRUNCATION_DIRECTION_LEFT = 1; }
message EmbedRequest {
  string inputs = 1; bool truncate = 2; optional bool normalize = 3;
  TruncationDirection truncation_direction = 4; optional string prompt_name = 5;
  optional uint32 dimensions = 6;
}
message EmbedResponse { repeated float embeddings = 1; Metadata metadata = 2; }
message EmbedAllRequest {
  string inputs = 1; bool truncate = 2; TruncationDirection truncation_direction = 3;
  optional string prompt_name = 4;
}
message TokenEmbedding { repeated float embeddings = 1; }
message EmbedAllResponse { repeated TokenEmbedding token_embeddings = 1; Metadata metadata = 2; }
message RerankStreamRequest {
  string query = 1; string text = 2; bool truncate = 3; bool raw_scores = 4; bool return_text = 5;
}
message Rank { uint32 index = 1; optional string text = 2; float score = 3; }
message RerankResponse { repeated Rank ranks = 1; Metadata metadata = 2; }
message EncodeRequest {
  string inputs = 1; bool add_special_tokens = 2; optional string prompt_name = 3;
}
message SimpleToken {
  uint32 id = 1; string text = 2; bool special = 3; optional uint32 start = 4;
  optional uint32 stop = 5;
}
message EncodeResponse { repeated SimpleToken tokens = 1; }
"""


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with Service(ROOT / "build/bundles/docs-rope", "--rest", "127.0.0.1:0") as running:
        yield running


@pytest.fixture(scope="module")
def expected(service: Service) -> Any:
    with Client(service.target) as own:
        return own.encode(TEXTS, normalize=True)


def url_of(service: Service) -> str:
    ports = next(entry for entry in service.log if entry.get("event") == "listening")
    return f"http://127.0.0.1:{ports['rest_port']}"


@pytest.fixture(scope="module")
def hub(service: Service) -> InferenceClient:
    return InferenceClient(url_of(service), token="any")


def test_the_versions_are_those_of_the_requirements() -> None:
    lines = REQUIREMENTS.read_text(encoding="utf-8").splitlines()
    pinned = dict(line.split("==") for line in lines if not line.startswith("#"))
    for name, version in (pinned | VERSIONS).items():
        assert importlib.metadata.version(name) == version


@pytest.mark.parametrize("page", ["huggingface-hub", "haystack"])
def test_the_page_runs_as_written(service: Service, page: str) -> None:
    text = (PAGES / f"{page}.md").read_text(encoding="utf-8")
    program = "\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL))
    program = program.replace("127.0.0.1:50051", service.target)
    program = program.replace("http://127.0.0.1:8000", url_of(service))
    shown = {
        "huggingface-hub": "print(vectors.shape, short.shape, len(likeness))",
        "haystack": (
            "import numpy\n"
            "rows = [[len(each.embedding) for each in rows] for rows in (embedded, streamed)]\n"
            "numpy.testing.assert_allclose(\n"
            "    [e.embedding for e in embedded], [e.embedding for e in streamed], atol=1e-6)\n"
            "print(rows, len(vector))\nstreaming.close()"
        ),
    }
    done = subprocess.run(
        [sys.executable, "-c", f"{program}\n{shown[page]}"],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
        env={"HAYSTACK_TELEMETRY_ENABLED": "False", "PATH": "/usr/bin"},
    )
    assert done.returncode == 0, done.stderr
    results = {"huggingface-hub": "(2, 256) (1, 128) 2", "haystack": "[[256, 256], [256, 256]] 256"}
    assert done.stdout.splitlines()[-1] == results[page]


def test_the_hub_client_gets_the_numbers_of_ours(hub: InferenceClient, expected: Any) -> None:
    np.testing.assert_allclose(hub.feature_extraction(TEXTS), expected, atol=1e-6)
    single = hub.feature_extraction(TEXTS[2], normalize=True, truncate=True)
    np.testing.assert_allclose(single, expected[2:], atol=1e-6)
    likeness = hub.sentence_similarity(TEXTS[0], TEXTS[1:])
    np.testing.assert_allclose(likeness, expected[1:] @ expected[0], atol=1e-6)


def test_the_hub_client_gets_the_longest_list(hub: InferenceClient, service: Service) -> None:
    many = [f"read file number {place}" for place in range(MANY)]
    with Client(service.target) as own:
        np.testing.assert_allclose(
            hub.feature_extraction(many), own.encode(many, normalize=True), atol=1e-6
        )
    with pytest.raises(HfHubHTTPError) as error:
        hub.feature_extraction([*many, "one more"])
    assert error.value.response.status_code == 422
    assert error.value.response.json()["error"] == "inputs: has 513 entries; send 1 to 512"


async def test_the_asyncio_hub_client(service: Service, expected: Any) -> None:
    client = AsyncInferenceClient(url_of(service), token="any")
    try:
        found = await asyncio.gather(*(client.feature_extraction(text) for text in TEXTS))
    finally:
        await client.close()  # type: ignore[no-untyped-call]
    np.testing.assert_allclose(np.concatenate(found), expected, atol=1e-6)


def test_errors_of_the_hub_client(hub: InferenceClient) -> None:
    for text, status, kind in (("", 400, "Empty"), ("path " * 3000, 422, "Validation")):
        with pytest.raises(HfHubHTTPError) as error:
            hub.feature_extraction(text)
        assert error.value.response.status_code == status
        assert error.value.response.json()["error_type"] == kind


def test_the_hub_client_raises_what_is_refused_for_load() -> None:
    """It does not retry; the error has the delay after which it may."""
    with Service(ROOT / "build/bundles/docs-rope", *QUEUE) as service:
        client = InferenceClient(f"http://{service.rest}", token="any")
        answers = twelve_at_once(service, lambda: client.feature_extraction(BUSY))
        errors = [each for each in answers if isinstance(each, HfHubHTTPError)]
        assert len(errors) == refusals(service)
    assert {each.response.status_code for each in errors} == {429}
    assert all(int(each.response.headers["retry-after"]) > 0 for each in errors)


def test_a_timeout_of_the_hub_client_ends_the_work(hub: InferenceClient, service: Service) -> None:
    hasty = InferenceClient(url_of(service), token="any", timeout=SOON)
    with abandoned(service, "tei", "/"), pytest.raises(InferenceTimeoutError):
        hasty.feature_extraction(LONG)
    assert hub.feature_extraction("a").shape == (1, 256)


async def test_a_cancelled_task_of_the_hub_client_ends_the_work(service: Service) -> None:
    async with AsyncInferenceClient(url_of(service), token="any") as client:
        with abandoned(service, "tei", "/"):
            await cancel_at_work(service, client.feature_extraction(LONG))
        assert (await client.feature_extraction("a")).shape == (1, 256)


@pytest.mark.parametrize("grpc_stream", [False, True])
async def test_a_cancelled_task_of_haystack_ends_the_work(
    service: Service, grpc_stream: bool
) -> None:
    from haystack import Document  # takes seconds to import
    from haystack_integrations.components.embedders.huggingface_api import (
        HuggingFaceAPIDocumentEmbedder,
    )

    embedder = HuggingFaceAPIDocumentEmbedder(
        api_type="text_embeddings_inference",
        api_params={"url": service.target if grpc_stream else url_of(service)},
        batch_size=len(LONG),
        concurrency_limit=1,
        progress_bar=False,
        use_grpc=grpc_stream,
    )
    counted = ("tei-grpc", "EmbedStream", "CANCELLED") if grpc_stream else ("tei", "/")
    documents = [Document(content=f"{place} {text}") for place, text in enumerate(LONG)]
    with abandoned(service, *counted):
        await cancel_at_work(service, embedder.run_async(documents))
    found = await embedder.run_async([Document(content="a")])
    assert len(found["documents"][0].embedding) == 256
    await embedder.close_async()


def test_the_hub_client_with_a_token(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text(f"reader {TOKEN}\n", encoding="ascii")
    tokens.chmod(0o600)
    options = ("--rest", "127.0.0.1:0", "--auth-tokens", str(tokens))
    with Service(ROOT / "build/bundles/docs-rope", *options) as service:
        known = InferenceClient(url_of(service), token=TOKEN)
        assert known.feature_extraction("a").shape == (1, 256)
        with pytest.raises(HfHubHTTPError) as error:
            InferenceClient(url_of(service), token="wrong").feature_extraction("a")
        assert error.value.response.status_code == 401


@pytest.fixture(scope="module")
def stubs(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return the generated modules of TEI's contract, beside the service's own in this process."""
    importlib.import_module("headlight_service.frontends.grpc.tei.tei_messages")
    folder = tmp_path_factory.mktemp("tei")
    (folder / "tei.proto").write_text(CONTRACT, encoding="ascii")
    command = "grpc_tools.protoc", f"-I{folder}", f"--python_out={folder}"
    outputs = f"--grpc_python_out={folder}", str(folder / "tei.proto")
    subprocess.run([sys.executable, "-m", *command, *outputs], check=True, timeout=60)
    sys.path.insert(0, str(folder))
    try:
        return importlib.import_module("tei_pb2"), importlib.import_module("tei_pb2_grpc")
    finally:
        sys.path.remove(str(folder))


def test_generated_stubs(service: Service, stubs: Any, expected: Any) -> None:
    pb, services = stubs
    with grpc.insecure_channel(service.target) as channel:
        embed = services.EmbedStub(channel)
        single = embed.Embed(pb.EmbedRequest(inputs=TEXTS[0]))
        np.testing.assert_allclose(single.embeddings, expected[0], atol=1e-6)
        requests = (pb.EmbedRequest(inputs=text) for text in TEXTS * 200)
        streamed = [answer.embeddings for answer in embed.EmbedStream(requests)]
        np.testing.assert_allclose(streamed, np.tile(expected, (200, 1)), atol=1e-6)
        rows = embed.EmbedAll(pb.EmbedAllRequest(inputs=TEXTS[0])).token_embeddings
        assert {len(row.embeddings) for row in rows} == {256}
        info = services.InfoStub(channel).Info(pb.InfoRequest())
        assert (info.model_id, info.max_client_batch_size) == ("docs-rope", MANY)
        tokens = services.TokenizeStub(channel).Tokenize(pb.EncodeRequest(inputs=TEXTS[2])).tokens
        assert tokens[-1].stop == len(TEXTS[2].encode())
        with pytest.raises(grpc.RpcError) as error:
            services.RerankStub(channel).RerankStream(iter([pb.RerankStreamRequest(query="a")]))
        assert error.value.code() is grpc.StatusCode.FAILED_PRECONDITION
        with pytest.raises(grpc.RpcError) as error:
            embed.Embed(pb.EmbedRequest(inputs=""))
        assert error.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_a_client_by_reflection(service: Service, expected: Any) -> None:
    from grpc_requests import Client as ReflectingClient  # takes seconds to import

    client = ReflectingClient(service.target)
    answer = client.request("tei.v1.Embed", "Embed", {"inputs": TEXTS[1]})
    np.testing.assert_allclose(answer["embeddings"], expected[1], atol=1e-6)
    client.channel.close()
