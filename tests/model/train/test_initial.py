from __future__ import annotations

import dataclasses
import math

import pytest
import torch

from headlight_model.encoder import Encoder
from headlight_model.positions.position_schemes import POSITIONS
from headlight_model.train.data.batches import bag_of_words
from headlight_model.train.initial import initialise_encoder, initialise_head
from headlight_model.train.objectives import MaskedTokenHead, masked_token_loss
from headlight_model.train.recipe import QUICK

VOCABULARY = 400
RECIPE = dataclasses.replace(QUICK, dim=96, guess_dim=96)


def fresh(positions: str) -> tuple[Encoder, MaskedTokenHead]:
    torch.manual_seed(0)
    encoder = Encoder(RECIPE.encoder_config(positions, VOCABULARY)).eval()
    head = MaskedTokenHead(encoder.config, RECIPE.guess_dim)
    initialise_encoder(
        encoder, torch.nn.functional.normalize(torch.randn(VOCABULARY, RECIPE.dim), dim=1)
    )
    initialise_head(head, encoder)
    return encoder, head


@pytest.mark.parametrize("positions", sorted(POSITIONS))
def test_training_starts_from_a_nearly_uniform_guess(positions: str) -> None:
    encoder, head = fresh(positions)
    ids = torch.randint(0, VOCABULARY, (16, 32))
    loss, accuracy = masked_token_loss(encoder, head, ids, torch.randint(0, VOCABULARY, (16, 32)))
    # Logits of variance 1 cost half a nat.
    assert loss.item() == pytest.approx(math.log(VOCABULARY) + 0.5, abs=0.3)
    assert accuracy.item() < 0.05


@pytest.mark.parametrize("positions", sorted(POSITIONS))
def test_the_initial_vector_of_a_text_is_nearly_that_of_its_words(positions: str) -> None:
    encoder, _ = fresh(positions)
    ids = torch.randint(1, VOCABULARY, (4, 32))
    assert (encoder(ids).pooled * bag_of_words(encoder, ids.tolist())).sum(dim=1).min() > 0.9


def test_the_initial_vector_of_a_text_ignores_sinusoidal_positions() -> None:
    encoder, _ = fresh("sinusoidal")
    ids = torch.full((1, 32), 7)
    # The last of 32 positions against the first: another mean of sinusoids.
    late = torch.arange(32)[None]
    first, second = (
        encoder(ids[:, part], positions=late[:, part]).pooled
        for part in (slice(0, 8), slice(24, 32))
    )
    assert (first * second).sum() > 0.99


def test_an_initial_sinusoidal_model_attends_to_neighbours() -> None:
    encoder, _ = fresh("sinusoidal")
    ids = torch.full((1, 32), 7)  # equal tokens: only positions distinguish them
    for weights in encoder(ids, fused=False).attention:
        near = torch.stack([weights[0].diagonal(offset, 1, 2).mean() for offset in (0, 2, 4)])
        assert near[0] > near[1] > near[2]
        assert near[0] > 1.5 / 32  # well above uniform
