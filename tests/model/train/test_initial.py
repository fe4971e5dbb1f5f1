from __future__ import annotations

import dataclasses
import math

import pytest
import torch

from model.encoder import Encoder
from model.positions import POSITIONS
from model.train.initial import embedding_deviation, initialise_encoder, initialise_head
from model.train.objectives import MaskedTokenHead, masked_token_loss
from model.train.recipe import QUICK

VOCABULARY = 400


def fresh(positions: str) -> tuple[Encoder, MaskedTokenHead]:
    torch.manual_seed(0)
    encoder = Encoder(dataclasses.replace(QUICK, dim=64).encoder_config(positions, VOCABULARY)).eval()
    head = MaskedTokenHead(encoder.config)
    initialise_encoder(encoder)
    initialise_head(head, encoder)
    return encoder, head


@pytest.mark.parametrize("positions", sorted(POSITIONS))
def test_training_starts_from_a_nearly_uniform_guess(positions: str) -> None:
    encoder, head = fresh(positions)
    ids = torch.randint(0, VOCABULARY, (16, 32))
    loss, accuracy = masked_token_loss(encoder, head, ids, torch.randint(0, VOCABULARY, (16, 32)))
    assert loss.item() == pytest.approx(math.log(VOCABULARY) + 0.5, abs=0.3)  # logits of variance 1 cost half a nat
    assert accuracy.item() < 0.05


def test_tokens_enter_at_variance_one_beside_rotary_positions() -> None:
    encoder, _ = fresh("rope")
    assert encoder(torch.arange(VOCABULARY)[None, :32]).hidden[0].std().item() == pytest.approx(1.0, abs=0.05)


def test_tokens_do_not_drown_sinusoids() -> None:
    encoder, _ = fresh("sinusoidal")
    assert encoder.embedding_scale * embedding_deviation(encoder) < 0.5  # a sinusoid has 0.7


def test_a_sinusoidal_model_begins_by_looking_around_itself() -> None:
    encoder, _ = fresh("sinusoidal")
    ids = torch.full((1, 32), 7)  # equal tokens: only positions tell them apart
    for weights in encoder(ids, fused=False).attention:
        near = torch.stack([weights[0].diagonal(offset, 1, 2).mean() for offset in (0, 2, 4)])
        assert near[0] > near[1] > near[2]
        assert near[0] > 1.5 / 32  # well above uniform
