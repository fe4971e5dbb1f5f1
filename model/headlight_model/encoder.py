"""Encoder: token embeddings, segments, positions, N blocks, pooling, scores.

Start here to read the model.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from headlight_model.config import EncoderConfig
from headlight_model.layers.block import Block
from headlight_model.layers.dense import build_dense
from headlight_model.layers.norms import build_norm
from headlight_model.layers.pooling import POOLING, unit_length
from headlight_model.layers.terms import TermWeights, TokenWeights
from headlight_model.positions.position_schemes import Positions, build_positions


@dataclasses.dataclass(frozen=True)
class EncoderOutput:
    """Output of one forward pass: B texts, S tokens, D dimensions, H heads, L layers."""

    pooled: Tensor  # [B, config.pooled_dim] float
    # [B, S, D] float; after the last norm; zeros at padding, if there is no multi_vector_head
    tokens: Tensor
    # L + 1 of [B, S, D]: what the first block reads, then each block's output (before the last
    # norm). Blocks that add positions to their inputs do so afterwards.
    hidden: tuple[Tensor, ...]
    # L of [B, H, S, S], rows are queries; empty if the fused kernel was used.
    attention: tuple[Tensor, ...]
    scores: tuple[Tensor, ...]  # the same before the softmax; MASKED_SCORE at invisible keys
    # What each head gives, by its name in `Encoder.heads`.
    heads: dict[str, Tensor] = dataclasses.field(default_factory=dict)


# From token vectors [B, S, D], also those of padding, bool [B, S], those that pooling counts, and
# int64 ids [B, S].
Head = Callable[[Tensor, Tensor, Tensor], Tensor]


class View(NamedTuple):
    """Visible keys and positions for the layers of one kind, global or local."""

    visible: Tensor  # bool [B, 1, 1 or S, S]: which keys a query sees
    positions: Positions
    state: tuple[Tensor, ...]  # what the scheme's `prepare` returned


class Encoder(nn.Module):
    """A Transformer encoder (Vaswani et al. 2017) built from an EncoderConfig.

    Bidirectional unless the config says causal.
    """

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        width = config.embedding_width
        self.embedding = nn.Embedding(config.vocab_size, width)
        self.embedding_scale = math.sqrt(width) if config.scale_embeddings else 1.0
        self.segment_embedding = nn.Embedding(config.segments, width) if config.segments else None
        self.positions = build_positions(config)
        self.local_positions = self._build_local_positions()
        # Most post-norm models norm what the first block reads; pre-norm blocks leave the stream
        # un-normed, so a norm follows the last.
        normed = config.embedding_norm or (config.norm == "post" and config.first_norm)
        self.embedding_norm = build_norm(config, width) if normed else nn.Identity()
        self.embedding_project = (
            nn.Linear(width, config.dim) if width != config.dim else nn.Identity()
        )
        self.dropout = nn.Dropout(config.embedding_dropout)
        self.blocks = nn.ModuleList(Block(config, layer) for layer in range(config.layers))
        last = config.norm != "post" and config.final_norm
        self.final_norm = build_norm(config, config.dim) if last else nn.Identity()
        self.dense = build_dense(config, config.dense)
        head = config.score_head
        self.score_head = build_dense(config, () if head is None else head.layers)
        terms = config.term_head
        self.term_head = None if terms is None else TermWeights(config, terms)
        weights = config.token_weight_head
        self.token_weight_head = None if weights is None else TokenWeights(config, weights)
        vectors = config.multi_vector_head
        self.multi_vector_head = build_dense(config, () if vectors is None else vectors.layers)

    def _build_local_positions(self) -> Positions | None:
        """Return the scheme of local layers, or None if they use the global one."""
        config = self.config
        if not config.local_layers or not config.rope_local_theta:
            return None
        local = dataclasses.replace(config, rope_theta=config.rope_local_theta, rope_scaling=None)
        return None if local == config else build_positions(local)

    def forward(
        self,
        ids: Tensor,
        mask: Tensor | None = None,
        positions: Tensor | None = None,
        *,
        segments: Tensor | None = None,
        head_mask: Tensor | None = None,
        pool_mask: Tensor | None = None,
        fused: bool = True,
    ) -> EncoderOutput:
        """Encode a batch of token ids.

        Args:
            ids: int64 [B, S].
            mask: bool or int64 [B, S]; nonzero for a token, zero for padding. None: no padding.
            positions: int64 [B, S] or [1, S], each in 0 .. config.max_length-1; None: 0 .. S-1.
            segments: int64 [B, S], each in 0 .. config.segments-1; None: zeros. Must be None if
                config.segments is 0.
            head_mask: float [B, L, H], a factor on the output of each head: 0 removes the head.
                None: ones.
            pool_mask: bool or int64 [B, S]; zero for a token that pooling skips, like padding.
                None: ones.
            fused: False to compute attention in plain operations and return its weights.

        Raises:
            ValueError: S exceeds config.max_length, or segments are given to a model without them.
        """
        length = ids.shape[1]
        if not torch.compiler.is_compiling() and length > self.config.max_length:
            raise ValueError(
                f"{length} tokens are more than max_length {self.config.max_length}; shorten the "
                "text"
            )
        keep = torch.ones_like(ids, dtype=torch.bool) if mask is None else mask != 0  # [B, S]
        if positions is None:
            positions = torch.arange(length, device=ids.device).unsqueeze(0)  # [1, S]
        everywhere, nearby = self.views(keep, positions)
        x = self.embed(ids, segments)
        if not self.config.positions_every_layer:
            x = everywhere.positions.embed(x, everywhere.state)
        x = self.dropout(self.embedding_project(self.embedding_norm(x)))
        hidden, attention, scores = [x], [], []
        for layer, block in enumerate(self.blocks):
            of_layer = None if head_mask is None else head_mask[:, layer]  # [B, H]
            view = nearby if layer in self.config.local_layers else everywhere
            x, maps = block(x, *view, head_mask=of_layer, fused=fused)
            hidden.append(x)
            if maps is not None:
                attention.append(maps.weights)
                scores.append(maps.scores)
        every = self.final_norm(x)
        # Tokens that fill a query up are hidden, and have vectors.
        hides = self.config.multi_vector_head is None
        tokens = every * keep.unsqueeze(-1).to(x.dtype) if hides else every
        counted = keep if pool_mask is None else keep & (pool_mask != 0)
        return EncoderOutput(
            self.pool(tokens, counted),
            tokens,
            tuple(hidden),
            tuple(attention),
            tuple(scores),
            {name: head(every, counted, ids) for name, head in self.heads.items()},
        )

    def views(self, keep: Tensor, positions: Tensor) -> tuple[View, View]:
        """Return the views of global and of local layers.

        From bool [B, S] and int64 [B or 1, S].
        """
        state = self.positions.prepare(positions)
        everywhere = View(self.visible(keep), self.positions, state)
        if not self.config.local_layers:
            return everywhere, everywhere
        if self.local_positions is None:
            return everywhere, everywhere._replace(visible=self.visible(keep, self.config.window))
        local = self.local_positions
        return everywhere, View(
            self.visible(keep, self.config.window), local, local.prepare(positions)
        )

    def visible(self, keep: Tensor, window: int = 0) -> Tensor:
        """Return which keys each query sees: bool [B, S] -> [B, 1, 1 or S, S].

        All tokens of its text; if causal, those up to the query; with a window, only those near it.
        """
        visible = keep[:, None, None, :]
        places = torch.arange(keep.shape[1], device=keep.device)
        ahead = places - places[:, None]  # [S, S]: key - query
        if self.config.causal:
            visible = visible & (ahead <= 0)
        return visible & (ahead.abs() <= window) if window else visible

    def embed(self, ids: Tensor, segments: Tensor | None) -> Tensor:
        """Embed ids and segments, without positions: [B, S, embedding width].

        From int64 [B, S], and int64 [B, S] or None.
        """
        x: Tensor = self.embedding(ids) * self.embedding_scale
        if self.segment_embedding is not None:
            x = x + self.segment_embedding(torch.zeros_like(ids) if segments is None else segments)
        elif segments is not None:
            raise ValueError(
                "segments are given, but the model's config has segments 0; leave them out"
            )
        return x

    def pool(self, tokens: Tensor, counted: Tensor) -> Tensor:
        """Pool as the config says: [B, S, D], bool [B, S] -> [B, config.pooled_dim]."""
        pooled = POOLING[self.config.pooling](tokens, counted)
        for dense in self.dense:
            pooled = dense(pooled)
        return unit_length(pooled) if self.config.normalize else pooled

    @property
    def heads(self) -> dict[str, Head]:
        """The heads that the model has, by the name of what they give."""
        heads: dict[str, Head] = {}
        if self.config.score_head is not None:
            heads["logits"] = self.logits
        if self.config.term_head is not None:
            heads["terms"] = self.terms
        if self.token_weight_head is not None:
            heads["token_weights"] = self.token_weight_head.weights
        if self.config.multi_vector_head is not None:
            heads["multi_vector"] = self.multi_vector
        return heads

    def logits(self, tokens: Tensor, counted: Tensor, ids: Tensor) -> Tensor:
        """Return logits of n labels: [B, n], or [B, S, n] of each token.

        From [B, S, D], bool [B, S]; of a model with a head for scores.
        """
        head = self.config.score_head
        assert head is not None
        x = tokens if head.each_token else POOLING[self.config.pooling](tokens, counted)
        for dense in self.score_head:
            x = dense(x)
        return x

    def terms(self, tokens: Tensor, counted: Tensor, ids: Tensor) -> Tensor:
        """Return the weight of each term of the vocabulary: [B, V].

        From [B, S, D], bool [B, S]; of a model with a head for terms.
        """
        assert self.term_head is not None
        weights: Tensor = self.term_head(tokens, counted, self.embedding.weight)
        return weights

    def multi_vector(self, tokens: Tensor, counted: Tensor, ids: Tensor) -> Tensor:
        """Return a vector of each token, also of those that no query sees: [B, S, n].

        From [B, S, D]; of a model with a head for them.
        """
        head, x = self.config.multi_vector_head, tokens
        assert head is not None
        for dense in self.multi_vector_head:
            x = dense(x)
        return unit_length(x) if head.normalize else x
