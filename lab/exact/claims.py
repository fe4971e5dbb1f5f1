"""Measurements of what tutorials claim, beside what is right. No training, no trained weights.

The page quotes them in its table of errors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

import tokenizers
import torch
from torch import Tensor, nn

from headlight_model.layers.attention import MultiHeadAttention
from headlight_model.layers.block import FeedForward
from headlight_model.positions.position_schemes import Rope
from headlight_model.positions.sinusoidal import positional_encoding
from lab import schemes
from lab.exact.properties import random_encoder
from lab.pictures.sinusoids import wavelengths

DIM, LENGTH = 64, 10
COPIED = 6  # tokens of the tutorial's copy task
WIDTHS = (64, 256, 1024)
NETWORKS = 12
SAMPLES = 4096
PAIRS = (0, 16, 32, 48, 63)  # of WAVES dimensions
WAVES = 128
STEPS = 128  # from a position to the next
OFFSET = 40  # positions
TABLE = 512  # rows
EMPHASIS = ("SHE stole my book", "she STOLE my book")
VOCABULARY = Path("model/headlight_model/checkpoints/docs-rope/tokenizer.json")
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
            "transposed_error": error_of(lambda: transposed(zeros(32, COPIED), zeros(COPIED)[0])),
            "product_variance": listed([product_variance(width) for width in WIDTHS], "{:,.0f}"),
            "scores_variance": listed(
                [product_variance(width) / width for width in WIDTHS], "{:.1f}"
            ),
            "ranks": listed([float(head_rank(heads)) for heads in (1, 8)], "{:.0f}"),
            "added_to_embeddings": listed([added(name) for name in ("rope", "alibi")], "{:.0f}"),
            "emphasis": "the same ids" if same_ids(*EMPHASIS) else "other ids",
            "sine_falls": f"{100 * sine_falls():.0f}",
            "offset_ignored": f"{offset_ignored():.1f}",
            "ended_error": error_of(lambda: zeros(1, TABLE + 1) + zeros(TABLE)[0][: TABLE + 1]),
            "unsliced_error": error_of(lambda: zeros(1, LENGTH) + zeros(TABLE)[0]),
            "double_error": error_of(lambda: nn.Linear(DIM, DIM)(zeros(1, LENGTH).double())),
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


def zeros(*shape: int) -> Tensor:
    """Return vectors [*shape, DIM], or a table [1, rows, DIM] of `shape` rows."""
    return torch.zeros(*shape, DIM) if shape[1:] else torch.zeros(1, *shape, DIM)


def error_of(compute: Callable[[], Tensor]) -> str:
    """Return PyTorch's message if it refuses a computation, else ""."""
    try:
        compute()
    except RuntimeError as error:
        return str(error)
    return ""


def product_variance(width: int) -> float:
    """Return the variance of dot products of vectors with standard normal entries."""
    one, other = torch.randn(2, SAMPLES, width)
    return float((one * other).sum(1).var())


def head_rank(heads: int) -> int:
    """Return the rank of W_q^T W_k of one of several heads: of all scores that it can give."""
    config = schemes.config("none", heads=heads)
    rows = torch.split(MultiHeadAttention(config, 0).project_in.weight, config.dim)
    query, key = (matrix[: config.head_dim] for matrix in rows[:2])
    return int(torch.linalg.matrix_rank(query.T @ key))


def added(scheme: str) -> float:
    """Return the largest number that a scheme adds to embeddings."""
    encoder, ids = random_encoder(scheme), torch.arange(LENGTH)[None]
    return float((encoder(ids).hidden[0] - encoder.embedding(ids)).abs().max())


def same_ids(one: str, other: str) -> bool:
    """Return whether the shipped tokenizer reads two texts alike."""
    tokenizer = tokenizers.Tokenizer.from_file(str(VOCABULARY))
    return bool(tokenizer.encode(one).ids == tokenizer.encode(other).ids)


def sine_falls() -> float:
    """Return the share of steps from a position to the next at which the first sine falls."""
    sines = positional_encoding(STEPS + 1, DIM)[:, 0]
    return float((sines.diff() < 0).float().mean())


def offset_ignored() -> float:
    """Return the largest change of the scores of a query if its rotary offset is ignored.

    Its keys were rotated before, as in a cache: at positions 0 .. OFFSET - 1.
    """
    rope = schemes.positions("rope", dim=DIM, heads=1)
    assert isinstance(rope, Rope)
    query, keys = torch.randn(1, 1, 1, DIM), torch.randn(1, 1, OFFSET, DIM)
    cached = rope.rotate(keys, rope.prepare(torch.arange(OFFSET)[None]))
    right, wrong = (
        rope.rotate(query, rope.prepare(torch.tensor([[place]]))) @ cached.transpose(-1, -2)
        for place in (OFFSET, 0)
    )
    return float((right - wrong).abs().max() / math.sqrt(DIM))


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
