"""Mutated requests: each is answered or refused as the caller's, and none harms another."""

from __future__ import annotations

import random
from typing import Any

from tests.chaos.mutations.of_protobuf import mutated
from tests.service.conftest import Service
from tests.service.frontends.oip.inference_calls import (
    ATTENTION,
    TOKENS,
    InferenceStub,
    arrays,
    of_ids,
    of_texts,
)

MUTATED = 500
SEEDS = [
    of_texts("a bb ccc", "dddd"),
    of_texts("a bb", model=TOKENS, normalize=True, outputs=("lengths", "token_embeddings")),
    of_texts("a bb", model=ATTENTION, attention_layers="0,-1", attention_heads=1),
    of_texts("a bb", model=ATTENTION, outputs=("attention.0.1", "attention.1.0"), priority=1),
    of_ids([[1, 2, 3], [4]], timeout=60_000_000),
    of_ids([[1, 2], [4]], datatype="INT32", dimensions=2),
]
ALLOWED = {"OK", "INVALID_ARGUMENT", "NOT_FOUND", "DEADLINE_EXCEEDED"}  # by a timeout of some µs


async def test_mutated_requests_are_never_unknown_or_internal(service: Service) -> None:
    chance, found = random.Random(27), set[str]()
    stub = InferenceStub(service.channel)
    channel: Any = service.channel
    call = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
    expected = await stub.ModelInfer(SEEDS[0])
    for place in range(MUTATED):
        message = mutated(SEEDS[place % len(SEEDS)].SerializeToString(), chance)
        status = (await call(message, timeout=60).code()).name
        assert status in ALLOWED, (message, status)
        found.add(status)
    again = await stub.ModelInfer(SEEDS[0])
    assert arrays(again)["embedding"].tobytes() == arrays(expected)["embedding"].tobytes()
    assert service.metric("headlight_queue_tokens") == 0
    assert {"OK", "INVALID_ARGUMENT", "NOT_FOUND"} <= found
