"""Retrieval by encoders: the shipped models, and the same before their training."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor, nn

from headlight_model.checkpoint import TOKENIZER, TRAINING, load_checkpoint, load_tensors
from headlight_model.evaluate.ranking import Floats
from headlight_model.evaluate.task import Task
from headlight_model.fields import build
from headlight_model.texts.functions import document_of_0_1, document_text
from headlight_model.train.data.batches import bag_of_words, embed, encode
from headlight_model.train.loop import HEAD_PREFIX, Job, begin
from headlight_model.train.objectives import MaskedTokenHead
from headlight_model.train.recipe import Recipe
from headlight_model.train.teacher import Teacher

Rows = list[list[int]]


class Shipped:
    """A trained model, loaded from its checkpoint folder.

    Raises:
        FileNotFoundError, ValueError: as `load_checkpoint`.
    """

    def __init__(self, folder: Path, name: str | None = None) -> None:
        self.name = name or folder.name
        self.encoder = load_checkpoint(folder)
        self.facts = json.loads((folder / TRAINING).read_text(encoding="utf-8"))
        recipe = self.facts["recipe"]
        self.sentence_length, self.document_length = (
            recipe["sentence_length"],
            recipe["document_length"],
        )
        self.head = MaskedTokenHead(self.encoder.config, recipe["guess_dim"])
        self.head.load_state_dict(load_tensors(folder, HEAD_PREFIX))
        self.head.eval()
        self.tokenizer: Tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
        # Models trained on the standard library alone used another document format.
        self.new_form = "packages" in recipe

    def texts(self, task: Task) -> tuple[Rows, Rows]:
        """Token ids of the questions and of the candidates' documents."""
        document = document_text if self.new_form else document_of_0_1
        documents = [document(function) for function in task.candidates]
        return (
            encode(self.tokenizer, task.questions, self.sentence_length),
            encode(self.tokenizer, documents, self.document_length),
        )

    def vectors(self, rows: Rows) -> Tensor:
        """Return the pooled vectors of rows of token ids: float32 [N, D]."""
        return embed(self.encoder, rows)[0]

    def text_vectors(self, texts: list[str]) -> Floats:
        """Return the vectors of some short texts: float [N, D]."""
        with torch.inference_mode():
            return (
                self.vectors(encode(self.tokenizer, texts, self.sentence_length)).double().numpy()
            )

    def shuffled(self, task: Task) -> tuple[Rows, Rows]:
        """Return the texts with their tokens shuffled, between [CLS] and [SEP]."""
        random = np.random.default_rng(0)
        queries, documents = (
            [[row[0], *random.permutation(row[1:-1]).tolist(), row[-1]] for row in rows]
            for rows in self.texts(task)
        )
        return queries, documents

    def scores(self, task: Task) -> Floats:
        """Return cosines [Q, C]."""
        return cosines(self.vectors, *self.texts(task))

    def scores_without_order(self, task: Task) -> Floats:
        """Return cosines [Q, C] with the tokens of every text shuffled."""
        return cosines(self.vectors, *self.shuffled(task))

    @contextlib.contextmanager
    def without_layer(self, layer: int) -> Iterator[None]:
        """Remove one layer within a `with` block."""
        blocks = self.encoder.blocks
        self.encoder.blocks = nn.ModuleList(
            block for place, block in enumerate(blocks) if place != layer
        )
        try:
            yield
        finally:
            self.encoder.blocks = blocks


def taught_scores(teacher: Teacher, task: Task) -> Floats:
    """Return cosines [Q, C] by a teacher."""
    documents = teacher.vectors([document_text(function) for function in task.candidates])
    scores: Floats = (teacher.vectors(task.questions) @ documents.T).astype(np.float64)
    return scores


class Beginnings:
    """A model before its training steps: starting weights, then pre-trained word vectors.

    Rebuilt with the model's own recipe and seed from the present corpus, without a teacher.
    """

    def __init__(self, model: Shipped, state: Path) -> None:
        self.name, self.recipe = model.name, recipe_of(model).untaught()
        positions, seed = model.encoder.config.positions, model.facts["seed"]
        self.trainer = begin(
            Job(positions=positions, out=state, recipe=self.recipe, seed=seed), state
        )
        self.trainer.parts.eval()

    def untrained(self, task: Task) -> Floats:
        """Return cosines [Q, C] of the encoder with its starting weights."""
        return cosines(lambda rows: embed(self.trainer.encoder, rows)[0], *self.texts(task))

    def learn_words(self) -> None:
        """Run the first part of the training; `untrained` is not valid afterwards."""
        self.trainer.learn_words()

    def words(self, task: Task, name_weight: int) -> Floats:
        """Return cosines [Q, C] of mean word vectors."""
        return cosines(
            lambda rows: bag_of_words(self.trainer.encoder, rows), *self.texts(task, name_weight)
        )

    def texts(self, task: Task, name_weight: int = 1) -> tuple[Rows, Rows]:
        """Return token ids of the questions and of the candidates' documents.

        The length limit grows with `name_weight`, so that repeated names truncate nothing.
        """
        documents = [document_text(function, name_weight) for function in task.candidates]
        tokenizer, recipe = self.trainer.tokenizer, self.recipe
        length = recipe.document_length * name_weight
        return encode(tokenizer, task.questions, recipe.sentence_length), encode(
            tokenizer, documents, length
        )


def recipe_of(model: Shipped) -> Recipe:
    """Return the training recipe of a model, or the present one if its format is older."""
    return build(Recipe, model.facts["recipe"]) if model.new_form else Recipe()


@torch.inference_mode()
def cosines(vectors: Callable[[Rows], torch.Tensor], queries: Rows, documents: Rows) -> Floats:
    """Return products [Q, C] of unit vectors."""
    scores: Floats = (vectors(queries) @ vectors(documents).T).double().numpy()
    return scores
