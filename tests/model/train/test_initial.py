from __future__ import annotations

import dataclasses
import math

import pytest
import torch

from headlight_model.encoder import Encoder
from headlight_model.positions.position_schemes import POSITIONS
from headlight_model.train.data.words import bag_of_words
from headlight_model.train.initial import guess_deviation, initialise_encoder, initialise_head
from headlight_model.train.objectives import MaskedTokenHead, masked_token_loss
from headlight_model.train.recipe import QUICK

VOCABULARY = 400
RECIPE = dataclasses.replace(QUICK, dim=96, guess_dim=64)
GUESS = RECIPE.guess_dim


def fresh(positions: str) -> tuple[Encoder, MaskedTokenHead]:
    torch.manual_seed(0)
    encoder = Encoder(RECIPE.encoder_config(positions, VOCABULARY)).eval()
    head = MaskedTokenHead(encoder.config, GUESS)
    words = torch.nn.functional.normalize(torch.randn(VOCABULARY, RECIPE.dim - GUESS), dim=1)
    initialise_encoder(encoder, GUESS, words)
    initialise_head(head, encoder, GUESS)
    return encoder, head


@pytest.mark.parametrize("positions", sorted(POSITIONS))
def test_training_starts_from_a_nearly_uniform_guess(positions: str) -> None:
    encoder, head = fresh(positions)
    ids = torch.randint(0, VOCABULARY, (16, 32))
    loss, accuracy = masked_token_loss(encoder, head, ids, torch.randint(0, VOCABULARY, (16, 32)))
    assert loss.item() == pytest.approx(math.log(VOCABULARY) + 0.5, abs=0.3)  # logits of variance 1 cost half a nat
    assert accuracy.item() < 0.05


def test_tokens_do_not_drown_sinusoids() -> None:
    encoder, _ = fresh("sinusoidal")
    assert guess_deviation(encoder, GUESS) < 0.5  # a sinusoid has 0.7


@pytest.mark.parametrize("positions", sorted(POSITIONS))
def test_at_the_start_blocks_leave_the_vector_of_a_text_alone(positions: str) -> None:
    encoder, _ = fresh(positions)
    ids = torch.randint(1, VOCABULARY, (4, 32))
    out = encoder(ids)
    torch.testing.assert_close(out.hidden[-1][..., GUESS:], out.hidden[0][..., GUESS:])
    assert (out.hidden[-1][..., :GUESS] - out.hidden[0][..., :GUESS]).std() > 0.01
    torch.testing.assert_close(out.pooled, bag_of_words(encoder, ids.tolist()))


def test_the_vector_of_a_text_is_blind_to_what_sinusoids_vary_by() -> None:
    encoder, _ = fresh("sinusoidal")
    ids = torch.full((1, 32), 7)
    late = torch.arange(32)[None]  # the last of 32 places beside the first: another mean of sinusoids
    first, second = (encoder(ids[:, part], positions=late[:, part]).pooled for part in (slice(0, 8), slice(24, 32)))
    assert (first * second).sum() > 0.99


def test_a_sinusoidal_model_begins_by_looking_around_itself() -> None:
    encoder, _ = fresh("sinusoidal")
    ids = torch.full((1, 32), 7)  # equal tokens: only positions tell them apart
    for weights in encoder(ids, fused=False).attention:
        near = torch.stack([weights[0].diagonal(offset, 1, 2).mean() for offset in (0, 2, 4)])
        assert near[0] > near[1] > near[2]
        assert near[0] > 1.5 / 32  # well above uniform
