"""Parameters and time of a training step by number of heads, at one width."""

from __future__ import annotations

import statistics
import time

import torch

from headlight_model.encoder import Encoder
from headlight_model.lab.schemes import config

HEADS = (1, 2, 4, 8, 16)
BATCH, LENGTH = 64, 64  # sequences, tokens
ROUNDS = 41  # interleaved, so that other load on the machine meets all alike


def measure(*, quick: bool) -> list[dict[str, float]]:
    """Return for each number of heads `heads`, `parameters` and `ms`, on one thread.

    `ms` is the median time of a forward and a backward pass.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    encoders = [
        Encoder(config("learned", heads=heads, trained_length=LENGTH, max_length=LENGTH))
        for heads in HEADS
    ]
    ids = torch.randint(encoders[0].config.vocab_size, (BATCH, LENGTH))
    taken: list[list[float]] = [[] for _ in HEADS]
    for _ in range(3 if quick else ROUNDS):
        for encoder, times in zip(encoders, taken, strict=True):
            begin = time.perf_counter()
            encoder(ids).tokens.sum().backward()
            times.append(1000 * (time.perf_counter() - begin))
    torch.set_num_threads(threads)
    return [
        {
            "heads": heads,
            "parameters": sum(each.numel() for each in encoder.parameters()),
            "ms": statistics.median(times),
        }
        for heads, encoder, times in zip(HEADS, encoders, taken, strict=True)
    ]
