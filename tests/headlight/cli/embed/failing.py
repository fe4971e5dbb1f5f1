"""A fake service that fails in the middle of a list.

With the checkpoint that `headlight embed` then leaves in its folder.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import grpc
import numpy as np

from headlight.pb import headlight_pb2 as pb
from tests.headlight.fake_server import FakeServicer, Refusal

TEXTS = [f"text {number}" for number in range(80)]  # ten requests at the limits of the fake
BAD = 45  # in the sixth
KEPT = 40  # in the five before it
Embed = Callable[..., tuple[int, str]]


@dataclasses.dataclass
class Failing(FakeServicer):
    """Fake that runs an action before it serves a request with a certain text."""

    at: str = TEXTS[BAD]
    do: Callable[[], None] = lambda: None

    def serve(self, request: pb.EncodeRequest) -> pb.EncodeResponse:
        if any(item.text == self.at for item in request.inputs):
            self.do()
        return super().serve(request)

    def fail(self, code: grpc.StatusCode = grpc.StatusCode.INTERNAL) -> None:
        """Fail all requests from now on."""

        def do() -> None:
            raise Refusal(code, "error 4f2a")

        self.do = do

    def texts(self) -> list[str]:
        """Return the texts served since the last call."""
        seen = [item.text for request in self.encoded for item in request.inputs]
        self.encoded.clear()
        return seen


def vectors(path: Path) -> np.ndarray:
    with np.load(path.with_name("v"), allow_pickle=False) as archive:
        return np.array(archive["embeddings"])


def names(path: Path) -> list[str]:
    return sorted(each.name for each in path.parent.iterdir())
