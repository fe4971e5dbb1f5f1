"""Training recipe of a shipped model, as one frozen value."""

from __future__ import annotations

import dataclasses
import math

from headlight_model.config import Dense, EncoderConfig
from headlight_model.positions.position_schemes import POSITIONS
from headlight_model.train.data.tokenizer import PAD_ID, VOCAB_SIZE


@dataclasses.dataclass(frozen=True)
class TaughtHead:
    """An attention head that is taught which keys to look at.

    After Strubell et al. 2018, "Linguistically-informed self-attention", 2.2.
    """

    role: str  # one of attention_roles.ROLES
    layer: int
    head: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Stage:
    """Steps under one schedule of the learning rate, and the weight of each loss in their sum."""

    steps: int
    learning_rate: float  # its peak
    words: float = 0.0  # pairs of texts, matched by their word vectors alone
    pairs: float = 0.0  # pairs of texts, matched by the encoder
    order: float = 0.0  # questions that only order tells apart
    source: float = 0.0  # hidden and replaced tokens of source code, and the taught heads
    near: float = 0.0  # vectors of texts held near their weighted word vectors
    teacher: float = 0.0  # vectors of texts, and their similarities, as of the teacher


@dataclasses.dataclass(frozen=True, kw_only=True)
class Recipe:
    """Everything that decides the weights except corpus, position scheme and seed.

    The work is counted in steps, never in time, so that a slower machine trains the same model.
    """

    # Whether the corpus holds the pinned packages beside the standard library.
    packages: bool = True
    # The first teaches the blocks order and syntax beside what the teacher knows, the second also
    # the pairs that no teacher reads: names and comments.
    stages: tuple[Stage, ...] = (
        Stage(steps=1400, learning_rate=2e-3, order=0.3, source=1.0, teacher=2.0),
        Stage(steps=1300, learning_rate=1e-3, pairs=0.5, order=0.3, source=0.5, teacher=2.0),
    )
    warmup_steps: int = 50  # of each stage
    # The embeddings learn at this share of the rate. At the full rate they forget, within minutes,
    # the vectors of rare words, which unknown packages are full of.
    embedding_pace: float = 0.1
    # Of matrices; vectors (norms, biases), the embeddings and the projection are left alone.
    weight_decay: float = 0.02
    gradient_norm: float = 1.0  # gradients are scaled down to it
    bfloat16: bool = True  # for the matrix products of the blocks

    # Before the stages: word vectors alone learn to match pairs of texts, without order. With a
    # teacher they start as its vectors of the vocabulary.
    word_steps: int = 800
    word_pairs: int = 512
    # Learning rate at the start, for vectors of unit length; falls linearly to 0.
    word_rate: float = 3e-3

    pairs: int = 128  # of texts a step; each has pairs - 1 wrong answers
    run: int = 8  # consecutive pairs of the corpus drawn together, mostly of one module
    drop_tokens: float = 0.2  # of the texts of pairs, so that no pair is learnt by a single word
    temperature: float = 0.05
    widths: tuple[int, ...] = (64, 128)  # leading dimensions that are usable as a shorter vector
    near_pairs: int = 48  # a step
    teacher_pairs: int = 160  # a step
    truth_share: float = 0.3  # of the right answer in what is learnt of the teacher's similarities
    teacher_cosine: float = 4.0  # weight of the vectors themselves beside their similarities
    # Put before a share of the questions that a teacher read without.
    forms: tuple[str, ...] = ("how to", "how do i", "how can i", "function to")
    form_share: float = 0.2
    order_triplets: int = 32  # a step
    # Tokens a window, drawn each step; short texts must work too.
    lengths: tuple[int, ...] = (128, 128, 64, 32)
    window_tokens: int = 3072  # a step
    # Shares of these tokens that are hidden (and asked for), replaced by others of the batch, and,
    # of brackets, replaced by another kind: to detect a wrong bracket, a model must find its
    # partner.
    hidden: float = 0.13
    replaced: float = 0.07
    replaced_brackets: float = 0.3
    replaced_weight: float = 8.0  # of detecting replaced tokens, relative to guessing hidden ones
    taught_heads: tuple[TaughtHead, ...] = (
        TaughtHead("previous", 0, 0),
        TaughtHead("next", 0, 1),
        TaughtHead("same identifier", 1, 0),
        TaughtHead("matching bracket", 2, 0),
        TaughtHead("call to arguments", 2, 1),
    )
    taught_weight: float = 0.3  # of each, relative to guessing hidden tokens
    sentence_length: int = 32  # tokens, longer ones are cut
    document_length: int = 80

    vocab_size: int = VOCAB_SIZE
    dim: int = 256
    guess_dim: int = 256  # of `dim`, from which hidden tokens are guessed
    heads: int = 8
    layers: int = 4
    ffn_dim: int = 256  # gated: as many weights as a plain network of 384 has
    dropout: float = 0.0  # the source is read about once, too rarely to be learnt by heart

    @property
    def steps(self) -> int:
        """Steps of all stages."""
        return self.end(len(self.stages))

    @property
    def taught(self) -> bool:
        """Whether a teacher is needed."""
        return any(stage.teacher for stage in self.stages)

    def untaught(self) -> Recipe:
        """Return the recipe without its teacher."""
        stages = tuple(dataclasses.replace(stage, teacher=0.0) for stage in self.stages)
        return dataclasses.replace(self, stages=stages)

    def end(self, stage: int) -> int:
        """Return the step at which a stage ends, 1 being the first."""
        return sum(each.steps for each in self.stages[:stage])

    def number(self, step: int) -> int:
        """Return the index of the stage that a 0-based step belongs to."""
        return sum(step >= self.end(number) for number in range(1, len(self.stages)))

    def rate(self, step: int) -> float:
        """Return the learning rate of a 0-based step.

        In each stage a linear warm-up, then half a cosine.
        """
        number = self.number(step)
        stage, place = self.stages[number], step - self.end(number)
        if place < self.warmup_steps:
            return stage.learning_rate * (place + 1) / self.warmup_steps
        done = (place - self.warmup_steps) / max(1, stage.steps - self.warmup_steps)
        return stage.learning_rate * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * done)))

    def encoder_config(self, positions: str, vocab_size: int) -> EncoderConfig:
        """Return the architecture. `vocab_size`: the actual size of the tokenizer."""
        scheme = POSITIONS[positions]
        # The places that training visits.
        seen = max(*self.lengths, self.sentence_length, self.document_length)
        return EncoderConfig(
            vocab_size=vocab_size,
            dim=self.dim,
            heads=self.heads,
            layers=self.layers,
            ffn_dim=self.ffn_dim,
            positions=positions,
            ffn="gated",
            activation="silu",
            # Lengths of token vectors say how much each matters to the vector of the text; a norm
            # would hide them.
            final_norm=False,
            # Multiplied, the embeddings would also learn sqrt(dim) times as fast and soon drown
            # what is added to them.
            scale_embeddings=not scheme.adds,
            dense=(Dense(width=self.dim),),
            dropout=self.dropout,
            embedding_dropout=self.dropout,
            trained_length=max(self.lengths),
            max_length=seen if scheme.needs_training else EncoderConfig.max_length,
            pad_id=PAD_ID,
        )


QUICK = Recipe(
    packages=False,
    stages=(
        Stage(steps=4, learning_rate=1e-3, words=1.0, order=0.3, source=1.0, near=8.0),
        Stage(steps=2, learning_rate=1e-3, pairs=1.0, order=0.1, source=0.3),
    ),
    warmup_steps=2,
    bfloat16=False,
    lengths=(32, 16),
    window_tokens=128,
    pairs=8,
    near_pairs=4,
    teacher_pairs=8,
    run=2,
    widths=(16,),
    order_triplets=2,
    taught_heads=(TaughtHead("matching bracket", 0, 0),),
    document_length=32,
    vocab_size=512,
    word_steps=3,
    word_pairs=8,
    dim=32,
    guess_dim=32,
    heads=4,
    layers=3,
    ffn_dim=64,
)
