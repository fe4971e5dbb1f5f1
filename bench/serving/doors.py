"""Doors of one service: a call of some texts in each protocol, as its client sends it."""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import json
import struct
from collections.abc import Callable, Sequence

import numpy as np

from headlight.pb import headlight_pb2 as pb
from headlight.runtime.values import Floats
from headlight_service.frontends.oip import inference_messages as oip

MODEL = "model"


def embeddings_body(texts: Sequence[str], model: str = MODEL) -> bytes:
    """Return a request in OpenAI's form, for vectors as base64, as its own client does."""
    return json.dumps({"model": model, "input": list(texts), "encoding_format": "base64"}).encode()


def vectors_of(body: bytes) -> Floats:
    """Return float32 [N, D] of an answer."""
    rows = sorted(json.loads(body)["data"], key=lambda row: int(row["index"]))
    return np.stack([np.frombuffer(base64.b64decode(row["embedding"]), "<f4") for row in rows])


class Connection:
    """Persistent connection."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str
    ) -> None:
        self._reader, self._writer, self._host = reader, writer, host

    @classmethod
    async def open(cls, target: str) -> Connection:
        host, _, port = target.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port), limit=1 << 26)
        return cls(reader, writer, target)

    async def post(self, body: bytes, path: str = "/embeddings") -> bytes:
        """Return the body of the answer. Raises RuntimeError unless the status is 200."""
        head = (
            f"POST {path} HTTP/1.1\r\nHost: {self._host}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        self._writer.write(head.encode() + body)
        answer = await self._reader.readuntil(b"\r\n\r\n")
        status, *lines = answer.decode("latin-1").split("\r\n")
        fields = dict(line.lower().split(": ", 1) for line in lines if line)
        content = await self._reader.readexactly(int(fields["content-length"]))
        if " 200 " not in f"{status} ":
            raise RuntimeError(f"{status}: {content[:200]!r}")
        return content

    def close(self) -> None:
        self._writer.close()


@dataclasses.dataclass(frozen=True)
class Door:
    """One protocol.

    Attributes:
        name: as printed.
        method: full name of the RPC, or path of the POST.
        encode: returns the bytes of a call for some texts, by the name of the model.
    """

    name: str
    method: str
    encode: Callable[[Sequence[str], str], bytes]
    over_http: bool = True


def contract_request(texts: Sequence[str], model: str) -> bytes:
    """Return a request of headlight.v1.Encode."""
    inputs = [pb.Input(text=text) for text in texts]
    cut = pb.TRUNCATION_CUT_END
    return pb.EncodeRequest(model=model, inputs=inputs, truncation=cut).SerializeToString()


def inference_request(texts: Sequence[str], model: str) -> bytes:
    """Return a request of the Open Inference Protocol."""
    encoded = [text.encode() for text in texts]
    request = oip.ModelInferRequest(model_name=model)
    request.inputs.add(name="text", datatype="BYTES", shape=[len(texts)])
    request.raw_input_contents.append(
        b"".join(struct.pack("<I", len(text)) + text for text in encoded)
    )
    request.parameters["truncate"].string_param = "end"
    return request.SerializeToString()


def openai_request(texts: Sequence[str], model: str) -> bytes:
    """Return a request of OpenAI's API for vectors as lists."""
    return json.dumps({"model": model, "input": list(texts)}).encode()


def tei_request(texts: Sequence[str], _model: str) -> bytes:
    """Return a request of text-embeddings-inference."""
    return json.dumps({"inputs": list(texts), "truncate": True}).encode()


CONTRACT = Door("gRPC", "/headlight.v1.HeadlightService/Encode", contract_request, over_http=False)
OURS = (
    CONTRACT,
    Door("OIP", "/inference.GRPCInferenceService/ModelInfer", inference_request, over_http=False),
    Door("OpenAI base64", "/v1/embeddings", embeddings_body),
    Door("OpenAI lists", "/v1/embeddings", openai_request),
    Door("TEI", "/embed", tei_request),
)
INFINITY = Door("infinity, base64", "/embeddings", lambda texts, _: embeddings_body(texts))
DOORS = {door.name: door for door in (*OURS, INFINITY)}
