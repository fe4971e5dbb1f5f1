from __future__ import annotations

import pytest

from headlight_model.encoder import Encoder
from headlight_model.positions.position_schemes import POSITIONS
from headlight_model.train.recipe import QUICK, Recipe


def test_the_rate_rises_and_then_falls_to_a_tenth() -> None:
    recipe = Recipe(steps=100, warmup_steps=10, learning_rate=1.0)
    rates = [recipe.rate(step) for step in range(101)]
    assert rates[0] == pytest.approx(0.1)
    assert rates[:11] == sorted(rates[:11])
    assert max(rates) == rates[10] == pytest.approx(1.0)
    assert rates[10:] == sorted(rates[10:], reverse=True)
    assert rates[100] == pytest.approx(0.1)


@pytest.mark.parametrize("positions", sorted(POSITIONS))
def test_a_shipped_model_fits_the_repository(positions: str) -> None:
    recipe = Recipe()
    config = recipe.encoder_config(positions, recipe.vocab_size)
    weights = sum(weight.numel() for weight in Encoder(config).parameters())
    assert 2 * weights < 8e6  # bytes as float16
    assert config.trained_length == 128
    assert recipe.window_tokens % max(recipe.lengths) == 0


def test_positions_that_training_never_saw_are_not_accepted() -> None:
    assert Recipe().encoder_config("learned", 500).max_length == 128
    assert Recipe().encoder_config("alibi", 500).max_length == 2048
    assert QUICK.encoder_config("learned", 500).max_length == 32
