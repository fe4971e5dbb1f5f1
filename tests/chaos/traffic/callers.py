"""Valid calls: every answer is compared with the reference."""

from __future__ import annotations

import random
from typing import Any

import grpc
import numpy as np

from headlight import AsyncClient
from headlight.pb import headlight_pb2 as pb
from headlight.pb import headlight_pb2_grpc as pb_grpc
from tests.chaos.traffic.ledger import Wrong
from tests.chaos.traffic.reference import WEIGHTS_TOLERANCE, Known, Reference, check

SHED = {"OK", "RESOURCE_EXHAUSTED"}
SECONDS = 60.0
LONGEST_BATCH = 16


class Callers:
    """Shipped client, and bare stubs on a connection of their own."""

    def __init__(
        self,
        client: AsyncClient,
        channel: grpc.aio.Channel,
        known: Reference,
        chance: random.Random,
    ) -> None:
        self.known = known
        self.chance = chance
        self.client = client
        self.stub: Any = pb_grpc.HeadlightServiceStub(channel)

    def some(self) -> list[Known]:
        """Return a batch of mixed lengths."""
        return self.chance.choices(self.known.texts, k=self.chance.randint(1, LONGEST_BATCH))

    async def embed(self) -> str:
        batch = self.some()
        vectors = await self.client.encode([each.text for each in batch])
        for each, vector in zip(batch, vectors, strict=True):
            each.check_pooled(vector)
        return "OK"

    async def attend(self) -> str:
        [known] = self.chance.choices(self.known.texts)
        layers = self.chance.sample(
            range(len(known.attention)), k=self.chance.randint(1, len(known.attention))
        )
        answer = await self.client.attend(known.text, layers)
        check(answer.weights, known.attention[layers], WEIGHTS_TOLERANCE, "attention")
        if answer.tokens.ids != known.ids:
            raise Wrong("attention came with tokens of another text")
        return "OK"

    async def tokenize(self) -> str:
        batch = self.some()
        if [each.ids for each in await self.client.tokenize([each.text for each in batch])] != [
            b.ids for b in batch
        ]:
            raise Wrong("tokens of another text")
        return "OK"

    async def both(self) -> str:
        """Request vectors and attention of one graph, in one message."""
        [known] = self.chance.choices(self.known.texts[: len(self.known.texts) // 2])
        outputs = pb.Outputs(pooled=pb.PooledOutput(), attention=pb.AttentionOutput())
        answer = await self.stub.Encode(request(known, outputs=outputs), timeout=SECONDS)
        check_vectors(answer, [known])
        known.check_attention(
            np.frombuffer(answer.attention.data, "<f4").reshape(known.attention.shape)
        )
        return "OK"


def request(*batch: Known, **fields: Any) -> pb.EncodeRequest:
    return pb.EncodeRequest(inputs=[pb.Input(text=each.text) for each in batch], **fields)


def check_vectors(answer: pb.EncodeResponse, batch: list[Known]) -> None:
    """Raise Wrong unless the answer has the vector of each."""
    vectors = np.frombuffer(answer.pooled[0].data, "<f4").reshape(answer.pooled[0].shape)
    for known, vector in zip(batch, vectors, strict=True):
        known.check_pooled(vector)
