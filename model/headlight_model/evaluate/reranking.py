"""What a cross-encoder gains: the first candidates of another model, in the order of its scores."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer

from headlight_model.checkpoint import TOKENIZER, load_checkpoint
from headlight_model.evaluate.ranking import Floats
from headlight_model.evaluate.task import Task
from headlight_model.texts.functions import document_text
from headlight_model.train.data.batches import encode
from headlight_model.train.data.stored import Pairs
from headlight_model.train.recipe import Recipe
from headlight_model.train.reranker import pair_of, scores

FIRST = 50  # candidates that are reranked
AT_ONCE = 64  # questions


@torch.inference_mode()
def reranked(folder: Path, task: Task, first: Floats) -> Floats:
    """Return scores [Q, C] with the first candidates of each question in the order of a reranker.

    Args:
        folder: checkpoint of `headlight_model.train.reranker`.
        task: questions and candidates.
        first: scores [Q, C] of the model that finds these candidates; the others keep its order,
            behind them.
    """
    encoder, recipe = load_checkpoint(folder), Recipe()
    tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
    documents = [document_text(function) for function in task.candidates]
    pairs = Pairs(
        encode(tokenizer, task.questions, recipe.sentence_length),
        encode(tokenizer, documents, recipe.document_length),
    )
    reordered: Floats = first - first.max() - 1  # below 0
    chosen = np.argsort(-first, axis=1, kind="stable")[:, :FIRST]
    for begin in range(0, len(chosen), AT_ONCE):
        rows = chosen[begin : begin + AT_ONCE]
        texts = [
            pair_of(pairs, begin + at, column) for at, row in enumerate(rows) for column in row
        ]
        of_pairs = torch.sigmoid(scores(encoder, texts)[0].double()).numpy()
        np.put_along_axis(reordered[begin : begin + AT_ONCE], rows, of_pairs.reshape(rows.shape), 1)
    return reordered
