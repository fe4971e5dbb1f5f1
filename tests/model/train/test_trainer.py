from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch
from torch import Tensor

from headlight_model.positions.position_schemes import POSITIONS
from headlight_model.train.data.batches import Data
from headlight_model.train.recipe import QUICK, Recipe
from headlight_model.train.trainer import STATE, Trainer

PIECES = [f"piece{index}" for index in range(200)]
WITH_DROPOUT = dataclasses.replace(QUICK, dropout=0.1)


def trainer(
    data: Data, recipe: Recipe = WITH_DROPOUT, positions: str = "rope", seed: int = 0, digest: str = "x"
) -> Trainer:
    return Trainer(recipe, positions, data, PIECES, seed, {"corpus_sha256": digest})


def advance(trainer: Trainer, steps: int) -> Trainer:
    for _ in range(steps):
        trainer.advance()
    return trainer


def everything(trainer: Trainer) -> dict[str, Tensor]:
    """Weights and moments, by name."""
    state = {name: value.clone() for name, value in trainer.parts.state_dict().items()}
    for index, moments in trainer.optimizer.state_dict()["state"].items():
        state |= {f"{index}.{name}": value for name, value in moments.items()}
    return state


def assert_equal(first: Trainer, second: Trainer) -> None:
    expected, found = everything(first), everything(second)
    assert expected.keys() == found.keys()
    assert all(torch.equal(expected[name], found[name]) for name in expected)
    assert first.step == second.step


def test_a_resumed_run_equals_an_unbroken_one(counting_data: Data, tmp_path: Path) -> None:
    unbroken = advance(trainer(counting_data), 6)
    advance(trainer(counting_data), 3).save(tmp_path)
    torch.randn(5)  # whatever else happened to the global generator
    resumed = trainer(counting_data)
    resumed.resume(tmp_path)
    assert resumed.step == 3
    assert_equal(unbroken, advance(resumed, 3))


def test_equal_arguments_train_equal_models_and_seeds_matter(counting_data: Data) -> None:
    first = advance(trainer(counting_data), 2)
    assert_equal(first, advance(trainer(counting_data), 2))
    other = advance(trainer(counting_data, seed=1), 2)
    assert not torch.equal(first.encoder.embedding.weight, other.encoder.embedding.weight)


@pytest.mark.parametrize("positions", sorted(POSITIONS))
def test_both_losses_fall(counting_data: Data, positions: str) -> None:
    recipe = dataclasses.replace(QUICK, steps=60, warmup_steps=5, learning_rate=5e-3, layers=1, meaning_pace=1.0)
    learner = trainer(counting_data, recipe, positions)
    reports = [learner.advance() for _ in range(recipe.steps)]
    for objective in ("masked", "retrieval"):
        losses = [report.loss for report in reports if report.objective == objective]
        assert sum(losses[-5:]) < 0.8 * sum(losses[:5])


def test_every_third_step_of_the_quick_recipe_is_retrieval(counting_data: Data) -> None:
    learner = trainer(counting_data)
    assert [learner.advance().objective for _ in range(6)] == 2 * ["masked", "masked", "retrieval"]


def test_resuming_from_nothing_says_what_to_do(counting_data: Data, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="train without --resume first"):
        trainer(counting_data).resume(tmp_path)


@pytest.mark.parametrize(
    ("changed", "name"),
    [("corpus", "corpus_sha256"), ("seed", "seed"), ("positions", "positions"), ("recipe", "recipe")],
)
def test_resuming_another_run_is_refused(counting_data: Data, tmp_path: Path, changed: str, name: str) -> None:
    advance(trainer(counting_data), 1).save(tmp_path)
    other = trainer(
        counting_data,
        recipe=dataclasses.replace(WITH_DROPOUT, steps=7) if changed == "recipe" else WITH_DROPOUT,
        positions="sinusoidal" if changed == "positions" else "rope",
        seed=1 if changed == "seed" else 0,
        digest="y" if changed == "corpus" else "x",
    )
    with pytest.raises(ValueError, match=f"was saved with {name} "):
        other.resume(tmp_path)


def test_a_save_leaves_one_file(counting_data: Data, tmp_path: Path) -> None:
    learner = trainer(counting_data)
    for _ in range(2):
        advance(learner, 1).save(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [STATE]


def test_what_makes_the_vector_of_a_text_learns_slowly(counting_data: Data) -> None:
    recipe = dataclasses.replace(QUICK, word_steps=0, retrieval_every=2, warmup_steps=1, weight_decay=0.0)
    guess, rest = slice(0, recipe.guess_dim), slice(recipe.guess_dim, None)
    fast, slow = recipe.rate(0), recipe.rate(0) * recipe.meaning_pace
    learner = trainer(counting_data, recipe)
    before = everything(learner)
    after_guess = everything(advance(learner, 1))
    assert largest_move(before, after_guess, "encoder.embedding.weight", (slice(None), guess)) == pytest.approx(
        fast, 0.01
    )
    assert largest_move(before, after_guess, "encoder.embedding.weight", (slice(None), rest)) == pytest.approx(
        slow, 0.01
    )
    after_retrieval = everything(advance(learner, 1))
    down = "encoder.blocks.0.feed_forward.down.weight"
    assert 0 < largest_move(after_guess, after_retrieval, down, (rest,)) < 1.01 * slow
    assert 0 < largest_move(after_guess, after_retrieval, "encoder.dense.0.weight", (rest,)) < 1.01 * slow


def largest_move(before: dict[str, Tensor], after: dict[str, Tensor], name: str, part: tuple[slice, ...]) -> float:
    return float((after[name][part] - before[name][part]).abs().max())
