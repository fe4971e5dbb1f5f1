"""Minimal HTTP client of the load generator: one persistent connection, one POST at a time."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Sequence

import numpy as np

from headlight.runtime.values import Floats

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
