"""How a shipped model is trained, as one frozen value."""

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

    steps: int = 3000
    warmup_steps: int = 200
    learning_rate: float = 2e-3  # at its peak; falls to a tenth along a cosine
    weight_decay: float = 0.02  # of matrices; vectors (norms, biases), the embeddings and the projection are left alone
    gradient_norm: float = 1.0  # gradients are scaled down to it

    word_steps: int = 300  # before those: word vectors alone learn to match pairs of texts, without order
    word_pairs: int = 256
    word_rate: float = 3e-3  # learning rate at the start, for vectors of unit length; falls linearly to 0

    lengths: tuple[int, ...] = (128, 128, 64, 32, 16)  # tokens a window, drawn each step; short texts must work too
    window_tokens: int = 1024  # a step of masked-token prediction
    retrieval_every: int = 8  # every eighth step matches pairs of texts instead
    pairs: int = 64  # of texts a retrieval step: each has 63 wrong answers
    drop_tokens: float = 0.1  # of the texts of a retrieval step, so that no pair is learnt by a single word
    sentence_length: int = 32  # tokens, longer ones are cut
    document_length: int = 80
    temperature: float = 0.08

    vocab_size: int = VOCAB_SIZE
    dim: int = 288
    guess_dim: int = 96  # of `dim`: what the guess of a hidden token is read from; the vector of a text, from the rest
    meaning_pace: float = 0.02  # the rest learns this many times as fast, or it would forget the word vectors
    heads: int = 6
    layers: int = 3
    ffn_dim: int = 512
    dropout: float = 0.0  # the source is read about once: too seldom to be learnt by heart

    def rate(self, step: int) -> float:
        """Learning rate of a step, 0-based: a linear warm-up, then half a cosine from the peak to a tenth of it."""
        if step < self.warmup_steps:
            return self.learning_rate * (step + 1) / self.warmup_steps
        done = (step - self.warmup_steps) / max(1, self.steps - self.warmup_steps)
        return self.learning_rate * (0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * done)))

    def encoder_config(self, positions: str, vocab_size: int) -> EncoderConfig:
        """The architecture. `vocab_size`: what the tokenizer really has."""
        scheme = POSITIONS[positions]
        seen = max(*self.lengths, self.sentence_length, self.document_length)  # the places that training visits
        return EncoderConfig(
            vocab_size=vocab_size,
            dim=self.dim,
            heads=self.heads,
            layers=self.layers,
            ffn_dim=self.ffn_dim,
            positions=positions,
            # Lengths of token vectors say how much each matters to the vector of the text; a norm would hide them.
            final_norm=False,
            # Multiplied, the embeddings would also learn sqrt(dim) times as fast and soon drown what is added to them.
            scale_embeddings=not scheme.adds,
            dense=(Dense(width=self.dim),),
            dropout=self.dropout,
            embedding_dropout=self.dropout,
            trained_length=max(self.lengths),
            max_length=seen if scheme.needs_training else EncoderConfig.max_length,
            pad_id=PAD_ID,
        )


QUICK = Recipe(
    steps=6,
    warmup_steps=2,
    lengths=(32, 16),
    window_tokens=128,
    retrieval_every=3,
    pairs=8,
    document_length=32,
    vocab_size=512,
    word_steps=3,
    word_pairs=8,
    dim=32,
    guess_dim=16,
    heads=4,
    ffn_dim=64,
)
