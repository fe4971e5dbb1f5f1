"""Generated stubs of text-embeddings-inference, and a client by reflection."""

from __future__ import annotations

import importlib
import subprocess
import sys
from typing import Any

import grpc
import numpy as np
import pytest
from google.protobuf.descriptor_pool import DescriptorPool

from tests.clients.abandoned import LONG, abandoned, is_at_work, until
from tests.clients.tei.conftest import MANY, TEXTS
from tests.system.processes import Service

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


def test_a_cancelled_stream_ends_the_work(service: Service, stubs: Any) -> None:
    pb, services = stubs
    with grpc.insecure_channel(service.target) as channel:
        embed = services.EmbedStub(channel)
        with abandoned(service, "tei-grpc", "EmbedStream", "CANCELLED"):
            call = embed.EmbedStream(pb.EmbedRequest(inputs=text) for text in LONG)
            until(lambda: is_at_work(service), "it did not begin")
            call.cancel()
            with pytest.raises(grpc.RpcError) as error:
                list(call)
        assert error.value.code() is grpc.StatusCode.CANCELLED
        assert embed.Embed(pb.EmbedRequest(inputs="a"), timeout=60).embeddings


def test_a_client_by_reflection(service: Service, expected: Any) -> None:
    from grpc_requests import Client as ReflectingClient  # takes seconds to import

    # The stubs have registered the same names in the default pool.
    client = ReflectingClient(service.target, descriptor_pool=DescriptorPool())
    answer = client.request("tei.v1.Embed", "Embed", {"inputs": TEXTS[1]})
    np.testing.assert_allclose(answer["embeddings"], expected[1], atol=1e-6)
    client.channel.close()
