"""Time of reading a text token by token (an LSTM), and at once (attention)."""

from __future__ import annotations

import statistics
import time

import torch
from torch import nn

from headlight_model.encoder import Encoder
from lab import schemes

TOKENS = 500
ROUNDS = 41  # interleaved, so that other load on the machine meets both alike


def measure(*, quick: bool) -> dict[str, float]:
    """Return `tokens`, and the milliseconds of a forward pass of one text on one thread.

    `recurrent` is the median of two LSTM layers, `attention` that of two blocks of the same width.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    encoder = Encoder(schemes.config("sinusoidal", max_length=TOKENS)).eval()
    dim = encoder.config.dim
    recurrent: nn.Module = nn.LSTM(
        dim, dim, num_layers=encoder.config.layers, batch_first=True
    ).eval()
    ids = torch.randint(encoder.config.vocab_size, (1, TOKENS))
    taken: dict[str, list[float]] = {"recurrent": [], "attention": []}
    with torch.inference_mode():
        for _ in range(3 if quick else ROUNDS):
            begin = time.perf_counter()
            recurrent(encoder.embedding(ids))
            between = time.perf_counter()
            encoder(ids)
            taken["recurrent"].append(1000 * (between - begin))
            taken["attention"].append(1000 * (time.perf_counter() - between))
    torch.set_num_threads(threads)
    return {"tokens": TOKENS} | {name: statistics.median(times) for name, times in taken.items()}
