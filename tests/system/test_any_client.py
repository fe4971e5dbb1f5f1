"""Clients of every kind: stock grpcio with default limits and only the contract, and Node."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import grpc
import numpy as np
import pytest
from numpy.typing import NDArray

from headlight.pb import headlight_pb2 as pb
from headlight.pb import headlight_pb2_grpc as pb_grpc
from tests.shipped import DIM
from tests.system.processes import ROOT, Service

Buffers = dict[int, NDArray[np.uint8]]


def everything_of(
    stub: pb_grpc.HeadlightServiceStub, length: int
) -> tuple[pb.EncodeResponse, Buffers]:
    """Return all outputs of one text of so many tokens, as the contract's comments say.

    Each chunk is copied to its offset.
    """
    wanted = pb.Outputs(
        pooled=pb.PooledOutput(),
        tokens=pb.TokensOutput(),
        attention=pb.AttentionOutput(),
        hidden=pb.HiddenOutput(),
        token_info=pb.TokenInfoOutput(),
    )
    encode = pb.EncodeRequest(inputs=[pb.Input(ids=pb.TokenIds(ids=[7] * length))], outputs=wanted)
    header, buffers, chunks = pb.EncodeResponse(), Buffers(), 0
    for frame in stub.EncodeStream(iter([pb.EncodeStreamRequest(id="long", encode=encode)])):
        assert frame.id == "long"
        kind = frame.WhichOneof("frame")
        if kind == "header":
            header = frame.header
            buffers = {
                output: np.zeros(size, np.uint8) for output, size in sizes_of(header).items()
            }
        elif kind == "chunk":
            data = np.frombuffer(frame.chunk.data, np.uint8)
            buffers[frame.chunk.output][frame.chunk.offset_bytes :][: len(data)] = data
            chunks += 1
        else:
            assert kind == "end", frame
            assert (frame.end.chunks, frame.end.data_bytes) == (
                chunks,
                sum(map(len, buffers.values())),
            )
    return header, buffers


def sizes_of(header: pb.EncodeResponse) -> dict[int, int]:
    """Return the bytes of each output, by kind."""
    return {
        pb.OUTPUT_KIND_POOLED: 4 * int(np.prod(header.pooled[0].shape)),
        pb.OUTPUT_KIND_TOKENS: 4 * header.tokens.offsets[-1],
        pb.OUTPUT_KIND_ATTENTION: 4 * header.attention.offsets[-1],
        pb.OUTPUT_KIND_HIDDEN: 4 * header.hidden.offsets[-1],
    }


def test_a_stock_client_receives_every_output_of_the_longest_text(rope: Service) -> None:
    with grpc.insecure_channel(rope.target) as channel:
        stub = pb_grpc.HeadlightServiceStub(channel)
        info = stub.GetModel(pb.GetModelRequest()).info
        n = info.max_length
        header, buffers = everything_of(stub, n)
    assert len(header.items[0].tokens.ids) == n
    weights = buffers[pb.OUTPUT_KIND_ATTENTION].view("<f4").reshape(info.layers, info.heads, n, n)
    for layer in range(info.layers):
        np.testing.assert_allclose(weights[layer].sum(-1), 1.0, atol=1e-4)
    assert (
        buffers[pb.OUTPUT_KIND_HIDDEN]
        .view("<f4")
        .reshape(info.layers + 1, n, info.dim)
        .any(axis=(1, 2))
        .all()
    )
    assert abs(np.linalg.norm(buffers[pb.OUTPUT_KIND_POOLED].view("<f4")) - 1) < 1e-5


def test_a_unary_call_too_large_is_refused_with_the_remedy(rope: Service) -> None:
    with grpc.insecure_channel(rope.target) as channel:
        stub = pb_grpc.HeadlightServiceStub(channel)
        outputs = pb.Outputs(attention=pb.AttentionOutput())
        request = pb.EncodeRequest(
            inputs=[pb.Input(ids=pb.TokenIds(ids=[7] * 2048))], outputs=outputs
        )
        with pytest.raises(grpc.RpcError) as caught:
            stub.Encode(request)
    assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert "outputs.attention" in str(caught.value.details())
    assert "EncodeStream" in str(caught.value.details())


def test_a_node_client_reads_vectors(rope: Service, tmp_path: Path) -> None:
    client = Path(shutil.copytree(ROOT / "examples/languages/node", tmp_path / "node"))
    subprocess.run(
        ["npm", "ci", "--silent", "--no-audit", "--no-fund"], cwd=client, check=True, timeout=300
    )
    command = [
        "node",
        "attention.js",
        str(ROOT / "proto" / "headlight" / "v1" / "headlight.proto"),
        rope.target,
    ]
    done = subprocess.run(
        command, cwd=client, capture_output=True, text=True, check=True, timeout=60
    )
    answer = json.loads(done.stdout)
    assert answer["dim"] == DIM
    assert abs(answer["norm"] - 1) < 1e-5
    assert abs(answer["row_sum_min"] - 1) < 1e-5
    assert abs(answer["row_sum_max"] - 1) < 1e-5
    assert answer["tokens"] > 2
