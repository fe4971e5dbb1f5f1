from __future__ import annotations

import pytest

from headlight_model.encoder import Encoder
from headlight_model.positions.position_schemes import POSITIONS
from headlight_model.train.objectives import MaskedTokenHead
from headlight_model.train.recipe import QUICK, Recipe, Stage


def test_the_learning_rate_rises_and_falls_in_each_stage() -> None:
    stages = (Stage(steps=100, learning_rate=1.0), Stage(steps=50, learning_rate=0.5))
    recipe = Recipe(stages=stages, warmup_steps=10)
    rates = [recipe.rate(step) for step in range(151)]
    assert rates[0] == pytest.approx(0.1)
    assert rates[:11] == sorted(rates[:11])
    assert max(rates) == rates[10] == pytest.approx(1.0)
    assert rates[10:100] == sorted(rates[10:100], reverse=True)
    assert rates[99] == pytest.approx(0.05, abs=0.01)
    assert max(rates[100:]) == pytest.approx(0.5)
    assert rates[150] == pytest.approx(0.025)
    assert (recipe.steps, recipe.end(1), recipe.end(2)) == (150, 100, 150)


@pytest.mark.parametrize("positions", sorted(POSITIONS))
def test_a_shipped_model_is_small_enough_for_the_repository(positions: str) -> None:
    recipe = Recipe()
    config = recipe.encoder_config(positions, recipe.vocab_size)
    head = MaskedTokenHead(config, recipe.guess_dim)
    weights = sum(
        weight.numel() for part in (Encoder(config), head) for weight in part.parameters()
    )
    assert 2 * weights < 7.8e6  # bytes as float16; the vocabulary has some 0.15e6
    assert 4 <= config.layers <= 6
    assert config.trained_length == 128
    assert recipe.window_tokens % max(recipe.lengths) == 0


def test_positions_beyond_those_trained_are_not_accepted() -> None:
    assert Recipe().encoder_config("learned", 500).max_length == 128
    assert Recipe().encoder_config("alibi", 500).max_length == 2048
    assert QUICK.encoder_config("learned", 500).max_length == 32
