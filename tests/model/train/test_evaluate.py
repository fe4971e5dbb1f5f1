from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer

from headlight_model.encoder import Encoder
from headlight_model.train import evaluate
from headlight_model.train.data.stored import Data, Pairs
from headlight_model.train.encoder_trainer import EncoderTrainer
from headlight_model.train.evaluate import masked_token_metrics, retrieval_metrics, shuffles
from headlight_model.train.recipe import QUICK, Stage


def test_shuffles_keep_the_ends_and_permute_the_rest() -> None:
    rows = shuffles(5, 12, np.random.default_rng(0))
    assert rows.dtype == torch.int64
    assert (rows[:, 0] == 0).all()
    assert (rows[:, -1] == 11).all()
    assert torch.equal(rows.sort(dim=1).values, torch.arange(12).expand(5, 12))
    assert not torch.equal(rows[0], rows[1])


def test_a_model_that_learnt_to_count_needs_order(
    counting_data: Data, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(steps=300, learning_rate=1e-2, pairs=1.0, source=3.0)
    recipe = dataclasses.replace(
        QUICK, stages=(stage,), warmup_steps=10, layers=2, embedding_pace=1.0, replaced_weight=1.0
    )
    monkeypatch.setattr(evaluate, "WINDOW_COUNT", 64)
    trainer = EncoderTrainer(recipe, "rope", counting_data, tokenizer, seed=0, origin={})
    for _ in range(recipe.steps):
        trainer.advance()
    trainer.parts.eval()
    figures = masked_token_metrics(trainer.encoder, trainer.head, counting_data.stream, seed=0)
    assert figures["masked_accuracy"] > 0.8
    assert figures["masked_accuracy_positions_shuffled"] < 0.5
    assert figures["masked_accuracy_positions_ablated"] < 0.5
    assert (
        abs(
            figures["masked_accuracy_positions_shuffled"]
            - figures["masked_accuracy_tokens_shuffled"]
        )
        < 0.1
    )


def test_retrieval_of_identical_texts_is_perfect() -> None:
    torch.manual_seed(0)
    encoder = Encoder(QUICK.encoder_config("rope", 100)).eval()
    rows = [[2, 10 + index, 3] for index in range(40)]
    assert retrieval_metrics(encoder, Pairs(rows, rows)) == {
        "retrieval_candidates": 40,
        "retrieval_mrr_at_10": 1.0,
        "retrieval_recall_at_10": 1.0,
    }
    rank = retrieval_metrics(encoder, Pairs(rows, rows[1:] + rows[:1]))["retrieval_mrr_at_10"]
    assert rank <= 0.5  # the own text always comes before the right one
