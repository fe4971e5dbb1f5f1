"""Measurements of what tutorials claim, beside what is right. No training, no trained weights.

The page quotes them in its table of errors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from headlight_model.layers.block import FeedForward
from headlight_model.positions.sinusoidal import positional_encoding
from lab import schemes
from lab.exact.properties import random_encoder
from lab.pictures.sinusoids import wavelengths

DIM, LENGTH = 64, 10
WIDTHS = (64, 256, 1024)
NETWORKS = 12
SAMPLES = 4096
PAIRS = (0, 16, 32, 48, 63)  # of WAVES dimensions
WAVES = 128
CALLED_UNIFORM = 0.15  # standard deviation of a row, below which a tutorial calls a head uniform


def measure() -> dict[str, str]:
    """Return all figures by the names that the page's template uses, formatted."""
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        inside, outside = norm_places()
        before, after = sensitivity()
        waves = wavelengths(WAVES)
        return {
            "scaled_variance": listed([scaled_variance(width) for width in WIDTHS], "{:,.0f}"),
            "norm_inside": f"{inside:.1f}",
            "norm_outside": f"{outside:.1f}",
            "swap_naive": f"{before:.1f}",
            "swap_undone": f"{after:.0e}",
            "worked_row": listed(positional_encoding(2, 4)[1].tolist(), "{:.5f}"),
            "measured_waves": listed([waves[pair] for pair in PAIRS], "{:,.1f}"),
            "uniform_from": str(uniform_from()),
            "transposed_error": refusal(32, LENGTH),
            "masked_rows": "NaN" if masked_softmax().isnan().all() else "numbers",
        }


def listed(values: Sequence[float], form: str) -> str:
    """Format numbers, with commas between them."""
    return ", ".join(form.format(value) for value in values)


def transposed(x: Tensor, table: Tensor) -> Tensor:
    """Add positions as a class of a tutorial does: with places and batch exchanged.

    Right for one token. Else it gives [S, S, D] for a batch of 1 or S, and fails for others.

    Args:
        x: float [B, S, D].
        table: float [rows, D], at least S rows.
    """
    rows = table[: x.shape[1]][None]  # [1, S, D]
    return x + rows.transpose(0, 1)  # [S, 1, D]


def refusal(batch: int, length: int) -> str:
    """Return PyTorch's message about `transposed` for this batch; "" if there is none."""
    try:
        transposed(torch.zeros(batch, length, DIM), torch.zeros(length, DIM))
    except RuntimeError as error:
        return str(error)
    return ""


def scaled_variance(width: int) -> float:
    """Return the variance of standard normal embeddings times sqrt(width)."""
    return float((torch.randn(SAMPLES, width) * math.sqrt(width)).var())


def norm_places() -> tuple[float, float]:
    """Return the standard deviation after NETWORKS of x = LN(x + f(x)), and of x = x + LN(f(x)).

    f are feed-forward networks with new weights.
    """
    inside = outside = torch.randn(SAMPLES, DIM)
    norm = nn.LayerNorm(DIM)
    for _ in range(NETWORKS):
        network = FeedForward(schemes.config("none"))
        inside, outside = norm(inside + network(inside)), outside + norm(network(outside))
    return float(inside.std()), float(outside.std())


def sensitivity() -> tuple[float, float]:
    """Return how far two tokens that change places move the token vectors, without positions.

    First place by place, as a "sensitivity test" compares them. Then with the tokens put back in
    their places.
    """
    encoder = random_encoder("none")
    ids = torch.arange(LENGTH)[None]
    order = torch.arange(LENGTH)
    order[[2, 7]] = order[[7, 2]]
    plain, changed = encoder(ids).tokens, encoder(ids[:, order]).tokens
    return float((plain - changed).abs().max()), float((plain[:, order] - changed).abs().max())


def uniform_from() -> int:
    """Return the length from which every head has a standard deviation below CALLED_UNIFORM."""
    return next(n for n in range(2, 1000) if greatest_deviation(n) < CALLED_UNIFORM)


def greatest_deviation(count: int) -> float:
    """Return the largest standard deviation that attention over `count` tokens can have.

    A map is n rows of n weights from 0 to 1, each of sum 1, so its mean is 1/n. The sum of the
    squares of a row is at most 1, for a row with all its weight on one token. So the variance is at
    most 1/n - 1/n² = (1/n)(1 - 1/n). The same holds for one row.
    """
    return math.sqrt(1 / count * (1 - 1 / count))


def masked_softmax() -> Tensor:
    """Return the softmax of a row with every key masked by minus infinity."""
    return torch.full((LENGTH,), -math.inf).softmax(dim=0)
