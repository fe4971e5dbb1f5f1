"""Small encoders and a small library.

Attention is sharp enough that an error in it shows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from headlight_model.config import EncoderConfig
from headlight_model.encoder import Encoder
from tests import library


def make_config(**changes: Any) -> EncoderConfig:
    defaults: dict[str, Any] = {
        "vocab_size": 50,
        "dim": 16,
        "heads": 2,
        "layers": 2,
        "ffn_dim": 32,
        "positions": "rope",
        "trained_length": 32,
        "max_length": 64,
    }
    return EncoderConfig(**defaults | changes)


def make_encoder(**changes: Any) -> Encoder:
    """Return an encoder in evaluation mode.

    Random Q and K give near uniform attention, so their weights are enlarged.
    """
    encoder = Encoder(make_config(**changes)).eval()
    with torch.no_grad():
        for name, value in encoder.named_parameters():
            if name.endswith("project_in.weight"):
                value[: 2 * encoder.config.dim] *= 4
    return encoder


@pytest.fixture
def config() -> Callable[..., EncoderConfig]:
    """Build a small config: `config(norm="post")`."""
    return make_config


@pytest.fixture
def encoder() -> Callable[..., Encoder]:
    """Build a small encoder: `encoder(positions="sinusoidal")`."""
    return make_encoder


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(20)


@pytest.fixture
def small_library() -> Iterator[None]:
    """Replace the corpus with a small part of the library."""
    with library.small_library():
        yield
