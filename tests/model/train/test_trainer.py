from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer
from torch import Tensor

from headlight.outputs.vector_forms import unit_length
from headlight_model.positions.position_schemes import POSITIONS
from headlight_model.train.data.stored import Data
from headlight_model.train.encoder_trainer import EncoderTrainer
from headlight_model.train.recipe import QUICK, Recipe, Stage
from headlight_model.train.teacher import PIECES, Lessons
from headlight_model.train.trainer import STATE

WITH_DROPOUT = dataclasses.replace(QUICK, dropout=0.1)
Make = Callable[..., EncoderTrainer]


@pytest.fixture
def trainer(counting_data: Data, tokenizer: Tokenizer) -> Make:
    """Build a trainer of the counting data."""

    def make(
        recipe: Recipe = WITH_DROPOUT,
        positions: str = "rope",
        seed: int = 0,
        digest: str = "x",
        lessons: Lessons | None = None,
    ) -> EncoderTrainer:
        origin = {"corpus_sha256": digest}
        return EncoderTrainer(recipe, positions, counting_data, tokenizer, seed, origin, lessons)

    return make


def advance(trainer: EncoderTrainer, steps: int) -> EncoderTrainer:
    for _ in range(steps):
        trainer.advance()
    return trainer


def everything(trainer: EncoderTrainer) -> dict[str, Tensor]:
    """Return weights and moments, by name."""
    state = {name: value.clone() for name, value in trainer.parts.state_dict().items()}
    for index, moments in trainer.optimizer.state_dict()["state"].items():
        state |= {f"{index}.{name}": value for name, value in moments.items()}
    return state


def assert_equal(first: EncoderTrainer, second: EncoderTrainer) -> None:
    expected, found = everything(first), everything(second)
    assert expected.keys() == found.keys()
    assert all(torch.equal(expected[name], found[name]) for name in expected)
    assert first.step == second.step


def test_a_resumed_run_equals_an_unbroken_one(trainer: Make, tmp_path: Path) -> None:
    unbroken = advance(trainer(), 6)
    advance(trainer(), 3).save(tmp_path)
    torch.randn(5)  # the global generator must not matter
    resumed = trainer()
    resumed.resume(tmp_path)
    assert resumed.step == 3
    assert_equal(unbroken, advance(resumed, 3))


def test_equal_arguments_train_equal_models_and_seeds_matter(trainer: Make) -> None:
    first = advance(trainer(), 2)
    assert_equal(first, advance(trainer(), 2))
    other = advance(trainer(seed=1), 2)
    assert not torch.equal(first.encoder.embedding.weight, other.encoder.embedding.weight)


@pytest.mark.parametrize("positions", sorted(POSITIONS))
def test_the_losses_decrease(trainer: Make, positions: str) -> None:
    stage = Stage(steps=100, learning_rate=5e-3, words=1.0, pairs=1.0, source=1.0)
    recipe = dataclasses.replace(QUICK, stages=(stage,), warmup_steps=5, layers=1)
    learner = trainer(recipe, positions)
    reports = [learner.advance() for _ in range(recipe.steps)]
    for objective in ("source", "pairs"):
        losses = [report.loss[objective] for report in reports]
        assert sum(losses[-5:]) < 0.8 * sum(losses[:5])


def test_vectors_become_those_of_the_teacher(trainer: Make, counting_data: Data) -> None:
    stage = Stage(steps=60, learning_rate=5e-3, teacher=1.0)
    random = np.random.default_rng(0)
    count = len(counting_data.pairs["summary"].queries)
    rows = {"summary.queries": count, "summary.documents": count, PIECES: 200}
    lessons = {
        name: unit_length(random.standard_normal((size, QUICK.dim), np.float32)).astype(np.float16)
        for name, size in rows.items()
    }
    recipe = dataclasses.replace(QUICK, stages=(stage,), warmup_steps=5, drop_tokens=0.0)
    learner = trainer(recipe, lessons=lessons)
    reports = [learner.advance() for _ in range(recipe.steps)]
    cosines = [report.accuracy["teacher"] for report in reports]
    assert sum(cosines[-5:]) > sum(cosines[:5]) + 5 * 0.2
    losses = [report.loss["teacher"] for report in reports]
    assert sum(losses[-5:]) < 0.8 * sum(losses[:5])


def test_each_stage_has_objectives_of_its_own(trainer: Make) -> None:
    stages = (
        Stage(steps=1, learning_rate=1e-3, words=1.0, source=0.5),
        Stage(steps=1, learning_rate=1e-3, pairs=1.0, order=0.1),
    )
    learner = trainer(dataclasses.replace(QUICK, stages=stages))
    reports = [learner.advance() for _ in range(2)]
    assert [set(report.loss) for report in reports] == [{"words", "source"}, {"pairs", "order"}]
    assert [set(report.accuracy) for report in reports] == [set(report.loss) for report in reports]


def test_embeddings_have_their_own_learning_rate(trainer: Make) -> None:
    recipe = dataclasses.replace(
        QUICK, word_steps=0, warmup_steps=1, weight_decay=0.0, embedding_pace=0.25
    )
    learner = trainer(recipe)
    before = everything(learner)
    after = everything(advance(learner, 1))
    rate = recipe.rate(0)
    assert largest_move(before, after, "encoder.dense.0.weight") == pytest.approx(rate, rel=0.01)
    assert largest_move(before, after, "encoder.embedding.weight") == pytest.approx(
        0.25 * rate, rel=0.01
    )


def largest_move(before: dict[str, Tensor], after: dict[str, Tensor], name: str) -> float:
    return float((after[name] - before[name]).abs().max())


def test_resuming_without_a_checkpoint_is_refused_with_the_remedy(
    trainer: Make, tmp_path: Path
) -> None:
    with pytest.raises(FileNotFoundError, match="train without --resume first"):
        trainer().resume(tmp_path)


@pytest.mark.parametrize(
    ("changed", "name"),
    [
        ("corpus", "corpus_sha256"),
        ("seed", "seed"),
        ("positions", "positions"),
        ("recipe", "recipe"),
    ],
)
def test_resuming_another_run_is_refused(
    trainer: Make, tmp_path: Path, changed: str, name: str
) -> None:
    advance(trainer(), 1).save(tmp_path)
    other = trainer(
        recipe=dataclasses.replace(WITH_DROPOUT, pairs=7) if changed == "recipe" else WITH_DROPOUT,
        positions="sinusoidal" if changed == "positions" else "rope",
        seed=1 if changed == "seed" else 0,
        digest="y" if changed == "corpus" else "x",
    )
    with pytest.raises(ValueError, match=f"was saved with {name} "):
        other.resume(tmp_path)


def test_a_save_leaves_one_file(trainer: Make, tmp_path: Path) -> None:
    learner = trainer()
    for _ in range(2):
        advance(learner, 1).save(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [STATE]
