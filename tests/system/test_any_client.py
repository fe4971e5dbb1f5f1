"""Clients of every kind: stock grpcio with default limits, which knows nothing but the contract; Node; the command line."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import grpc
import numpy as np
import pytest
from numpy.typing import NDArray

from headlight.pb import headlight_pb2 as pb
from headlight.pb import headlight_pb2_grpc as pb_grpc
from tests.system.processes import ROOT, Service


def test_a_stock_client_receives_every_output_of_the_longest_text(rope: Service) -> None:
    """As the contract's comments say: copy each chunk to its offset in the output it names."""
    with grpc.insecure_channel(rope.target) as channel:
        stub = pb_grpc.HeadlightServiceStub(channel)
        info = stub.GetModel(pb.GetModelRequest()).info
        n, heads = info.max_length, info.heads
        request = pb.EncodeStreamRequest(
            id="long",
            encode=pb.EncodeRequest(
                inputs=[pb.Input(ids=pb.TokenIds(ids=[7] * n))],
                outputs=pb.Outputs(
                    pooled=pb.PooledOutput(),
                    tokens=pb.TokensOutput(),
                    attention=pb.AttentionOutput(),
                    hidden=pb.HiddenOutput(),
                    token_info=pb.TokenInfoOutput(),
                ),
            ),
        )
        buffers: dict[int, NDArray[np.uint8]] = {}
        chunks = 0
        for frame in stub.EncodeStream(iter([request])):
            assert frame.id == "long"
            kind = frame.WhichOneof("frame")
            if kind == "header":
                header = frame.header
                sizes = {
                    pb.OUTPUT_KIND_POOLED: 4 * int(np.prod(header.pooled.shape)),
                    pb.OUTPUT_KIND_TOKENS: 4 * header.tokens.offsets[-1],
                    pb.OUTPUT_KIND_ATTENTION: 4 * header.attention.offsets[-1],
                    pb.OUTPUT_KIND_HIDDEN: 4 * header.hidden.offsets[-1],
                }
                buffers = {output: np.zeros(size, dtype=np.uint8) for output, size in sizes.items()}
            elif kind == "chunk":
                chunk = frame.chunk
                data = np.frombuffer(chunk.data, np.uint8)
                buffers[chunk.output][chunk.offset_bytes : chunk.offset_bytes + len(data)] = data
                chunks += 1
            else:
                assert kind == "end", frame
                assert frame.end.chunks == chunks
                assert frame.end.data_bytes == sum(sizes.values())
    weights = buffers[pb.OUTPUT_KIND_ATTENTION].view("<f4").reshape(info.layers, heads, n, n)
    for layer in range(info.layers):
        np.testing.assert_allclose(weights[layer].sum(-1), 1.0, atol=1e-4)
    assert buffers[pb.OUTPUT_KIND_HIDDEN].view("<f4").reshape(info.layers + 1, n, info.dim).any(axis=(1, 2)).all()
    assert abs(np.linalg.norm(buffers[pb.OUTPUT_KIND_POOLED].view("<f4")) - 1) < 1e-5
    assert len(header.items[0].tokens.ids) == n


def test_a_unary_call_that_would_be_too_large_is_refused_with_the_way_out(rope: Service) -> None:
    with grpc.insecure_channel(rope.target) as channel:
        stub = pb_grpc.HeadlightServiceStub(channel)
        outputs = pb.Outputs(attention=pb.AttentionOutput())
        request = pb.EncodeRequest(inputs=[pb.Input(ids=pb.TokenIds(ids=[7] * 2048))], outputs=outputs)
        with pytest.raises(grpc.RpcError) as caught:
            stub.Encode(request)
    assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert "outputs.attention" in str(caught.value.details())
    assert "EncodeStream" in str(caught.value.details())


def test_node(rope: Service, tmp_path: Path) -> None:
    client = Path(shutil.copytree(ROOT / "tests" / "system" / "node", tmp_path / "node"))
    subprocess.run(["npm", "ci", "--silent", "--no-audit", "--no-fund"], cwd=client, check=True, timeout=300)
    command = ["node", "client.js", str(ROOT / "proto" / "headlight" / "v1" / "headlight.proto"), rope.target]
    done = subprocess.run(command, cwd=client, capture_output=True, text=True, check=True, timeout=60)
    answer = json.loads(done.stdout)
    assert answer["dim"] == 128
    assert abs(answer["norm"] - 1) < 1e-5
    assert abs(answer["row_sum_min"] - 1) < 1e-5
    assert abs(answer["row_sum_max"] - 1) < 1e-5
    assert answer["tokens"] > 2


def test_the_command_line_answers(rope: Service) -> None:
    def headlight(*arguments: str) -> str:
        command = [str(Path(sys.executable).with_name("headlight")), *arguments, "--target", rope.target]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert len(json.loads(headlight("embed", "hello", "--format", "json"))["embeddings"]) == 1
    assert "hello" in headlight("tokens", "hello")
    assert "docs-rope" in headlight("info")
    assert "[CLS]" in headlight("attend", "open a file")
