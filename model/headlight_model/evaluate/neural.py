"""What the encoders find: the shipped ones, and what they are built from."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer

from headlight_model.checkpoint import TOKENIZER, load_checkpoint, load_tensors
from headlight_model.encoder import Encoder
from headlight_model.evaluate.ranking import Floats
from headlight_model.evaluate.task import Task
from headlight_model.train.data.batches import embed, encode, prepare
from headlight_model.train.data.corpus import Part
from headlight_model.train.data.functions import document_text
from headlight_model.train.data.words import bag_of_words, learn_words
from headlight_model.train.loop import HEAD_PREFIX, vocabulary
from headlight_model.train.objectives import MaskedTokenHead
from headlight_model.train.recipe import Recipe
from headlight_model.train.trainer import Trainer

Rows = list[list[int]]


class Shipped:
    """A checkpoint folder of the training, opened.

    Raises:
        FileNotFoundError, ValueError: as `load_checkpoint`.
    """

    def __init__(self, folder: Path) -> None:
        self.name = folder.name
        self.encoder = load_checkpoint(folder)
        self.facts = json.loads((folder / "training.json").read_text(encoding="utf-8"))
        self.recipe = Recipe(**self.facts["recipe"] | {"lengths": tuple(self.facts["recipe"]["lengths"])})
        self.head = MaskedTokenHead(self.encoder.config, self.recipe.guess_dim)
        self.head.load_state_dict(load_tensors(folder, HEAD_PREFIX))
        self.head.eval()
        self.tokenizer: Tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))

    def texts(self, task: Task) -> tuple[Rows, Rows]:
        """Token ids of the questions and of the candidates' documents."""
        documents = [document_text(function) for function in task.candidates]
        return (
            encode(self.tokenizer, task.questions, self.recipe.sentence_length),
            encode(self.tokenizer, documents, self.recipe.document_length),
        )

    def scores(self, task: Task) -> Floats:
        """Cosines [Q, C]."""
        return cosines(lambda rows: embed(self.encoder, rows)[0], *self.texts(task))

    def scores_without_order(self, task: Task) -> Floats:
        """The same with the tokens of every text shuffled, between [CLS] and [SEP]."""
        random = np.random.default_rng(0)
        queries, documents = (
            [[row[0], *random.permutation(row[1:-1]).tolist(), row[-1]] for row in rows] for rows in self.texts(task)
        )
        return cosines(lambda rows: embed(self.encoder, rows)[0], queries, documents)


class Beginnings:
    """What a shipped model was before its steps: weights as they start, and word vectors as they are learnt first.

    Made anew with the model's own recipe, seed and tokenizer from the corpus at hand.
    """

    def __init__(self, model: Shipped) -> None:
        self.model = model
        data = prepare(model.tokenizer, model.recipe, Part.TRAINING)
        pieces, seed = vocabulary(model.tokenizer), model.facts["seed"]
        self.trainer = Trainer(model.recipe, model.encoder.config.positions, data, pieces, seed, {})
        self.trainer.parts.eval()

    def untrained(self, *tasks: Task) -> list[Floats]:
        """Cosines [Q, C] for each task of the encoder with its starting weights."""
        return [cosines(lambda rows: embed(self.encoder, rows)[0], *self.model.texts(task)) for task in tasks]

    def learn_words(self) -> None:
        """Take the first part of the training; what was untrained before is not any more."""
        learn_words(self.encoder, self.trainer.data, self.model.recipe, self.trainer.seed)

    def words(self, *tasks: Task) -> list[Floats]:
        """Cosines [Q, C] for each task of mean word vectors."""
        return [cosines(lambda rows: bag_of_words(self.encoder, rows), *self.model.texts(task)) for task in tasks]

    @property
    def encoder(self) -> Encoder:
        """The encoder in its present state."""
        return self.trainer.encoder


@torch.inference_mode()
def cosines(vectors: Callable[[Rows], torch.Tensor], queries: Rows, documents: Rows) -> Floats:
    """Products [Q, C] of unit vectors."""
    scores: Floats = (vectors(queries) @ vectors(documents).T).double().numpy()
    return scores
