"""Training of an encoder from random weights, by hidden tokens and pairs of texts."""

from __future__ import annotations

import numpy as np
import torch
from tokenizers import Tokenizer

from headlight_model.encoder import Encoder
from headlight_model.train.attention_roles import targets
from headlight_model.train.data.altered import altered_batch, other_brackets
from headlight_model.train.data.batches import (
    NEAR,
    ORDER,
    PAIRS,
    TEACHER,
    embed,
    encode,
    equal_texts,
    pair_batch,
)
from headlight_model.train.data.order import draw, fillers
from headlight_model.train.data.stored import Data
from headlight_model.train.data.tokenizer import vocabulary
from headlight_model.train.data.words import (
    distance_from_words,
    learn_words,
    lesson_batch,
    starting_vectors,
    words_loss,
)
from headlight_model.train.initial import initialise_encoder, initialise_head
from headlight_model.train.objectives import (
    MaskedTokenHead,
    ReplacedTokenHead,
    distillation_loss,
    nested_loss,
    order_loss,
    source_loss,
)
from headlight_model.train.recipe import Recipe
from headlight_model.train.teacher import PIECES, Lessons
from headlight_model.train.trainer import Result, StepReport, Trainer


class EncoderTrainer(Trainer):
    """Training of an encoder and of its heads for hidden and replaced tokens; see `Trainer`."""

    def __init__(
        self,
        recipe: Recipe,
        positions: str,
        data: Data,
        tokenizer: Tokenizer,
        seed: int,
        origin: dict[str, str],
        lessons: Lessons | None = None,
    ) -> None:
        torch.manual_seed(seed)
        self.pieces = pieces = vocabulary(tokenizer)
        self.lessons = lessons
        self.fillers = fillers(pieces)
        encoder = Encoder(recipe.encoder_config(positions, len(pieces)))
        taught = None if lessons is None else torch.from_numpy(lessons[PIECES]).float()
        initialise_encoder(encoder, starting_vectors(pieces, data, recipe.dim, taught))
        self.forms = [[*row[1:-1]] for row in encode(tokenizer, recipe.forms, 16)]
        self.head = MaskedTokenHead(encoder.config, recipe.guess_dim)
        initialise_head(self.head, encoder)
        self.replaced_head = ReplacedTokenHead(encoder.config)
        self.other_brackets = other_brackets(pieces)
        heads = {"mlm_head": self.head, "replaced_head": self.replaced_head}
        super().__init__(encoder, heads, recipe, data, tokenizer, seed, origin)

    def learn_words(self) -> None:
        """Train the word vectors; `advance` does so before the first step."""
        learn_words(self.encoder, self.data, self.recipe, self.seed, self.lessons)

    def advance(self) -> StepReport:
        if self.step == 0:
            self.learn_words()
        return super().advance()

    def objectives(self) -> dict[str, float]:
        stage = self.recipe.stages[self.recipe.number(self.step)]
        names = ("words", "pairs", "order", "source", "near", "teacher")
        weights = {name: getattr(stage, name) for name in names}
        return {name: weight for name, weight in weights.items() if weight}

    def source(self) -> Result:
        """Guess the hidden tokens of this step's windows, and find the replaced ones."""
        recipe = self.recipe
        batch = altered_batch(self.data, recipe, self.other_brackets, self.seed, self.step)
        loss, accuracy = source_loss(
            self.encoder,
            self.head,
            self.replaced_head,
            batch,
            recipe,
            targets(batch.original, self.pieces),
        )
        return Result(loss, accuracy, batch.ids.numel())

    def words(self) -> Result:
        """Match this step's pairs of texts by their word vectors."""
        return Result(*words_loss(self.encoder, self.data, self.recipe, self.seed, self.step), 0)

    def pairs(self) -> Result:
        """Match this step's pairs of texts."""
        recipe = self.recipe
        random = np.random.default_rng([self.seed, PAIRS, self.step])
        queries, documents = pair_batch(
            self.data, recipe.pairs, random, recipe.drop_tokens, recipe.run
        )
        (query_vectors, query_tokens), (document_vectors, document_tokens) = (
            embed(self.encoder, rows, bfloat16=recipe.bfloat16) for rows in (queries, documents)
        )
        same = equal_texts(queries, documents)
        loss, accuracy = nested_loss(
            query_vectors, document_vectors, same, recipe.temperature, recipe.widths
        )
        return Result(loss, accuracy, query_tokens + document_tokens)

    def teacher(self) -> Result:
        """Give this step's pairs of texts the vectors and similarities that the teacher gives."""
        recipe = self.recipe
        assert self.lessons is not None  # Job
        random = np.random.default_rng([self.seed, TEACHER, self.step])
        queries, documents, taught = lesson_batch(
            self.data, self.lessons, recipe.teacher_pairs, random, recipe
        )
        same = equal_texts(queries, documents)
        queries = self.with_forms(queries, random)
        (query_vectors, query_tokens), (document_vectors, document_tokens) = (
            embed(self.encoder, rows, bfloat16=recipe.bfloat16) for rows in (queries, documents)
        )
        loss, cosine = distillation_loss((query_vectors, document_vectors), taught, same, recipe)
        return Result(loss, cosine, query_tokens + document_tokens)

    def with_forms(self, rows: list[list[int]], random: np.random.Generator) -> list[list[int]]:
        """Return questions, a share of which begins like "how to"."""
        chosen = random.random(len(rows)) < self.recipe.form_share
        numbers = random.integers(max(1, len(self.forms)), size=len(rows))
        return [
            [row[0], *self.forms[number], *row[1:]] if begins and self.forms else row
            for row, begins, number in zip(rows, chosen, numbers, strict=True)
        ]

    def order(self) -> Result:
        """Choose between answers that only order tells apart."""
        recipe = self.recipe
        random = np.random.default_rng([self.seed, ORDER, self.step])
        drawn = draw(random, recipe.order_triplets, self.fillers)
        questions = [text for each in drawn for text in (each.question, each.other_question)]
        answers = [text for each in drawn for text in (each.right, each.wrong)]
        rows = encode(self.tokenizer, questions + answers, recipe.sentence_length)
        vectors, tokens = embed(self.encoder, rows, bfloat16=recipe.bfloat16)
        of_questions, of_answers = vectors.view(2, recipe.order_triplets, 2, -1)
        loss, accuracy = order_loss(of_questions, of_answers, recipe.temperature)
        return Result(loss, accuracy, tokens)

    def near(self) -> Result:
        """Hold vectors of texts near those of their words."""
        recipe = self.recipe
        random = np.random.default_rng([self.seed, NEAR, self.step])
        for_near = pair_batch(self.data, recipe.near_pairs, random)
        total, cosine, tokens = torch.zeros(()), torch.zeros(()), 0
        for rows in for_near:
            loss, near, computed = distance_from_words(
                self.encoder, rows, self.data.name_marks, bfloat16=recipe.bfloat16
            )
            total, cosine, tokens = total + loss / 2, cosine + near / 2, tokens + computed
        return Result(total, cosine, tokens)
