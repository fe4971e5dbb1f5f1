"""The two things the model learns at once: to guess a hidden token, and to find the text that answers another.

Finding alone does not need order: a bag of words does as well. Guessing a token of source code does.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from headlight_model.config import EncoderConfig
from headlight_model.encoder import Encoder

IGNORED = -100  # a label that asks for no guess


class MaskedTokenHead(nn.Module):
    """Guesses tokens from the first `dim` dimensions of their vectors, read with those of the embedding.

    Norm, then the head of Devlin et al. 2018: dense, GELU, norm, the transposed embedding plus a bias.
    """

    def __init__(self, config: EncoderConfig, dim: int) -> None:
        super().__init__()
        self.dim = dim
        self.norm_in = nn.LayerNorm(dim, eps=config.norm_eps)
        self.dense = nn.Linear(dim, dim)
        self.norm = nn.LayerNorm(dim, eps=config.norm_eps)
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))

    def forward(self, tokens: Tensor, embedding: Tensor) -> Tensor:
        """float [N, D] and the encoder's embedding [V, D] -> logits [N, V]."""
        hidden = self.norm(functional.gelu(self.dense(self.norm_in(tokens[:, : self.dim]))))
        return functional.linear(hidden, embedding[:, : self.dim], self.bias)


def masked_token_loss(
    encoder: Encoder, head: MaskedTokenHead, ids: Tensor, labels: Tensor, positions: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Cross-entropy in nats of the hidden tokens, and the share of them guessed right.

    Args:
        ids: int64 [B, S] without padding, some tokens of which are corrupted.
        labels: int64 [B, S], the true token where it is asked for, IGNORED elsewhere.
        positions: as in `Encoder.forward`.

    Returns:
        Two scalars: loss and accuracy.
    """
    asked = labels != IGNORED  # [B, S]
    vectors = encoder(ids, positions=positions).tokens[asked]  # [N, D]: the wide product below only for these
    logits = head(vectors, encoder.embedding.weight)  # [N, V]
    truth = labels[asked]
    return functional.cross_entropy(logits, truth), (logits.argmax(dim=-1) == truth).float().mean()


def contrastive_loss(queries: Tensor, documents: Tensor, same: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """Symmetric InfoNCE (van den Oord et al. 2018; Radford et al. 2021) over the pairs of a batch.

    Args:
        queries, documents: float [B, D] of unit length; row i of one belongs to row i of the other.
        same: bool [B, B]; True where a pair off the diagonal is no wrong answer; it is left out of the sum.
        temperature: divides the cosine.

    Returns:
        Two scalars: loss in nats, and the share of queries whose own document scores highest.
    """
    scores = queries @ documents.T / temperature  # [B, B]
    own = torch.eye(len(scores), dtype=torch.bool)
    scores = scores.masked_fill(same & ~own, -math.inf)
    truth = torch.arange(len(scores))
    loss = (functional.cross_entropy(scores, truth) + functional.cross_entropy(scores.T, truth)) / 2
    return loss, (scores.argmax(dim=-1) == truth).float().mean()
