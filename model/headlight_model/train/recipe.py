"""Training recipe of a shipped model, as one frozen value."""

from __future__ import annotations

import dataclasses
import math

from headlight_model.config import Dense, EncoderConfig
from headlight_model.positions.position_schemes import POSITIONS
from headlight_model.train.data.tokenizer import PAD_ID, VOCAB_SIZE


@dataclasses.dataclass(frozen=True, kw_only=True)
class Recipe:
    """Everything beside the corpus, the scheme of positions and the seed that decides the weights.

    The work is counted in steps, never in time, so that a slower machine trains the same model.
    """

    # The pinned packages belong to the corpus, not the standard library alone.
    packages: bool = True
    stages: tuple[int, ...] = (250, 1500, 1500, 1500)  # steps of each: at most an hour on two cores
    warmup_steps: int = 50  # of each stage
    # At its peak in the first stage; falls to a twentieth along a cosine.
    learning_rate: float = 5e-4
    later_peak: float = 0.8  # of each stage, times that of the stage before
    embedding_pace: float = 2.0  # embeddings learn this many times as fast as the blocks
    # Of matrices; vectors (norms, biases), the embeddings and the projection are left alone.
    weight_decay: float = 0.02
    gradient_norm: float = 1.0  # gradients are scaled down to it
    bfloat16: bool = True  # for the matrix products of the blocks

    # Before those: word vectors alone learn to match pairs of texts, without order.
    word_steps: int = 600
    word_pairs: int = 512
    # Learning rate at the start, for vectors of unit length; falls linearly to 0.
    word_rate: float = 3e-3

    # Every step sums three losses: pairs of texts, questions that only order tells apart, hidden
    # tokens.
    pairs: int = 256  # of texts a step: each has so many wrong answers, less one
    run: int = 8  # so many pairs are neighbours in the corpus, mostly of one module
    drop_tokens: float = 0.1  # of the texts of pairs, so that no pair is learnt by a single word
    temperature: float = 0.05
    widths: tuple[int, ...] = (64, 128)  # first dimensions that make a vector of their own
    order_triplets: int = 32  # a step
    order_weight: float = 0.1
    # Tokens a window, drawn each step; short texts must work too.
    lengths: tuple[int, ...] = (128, 128, 64, 32, 16)
    window_tokens: int = 3072  # a step
    masked_weight: float = 1.0
    sentence_length: int = 32  # tokens, longer ones are cut
    document_length: int = 80

    vocab_size: int = VOCAB_SIZE
    dim: int = 256
    guess_dim: int = 256  # of `dim`: what the guess of a hidden token is read from
    heads: int = 8
    layers: int = 4
    ffn_dim: int = 256  # gated: as many weights as a plain network of 384 has
    dropout: float = 0.0  # the source is read about once: too seldom to be learnt by heart

    @property
    def steps(self) -> int:
        """Steps of all stages."""
        return sum(self.stages)

    def end(self, stage: int) -> int:
        """The step at which a stage ends, 1 being the first."""
        return sum(self.stages[:stage])

    def rate(self, step: int) -> float:
        """Learning rate of a step, 0-based: in each stage a linear warm-up, then half a cosine."""
        stage = next(
            (n for n in range(len(self.stages)) if step < self.end(n + 1)), len(self.stages) - 1
        )
        place, peak = step - self.end(stage), self.learning_rate * self.later_peak**stage
        if place < self.warmup_steps:
            return peak * (place + 1) / self.warmup_steps
        done = (place - self.warmup_steps) / max(1, self.stages[stage] - self.warmup_steps)
        return peak * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * done)))

    def encoder_config(self, positions: str, vocab_size: int) -> EncoderConfig:
        """The architecture. `vocab_size`: what the tokenizer really has."""
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
    stages=(4, 2),
    warmup_steps=2,
    bfloat16=False,
    lengths=(32, 16),
    window_tokens=128,
    pairs=8,
    run=2,
    widths=(16,),
    order_triplets=2,
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
