"""Weights of the vocabulary's terms: what a sparse index takes."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from headlight_model.config import EncoderConfig, TermHead, TokenWeightHead
from headlight_model.layers.dense import build_dense

ROWS = 4096  # terms that are computed together: all at once take 4 bytes for each token and term


class TermWeights(nn.Module):
    """w[v] = max_t or sum_t log(1 + relu(z[t, v])), z being a masked language model's logits.

    Formal et al. 2021, "SPLADE v2", equations 1 and 6.
    """

    def __init__(self, config: EncoderConfig, head: TermHead) -> None:
        super().__init__()
        self.head = head
        self.layers = build_dense(config, head.layers)
        width = head.layers[-1].width if head.layers else config.dim
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))
        self.decoder = None if head.tied else nn.Parameter(torch.zeros(config.vocab_size, width))

    def forward(self, tokens: Tensor, counted: Tensor, embedding: Tensor) -> Tensor:
        """Return the weights: float [B, V], none below 0.

        Args:
            tokens: float [B, S, D].
            counted: bool [B, S], the tokens that count.
            embedding: float [V, width], for a decoder that is tied to it.
        """
        x, hidden = tokens, ~counted.unsqueeze(-1)
        for layer in self.layers:
            x = layer(x)
        decoder = embedding if self.decoder is None else self.decoder
        parts = []
        for rows, bias in zip(
            torch.split(decoder, ROWS), torch.split(self.bias, ROWS), strict=True
        ):
            z = functional.relu(functional.linear(x, rows, bias)).masked_fill(hidden, 0)
            # The logarithm is monotone, so it may follow the maximum.
            parts.append(
                self.logarithm(z.amax(1))
                if self.head.pooling == "max"
                else self.logarithm(z).sum(1)
            )
        return torch.cat(parts, -1)

    def logarithm(self, x: Tensor) -> Tensor:
        """[...] -> [...]."""
        for _ in range(self.head.logarithms):
            x = torch.log1p(x)
        return x


class TokenWeights(nn.Linear):
    """w[t] = relu(weight · x[t] + bias): of each token alone, which is a term by its id.

    Chen et al. 2024, "M3-Embedding", section 3.2. The weight of a term is the largest of its
    tokens.
    """

    def __init__(self, config: EncoderConfig, head: TokenWeightHead) -> None:
        super().__init__(config.dim, 1)
        self.skipped = head.skipped

    def weights(self, tokens: Tensor, counted: Tensor, ids: Tensor) -> Tensor:
        """Return the weights: float [B, S, 1], none below 0.

        Args:
            tokens: float [B, S, D].
            counted: bool [B, S], the tokens that count.
            ids: int64 [B, S].
        """
        for token in self.skipped:
            counted = counted & (ids != token)
        # A product of matrices would be in int8 there: three times the error for a single column.
        weights = functional.relu((tokens * self.weight[0]).sum(-1, keepdim=True) + self.bias)
        return weights * counted.unsqueeze(-1).to(tokens.dtype)
