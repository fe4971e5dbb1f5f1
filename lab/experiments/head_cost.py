"""Parameters and time of the comparison of head counts, at one width."""

from __future__ import annotations

import dataclasses
import statistics
import time

import torch

from lab.building import build
from lab.experiments.variants import RECALL

COUNTS = (1, 2, 4, 8, 16)  # heads
BATCH, LENGTH = 64, 64  # sequences, tokens
ROUNDS = 41  # interleaved, so that other load on the machine meets all alike


def measure(*, quick: bool) -> list[dict[str, float]]:
    """Return for each number of heads `heads`, `parameters` and `ms`, on one thread.

    `ms` is the median time of a forward and a backward pass.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    encoders = [build(dataclasses.replace(RECALL, fields={"heads": heads})) for heads in COUNTS]
    ids = torch.randint(encoders[0].config.vocab_size, (BATCH, LENGTH))
    taken: list[list[float]] = [[] for _ in COUNTS]
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
        for heads, encoder, times in zip(COUNTS, encoders, taken, strict=True)
    ]
