"""Batch invariance: the same vector alone, in a batch, under load, with and without attention."""

from __future__ import annotations

import asyncio

import grpc
import numpy as np
import pytest

from headlight import AsyncClient, Client
from headlight.pb import headlight_pb2 as pb
from headlight.pb import headlight_pb2_grpc as pb_grpc
from tests.shipped import LAYERS
from tests.system.processes import Service

TEXT = "split the extension from a path name"
OTHERS = [" ".join(f"word{i} number {j}" for j in range(1 + (i * 5) % 23)) for i in range(63)]


# A short text, one near the training length among texts a little shorter and longer, one far beyond
# it.
@pytest.mark.parametrize("text", [TEXT, OTHERS[-1], TEXT * 40], ids=["short", "ordinary", "long"])
def test_vectors_do_not_depend_on_batch_or_attention(rope: Service, text: str) -> None:
    with Client(rope.target) as client:
        alone = client.encode([text])[0]
        for place in (0, 31, 63):
            batch = client.encode([*OTHERS[:place], text, *OTHERS[place:]])
            assert batch.shape == (64, len(alone))
            np.testing.assert_allclose(batch[place], alone, atol=1e-6, rtol=0)
        ids = client.tokenize([text])[0].ids
        np.testing.assert_allclose(client.encode([ids])[0], alone, atol=1e-6, rtol=0)


async def test_vectors_do_not_change_under_a_hundred_callers(rope: Service) -> None:
    async with AsyncClient(rope.target) as client:
        [alone] = await client.encode([TEXT])
        weights = (await client.attend(TEXT)).weights

        async def caller(number: int) -> None:
            if number % 3 == 0:
                crowded = await client.attend(TEXT)
                np.testing.assert_allclose(crowded.weights, weights, atol=1e-6, rtol=0)
            elif number % 3 == 1:
                mixed = await client.encode([OTHERS[number % 63], TEXT])
                np.testing.assert_allclose(mixed[1], alone, atol=1e-6, rtol=0)
            else:
                np.testing.assert_allclose(
                    (await client.encode([TEXT]))[0], alone, atol=1e-6, rtol=0
                )

        await asyncio.gather(*(caller(number) for number in range(100)))


def test_pooled_is_the_same_if_requested_with_attention(rope: Service) -> None:
    """The two graphs agree: one request for both is answered by `attend`."""
    with grpc.insecure_channel(rope.target) as channel:
        stub = pb_grpc.HeadlightServiceStub(channel)
        inputs = [pb.Input(text=TEXT)]
        plain = stub.Encode(pb.EncodeRequest(inputs=inputs))
        both = pb.Outputs(pooled=pb.PooledOutput(), attention=pb.AttentionOutput(layers=[-1]))
        attended = stub.Encode(pb.EncodeRequest(inputs=inputs, outputs=both))
    difference = np.frombuffer(plain.pooled[0].data, "<f4") - np.frombuffer(
        attended.pooled[0].data, "<f4"
    )
    assert np.abs(difference).max() <= 1e-6
    assert list(attended.attention.layers) == [LAYERS - 1]
