"""Position schemes of an encoder: one small class for each, chosen by name through POSITIONS."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional

from headlight_model.config import EncoderConfig
from headlight_model.masking import MASKED_SCORE
from headlight_model.positions.angles import Angles
from headlight_model.positions.relative import disentangled_buckets, relative_buckets
from headlight_model.positions.rope import rope_frequencies
from headlight_model.positions.sinusoidal import sinusoidal_angles, sinusoidal_rows


class Positions(nn.Module):
    """Base class of the position schemes; by itself it changes nothing.

    A scheme may act at three points: `embed`, `rotate` and `bias`.

    Attributes:
        adds: whether `embed` adds to the token embeddings, which must then be small enough not to
            drown it.
        tensors: number of tensors that `prepare` returns.
        needs_training: whether a position is meaningless until it was seen in training.
    """

    adds = False
    tensors = 0
    needs_training = False

    def prepare(self, positions: Tensor) -> tuple[Tensor, ...]:
        """Compute the state of a forward pass from int64 positions [B or 1, S].

        The methods below receive it.
        """
        return ()

    def embed(self, x: Tensor, state: tuple[Tensor, ...], layer: int = 0) -> Tensor:
        """Change the token embeddings, or the input of a block by its index: [B, S, D]."""
        return x

    def rotate(self, heads: Tensor, state: tuple[Tensor, ...]) -> Tensor:
        """Change queries or keys [B, H, S, d]."""
        return heads

    def bias(
        self, state: tuple[Tensor, ...], layer: int, query: Tensor, key: Tensor
    ) -> Tensor | None:
        """Return what is added to the attention scores: float, broadcastable to [B, H, S, S].

        None if nothing is added.

        Args:
            state: what `prepare` returned.
            layer: index of the block.
            query, key: float [B, H, S, d], as their product makes scores, which are divided by
                sqrt(d) before the bias is added.
        """
        return None


class Nowhere(Positions):
    """Scheme without positions, for ablation.

    A bidirectional encoder is then equivariant to permutations of its tokens.
    """

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()


class Sinusoidal(Positions):
    """Sinusoidal positions: adds the rows of `positional_encoding` (Vaswani et al. 2017, 3.5)."""

    adds = True
    tensors = 1

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.width = config.position_width
        self.angles = sinusoidal_angles(config.max_length, self.width, config.sinusoidal_base)

    def prepare(self, positions: Tensor) -> tuple[Tensor, ...]:
        return (sinusoidal_rows(self.angles, positions, self.width),)  # [B, S, D]

    def embed(self, x: Tensor, state: tuple[Tensor, ...], layer: int = 0) -> Tensor:
        return x + state[0].to(x.dtype)


class Learned(Positions):
    """Learned positions: adds a row of a trained table [max_length, D] (Gehring et al. 2017; BERT).

    There are no positions beyond its last row. If every layer adds positions, a row holds those of
    all layers side by side: [max_length, L D].
    """

    adds = True
    tensors = 1
    needs_training = True

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.width = config.position_width
        self.layers = config.layers if config.positions_every_layer else 1
        self.table = nn.Embedding(config.max_length, self.layers * self.width)

    def prepare(self, positions: Tensor) -> tuple[Tensor, ...]:
        return (self.table(positions),)  # [B, S, D] or [B, S, L D]

    def embed(self, x: Tensor, state: tuple[Tensor, ...], layer: int = 0) -> Tensor:
        if self.layers == 1:
            return x + state[0]
        return x + state[0][..., layer * self.width : (layer + 1) * self.width]


class Rope(Positions):
    """Rotary positions: rotates the pairs (i, i + r/2) of queries and keys by p * theta^(-2i/r).

    This is the half-split layout (Su et al. 2021).

    r is config.rope_width: the first r dimensions of a head are rotated, the rest stay. The score
    of a query and a key then depends on their distance only. Checkpoints that pair neighbours (2i,
    2i + 1) are converted by `headlight_model.positions.interleaved`. The frequencies, also those
    scaled to longer texts, come from `headlight_model.positions.rope`.
    """

    tensors = 2

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.width = config.rope_width
        self.offset = config.rope_offset
        scaling = config.rope_scaling
        self.amplitude = scaling.amplitude if scaling is not None else 1.0
        frequencies = rope_frequencies(self.width, config.rope_theta, scaling)
        self.angles = Angles(frequencies, config.max_length + self.offset)

    def prepare(self, positions: Tensor) -> tuple[Tensor, ...]:
        cos, sin = self.angles(positions + self.offset)
        if self.amplitude != 1:
            cos, sin = cos * self.amplitude, sin * self.amplitude
        return cos[:, None], sin[:, None]  # [B, 1, S, r/2], broadcast over heads

    def rotate(self, heads: Tensor, state: tuple[Tensor, ...]) -> Tensor:
        cos, sin = state[0].to(heads.dtype), state[1].to(heads.dtype)
        first, second = heads[..., : self.width].chunk(2, dim=-1)  # each [B, H, S, r/2]
        turned = (first * cos - second * sin, second * cos + first * sin)
        return torch.cat((*turned, heads[..., self.width :]), dim=-1)


def alibi_slopes(heads: int) -> Tensor:
    """Return m_h = 2^(-8h/H) for h in 1 .. H, float64 [H], if H is a power of two.

    After Press et al. 2022, section 3.

    For any other count: the slopes of the next smaller power of two, then every other one of the
    next larger, as in their code.
    """
    power = 1 << (heads.bit_length() - 1)
    slopes = [2.0 ** (-8 * h / power) for h in range(1, power + 1)]
    slopes += [2.0 ** (-8 * h / (2 * power)) for h in range(1, 2 * power, 2)]
    return torch.tensor(slopes[:heads], dtype=torch.float64)


class Alibi(Positions):
    """ALiBi: adds -m_h |i - j| to the score of query i and key j (Press et al. 2022).

    It has no table, so no maximum length.

    "symmetric": as written. Alone it cannot tell left from right: reversing the input reverses the
    output. "signed": heads 0, 2, ... see only the keys up to their query, heads 1, 3, ... only
    those from it on; two such heads share a slope. (Dropping the sign of the distance instead, m_h
    (j - i), would tell a bidirectional encoder nothing of distance: softmax cancels -m_h i, which
    is the same for every key. Under a causal mask it is the symmetric form.)
    """

    tensors = 1
    slopes: Tensor

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.signed = config.alibi == "signed"
        if self.signed:
            slopes = alibi_slopes((config.heads + 1) // 2).repeat_interleave(2)[: config.heads]
        else:
            slopes = alibi_slopes(config.heads)
        self.register_buffer("slopes", slopes.float()[:, None, None], persistent=False)  # [H, 1, 1]

    def prepare(self, positions: Tensor) -> tuple[Tensor, ...]:
        ahead = (positions[:, None, :] - positions[:, :, None]).unsqueeze(1)  # [B, 1, S, S]: j - i
        bias = -self.slopes * ahead.abs().to(self.slopes.dtype)  # [B, H, S, S]
        if self.signed:
            # -1: looks back; 1: ahead.
            direction = 2 * (torch.arange(self.slopes.shape[0], device=ahead.device) % 2) - 1
            bias = torch.where(ahead * direction[:, None, None] >= 0, bias, MASKED_SCORE)
        return (bias,)

    def bias(self, state: tuple[Tensor, ...], layer: int, query: Tensor, key: Tensor) -> Tensor:
        return state[0]


def _span(config: EncoderConfig) -> int:
    """Return the longest distance that a table of buckets needs; longer ones share its bucket."""
    return min(config.relative_distance, config.max_length - 1)


class Relative(Positions):
    """Relative positions: adds a trained bias for the distance j - i (Raffel et al. 2020, T5).

    Each head has a bias for each of a few buckets of distances; see `relative_buckets`. The last
    bucket has no end, so there is no maximum length.
    """

    tensors = 1
    buckets: Tensor

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.span = _span(config)
        self.shared = not config.relative_per_layer
        count = 1 if self.shared else config.layers
        self.tables = nn.Parameter(torch.randn(count, config.relative_buckets, config.heads))
        buckets = relative_buckets(config.relative_buckets, config.relative_distance, self.span)
        self.register_buffer("buckets", buckets, persistent=False)  # of -span .. span

    def prepare(self, positions: Tensor) -> tuple[Tensor, ...]:
        ahead = positions[:, None, :] - positions[:, :, None]  # [B, S, S]: j - i
        columns = ahead.clamp(-self.span, self.span) + self.span
        return (self._look_up(0, columns) if self.shared else columns,)

    def bias(self, state: tuple[Tensor, ...], layer: int, query: Tensor, key: Tensor) -> Tensor:
        return state[0] if self.shared else self._look_up(layer, state[0])

    def _look_up(self, table: int, columns: Tensor) -> Tensor:
        """Return the biases of a table: int64 [B, S, S] -> [B, H, S, S]."""
        biases = self.tables[table][self.buckets]  # [2 span + 1, H]
        return functional.embedding(columns, biases).permute(0, 3, 1, 2)


class Disentangled(Positions):
    """Disentangled attention: positions have keys and queries, as tokens do (He et al. 2021).

    This is DeBERTa. It adds (q_i K_r + k_j Q_r) / sqrt(d) to the score of query i and key j, where
    r is the bucket of the distance i - j; see `disentangled_buckets`. Each layer has its K and Q.
    The last bucket has no end, so there is no maximum length.
    """

    tensors = 1
    buckets: Tensor

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.span = _span(config)
        shape = (config.heads, config.head_dim, config.relative_buckets)
        # [H, d, buckets] for each layer
        self.keys, self.queries = (
            nn.ParameterList(nn.Parameter(torch.randn(shape)) for _ in range(config.layers))
            for _ in range(2)
        )
        buckets = disentangled_buckets(config.relative_buckets, config.relative_distance, self.span)
        self.register_buffer("buckets", buckets, persistent=False)  # of -span .. span

    def prepare(self, positions: Tensor) -> tuple[Tensor, ...]:
        behind = positions[:, :, None] - positions[:, None, :]  # [B, S, S]: i - j
        return (self.buckets[behind.clamp(-self.span, self.span) + self.span][:, None],)

    def bias(self, state: tuple[Tensor, ...], layer: int, query: Tensor, key: Tensor) -> Tensor:
        buckets = state[0].expand(*query.shape[:3], -1)  # [B, H, S, S]
        # Of each query and bucket, then of each key and bucket.
        of_keys = (query @ self.keys[layer]).gather(-1, buckets)
        of_queries = (key @ self.queries[layer]).gather(-1, buckets.transpose(-2, -1))
        summed: Tensor = of_keys + of_queries.transpose(-2, -1)
        return summed / math.sqrt(query.shape[-1])


class Composed(Positions):
    """Several schemes that all act, each at its points; biases are summed."""

    def __init__(self, schemes: Mapping[str, Positions]) -> None:
        super().__init__()
        self.schemes = nn.ModuleDict(schemes)
        self.adds = any(scheme.adds for scheme in schemes.values())
        self.needs_training = any(scheme.needs_training for scheme in schemes.values())
        self.tensors = sum(scheme.tensors for scheme in schemes.values())

    def _parts(self, state: tuple[Tensor, ...]) -> Iterator[tuple[Positions, tuple[Tensor, ...]]]:
        """Yield each scheme and its share of the state."""
        at = 0
        for scheme in self.schemes.values():
            assert isinstance(scheme, Positions)
            yield scheme, state[at : at + scheme.tensors]
            at += scheme.tensors

    def prepare(self, positions: Tensor) -> tuple[Tensor, ...]:
        return tuple(
            tensor for scheme, _ in self._parts(()) for tensor in scheme.prepare(positions)
        )

    def embed(self, x: Tensor, state: tuple[Tensor, ...], layer: int = 0) -> Tensor:
        for scheme, part in self._parts(state):
            x = scheme.embed(x, part, layer)
        return x

    def rotate(self, heads: Tensor, state: tuple[Tensor, ...]) -> Tensor:
        for scheme, part in self._parts(state):
            heads = scheme.rotate(heads, part)
        return heads

    def bias(
        self, state: tuple[Tensor, ...], layer: int, query: Tensor, key: Tensor
    ) -> Tensor | None:
        total: Tensor | None = None
        for scheme, part in self._parts(state):
            added = scheme.bias(part, layer, query, key)
            if added is not None:
                total = added if total is None else total + added
        return total


POSITIONS: dict[
    str,
    type[Nowhere]
    | type[Sinusoidal]
    | type[Learned]
    | type[Rope]
    | type[Alibi]
    | type[Relative]
    | type[Disentangled],
] = {
    "none": Nowhere,
    "sinusoidal": Sinusoidal,
    "learned": Learned,
    "rope": Rope,
    "alibi": Alibi,
    "relative": Relative,
    "disentangled": Disentangled,
}


def build_positions(config: EncoderConfig) -> Positions:
    """Return the scheme that config.positions names, or all of several.

    Raises:
        ValueError: there is no such scheme, or one is named twice; the message lists the schemes.
    """
    names = config.position_schemes
    if not POSITIONS.keys() >= set(names) or len(set(names)) < len(names):
        raise ValueError(
            f"positions is {config.positions!r}; choose one of {sorted(POSITIONS)}, or different "
            "ones joined by +"
        )
    schemes = {name: POSITIONS[name](config) for name in names}
    return Composed(schemes) if len(schemes) > 1 else schemes[config.positions]
