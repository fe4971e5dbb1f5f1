"""Architecture of an encoder as one frozen value.

It holds everything needed to rebuild the module before its weights are read.
"""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

from headlight_model.fields import build
from headlight_model.layers.pooling import POOLING
from headlight_model.positions.rope import RopeScaling

# Activations of the feed-forward networks; "gelu" is the exact erf form.
ACTIVATIONS = ("gelu", "gelu_tanh", "silu", "relu")
DENSE_ACTIVATIONS = (*ACTIVATIONS, "tanh", "sigmoid", "identity")
# "softmax" is over the labels; "sigmoid" is of each alone.
SCORE_ACTIVATIONS = ("identity", "sigmoid", "softmax")
TERM_POOLING = ("max", "sum")
# Accepted values of each string field.
CHOICES = {
    "norm": ("pre", "post", "sandwich"),
    "norm_type": ("layer", "rms"),
    "qk_norm": ("none", "head"),
    "ffn": ("plain", "gated"),
    "activation": ACTIVATIONS,
    "alibi": ("symmetric", "signed"),
    "pooling": tuple(POOLING),
}
# Minimum of each integer field.
LEAST = {
    **dict.fromkeys(
        ("vocab_size", "dim", "heads", "layers", "ffn_dim", "trained_length", "max_length"), 1
    ),
    "relative_buckets": 4,  # two for each direction: distance 0, and beyond
    **dict.fromkeys(
        ("segments", "rope_offset", "head_width", "kv_heads", "embedding_dim", "window"), 0
    ),
}
# The largest number that a field may hold. Tables and loops are made from these, and no model has
# more; the other sizes are those of stored tensors.
MOST = {"layers": 1024, "max_length": 1 << 20, "relative_distance": 1 << 20}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Dense:
    """Linear layer behind the encoder, and its activation."""

    width: int  # of the output
    bias: bool = False
    activation: str = "identity"
    norm: bool = False  # a norm of the encoder's kind follows

    def __post_init__(self) -> None:
        if self.width < 1:
            raise ValueError(f"dense.width is {self.width}; it must be at least 1")
        if self.activation not in DENSE_ACTIVATIONS:
            raise ValueError(
                f"dense.activation is {self.activation!r}; choose one of {DENSE_ACTIVATIONS}"
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScoreHead:
    """Layers that make scores: of a text from what pooling gives, or of each token."""

    layers: tuple[Dense, ...]  # the last gives logits, one for each label
    labels: tuple[str, ...]
    activation: str  # from logits to scores; the model itself returns logits
    each_token: bool = False

    def __post_init__(self) -> None:
        if self.activation not in SCORE_ACTIVATIONS:
            raise ValueError(
                f"score_head.activation is {self.activation!r}; choose one of {SCORE_ACTIVATIONS}"
            )
        if not self.layers or self.layers[-1].width != len(self.labels):
            raise ValueError(
                f"score_head has {len(self.labels)} labels; its last layer must be as wide"
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class TermHead:
    """A head that weights each term of the vocabulary (SPLADE, Formal et al. 2021)."""

    layers: tuple[Dense, ...]  # before the decoder, which has a row for each term
    tied: bool = True  # the decoder's weights are those of the embedding
    pooling: str = "max"  # over the tokens of a text: "max" or "sum"
    logarithms: int = 1  # log(1 + x), applied so often behind the ReLU

    def __post_init__(self) -> None:
        if self.pooling not in TERM_POOLING:
            raise ValueError(f"term_head.pooling is {self.pooling!r}; choose one of {TERM_POOLING}")
        if self.logarithms not in (1, 2):
            raise ValueError(f"term_head.logarithms is {self.logarithms}; choose 1 or 2")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TokenWeightHead:
    """A head that weights each token as a term of the vocabulary (BGE-M3).

    Chen et al. 2024, section 3.2.
    """

    skipped: tuple[int, ...] = ()  # ids that have no weight: special tokens


@dataclasses.dataclass(frozen=True, kw_only=True)
class MultiVectorHead:
    """Layers that make a vector of each token, to be matched one by one (ColBERT).

    Khattab & Zaharia 2020, section 3.2.
    """

    layers: tuple[Dense, ...]
    normalize: bool = True  # the vectors have unit length

    def __post_init__(self) -> None:
        if not self.layers:
            raise ValueError("multi_vector_head.layers is empty; it needs one layer or more")


@dataclasses.dataclass(frozen=True, kw_only=True)
class EncoderConfig:
    """Architecture of an encoder.

    Immutable. Every value is checked here except `positions`, which the encoder looks up.

    Raises:
        ValueError: the message names the field, its value and the accepted values.
    """

    vocab_size: int
    dim: int  # width of the residual stream
    heads: int  # dim must be a multiple of it, unless head_width is set
    layers: int
    ffn_dim: int  # customarily 4 * dim
    # A name in headlight_model.positions.position_schemes.POSITIONS, or several, joined by "+": all
    # of them act.
    positions: str
    # For positions that are added ("sinusoidal", "learned"): each block adds them to its input.
    # False: the embeddings have them.
    positions_every_layer: bool = False
    head_width: int = 0  # of each query, key and value; 0: dim / heads
    # Heads of keys and values, each shared by heads / kv_heads query heads (Ainslie et al. 2023);
    # 0: as many as heads.
    kv_heads: int = 0
    # Width of the embeddings, which a linear layer projects to dim; 0: dim.
    embedding_dim: int = 0
    # "pre": x + f(LN(x)), trains stably without a long warm-up; "post": LN(x + f(x)), as BERT;
    # "sandwich": x + LN(f(LN(x))), as Gemma 3 (Ding et al. 2021, CogView). Below, "pre" stands for
    # both norms before f.
    norm: str = "pre"
    # For norm "pre": the last block's output is normed. Without it, the lengths of token vectors
    # weight them in pooling.
    final_norm: bool = True
    norm_type: str = "layer"  # "layer": LayerNorm; "rms": RMSNorm
    norm_bias: bool = True  # LayerNorm has one; RMSNorm never has
    norm_eps: float = 1e-5
    # For norm "pre": embeddings are normed. For "post", first_norm decides instead: older files
    # have false here although their embeddings are normed.
    embedding_norm: bool = False
    # The first attention reads a normed input: for norm "pre" by the first block's own norm, for
    # "post" by the norm of the embeddings. False with "post": the blocks of Vaswani et al. 2017.
    first_norm: bool = True
    # "head": queries and keys are normed per head, before positions are applied.
    qk_norm: str = "none"
    attention_bias: bool = True  # the projections to Q, K and V have biases
    attention_out_bias: bool = True  # the output projection has one
    causal: bool = False  # a token sees itself and earlier tokens only
    window: int = 0  # in a local layer, a token sees those at most this many places away
    local_layers: tuple[int, ...] = ()  # indices of the local layers
    # "plain": down(act(up x)); "gated": down(act(gate x) * up x), as Shazeer 2020.
    ffn: str = "plain"
    activation: str = "gelu"
    ffn_bias: bool = True  # of up and gate
    ffn_out_bias: bool = True  # of down
    # Token types (first text, second text, ...) with an embedding each; 0: none.
    segments: int = 0
    scale_embeddings: bool = False  # multiply token embeddings by sqrt(dim), as Vaswani et al. 2017
    sinusoidal_base: float = 10000.0  # base of the wavelengths, for positions "sinusoidal"
    # Base of the rotary wavelengths; this and the other rope_ fields are for positions "rope".
    rope_theta: float = 10000.0
    rope_local_theta: float = 0.0  # the same for local layers; 0: as rope_theta
    rope_scaling: RopeScaling | None = (
        None  # for texts longer than in training; not used in local layers with their own theta
    )
    rope_values: bool = False  # values are rotated too (RoFormer's rotary_value)
    rope_fraction: float = 1.0  # share of each head's dimensions that is rotated
    rope_offset: int = 0  # position of the first token
    # For positions "alibi"; see headlight_model.positions.position_schemes.Alibi.
    alibi: str = "symmetric"
    # Rows of a table of biases, for positions "relative", or of keys and queries of positions, for
    # "disentangled"; see headlight_model.positions.relative.
    relative_buckets: int = 32
    relative_distance: int = 128  # tokens; distances from it on share a row
    relative_per_layer: bool = False  # each layer has its own table (umT5); false: one for all
    pooling: str = "mean"  # a name in headlight_model.layers.pooling.POOLING
    include_prompt: bool = True  # pooling counts the tokens of a prompt
    dense: tuple[Dense, ...] = ()  # applied to the pooled vector, in order
    normalize: bool = True  # pooled vectors have unit length
    score_head: ScoreHead | None = None  # reads what pooling gives, before the layers of `dense`
    term_head: TermHead | None = None  # reads token vectors
    token_weight_head: TokenWeightHead | None = None  # the same
    multi_vector_head: MultiVectorHead | None = None  # the same
    dropout: float = 0.0  # training only: on what each half of a block adds
    embedding_dropout: float = 0.0  # training only: on embeddings with positions and segments added
    trained_length: int = 128  # tokens; the longest sequence seen in training
    # Tokens; the longest accepted sequence, and the rows of a table of learned positions.
    max_length: int = 2048
    pad_id: int = 0

    def __post_init__(self) -> None:
        self._check_sizes()
        for name in ("norm_eps", "rope_theta", "sinusoidal_base"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be above 0 and finite")
        if not 0 <= self.rope_local_theta < math.inf:
            raise ValueError(
                f"rope_local_theta is {self.rope_local_theta}; it must be at least 0 and finite"
            )
        for name, choices in CHOICES.items():
            if getattr(self, name) not in choices:
                raise ValueError(f"{name} is {getattr(self, name)!r}; choose one of {choices}")
        for name in ("dropout", "embedding_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(
                    f"{name} is {getattr(self, name)}; it must be at least 0 and below 1"
                )
        if not 0 <= self.pad_id < self.vocab_size:
            raise ValueError(
                f"pad_id {self.pad_id} is not a token of a vocabulary of {self.vocab_size}"
            )
        skipped = () if self.token_weight_head is None else self.token_weight_head.skipped
        if beyond := [token for token in skipped if not 0 <= token < self.vocab_size]:
            raise ValueError(
                f"token_weight_head.skipped has {beyond[0]}, which is not a token of a vocabulary "
                f"of {self.vocab_size}"
            )
        if self.trained_length > self.max_length:
            raise ValueError(
                f"trained_length {self.trained_length} is beyond max_length {self.max_length}"
            )
        if self.norm == "post" and self.embedding_norm and not self.first_norm:
            raise ValueError(
                "embedding_norm is True and first_norm is False, but for norm 'post' both mean the "
                "norm of the embeddings; set first_norm to True, or embedding_norm to False"
            )
        self._check_heads()
        self._check_positions()

    def _check_sizes(self) -> None:
        for name, least in LEAST.items():
            if getattr(self, name) < least:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least {least}")
        for name, most in MOST.items():
            if getattr(self, name) > most:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at most {most}")

    def _check_heads(self) -> None:
        """Check that sizes fit each other and that local layers exist."""
        if not self.head_width and self.dim % self.heads:
            raise ValueError(
                f"dim {self.dim} is not a multiple of heads {self.heads}; each head needs the "
                "same width"
            )
        if self.kv_heads and self.heads % self.kv_heads:
            raise ValueError(
                f"heads {self.heads} is not a multiple of kv_heads {self.kv_heads}; each serves "
                "as many queries"
            )
        beyond = [layer for layer in self.local_layers if not 0 <= layer < self.layers]
        if beyond or len(set(self.local_layers)) != len(self.local_layers):
            raise ValueError(
                f"local_layers {self.local_layers} must be different layers of 0 .. "
                f"{self.layers - 1}"
            )
        if bool(self.local_layers) != bool(self.window):
            raise ValueError(
                f"window {self.window} and local_layers {self.local_layers} go together; "
                "set both or neither"
            )

    def _check_positions(self) -> None:
        """Check the fields that only one position scheme uses."""
        schemes = self.position_schemes
        if self.positions_every_layer and not {"sinusoidal", "learned"} & {*schemes}:
            raise ValueError(
                f"positions_every_layer is True, but positions {self.positions!r} are not added; "
                "choose sinusoidal or learned, or set it to False"
            )
        if "rope" in schemes and not math.isfinite(self.rope_fraction):
            raise ValueError(
                f"rope_fraction is {self.rope_fraction}; it must be above 0 and at most 1"
            )
        if "rope" in schemes and (self.rope_width % 2 or not 2 <= self.rope_width <= self.head_dim):
            have = (
                f"rope_fraction {self.rope_fraction} of a head of {self.head_dim} is "
                f"{self.rope_width} dimensions"
            )
            raise ValueError(
                f"{have}; rope turns pairs, so it must be an even number from 2 to {self.head_dim}"
            )
        if "alibi" in schemes and self.alibi == "signed" and self.causal:
            raise ValueError(
                "alibi 'signed' has heads that look ahead, which causal forbids; choose 'symmetric'"
            )
        least = self.relative_buckets // 4 + ("disentangled" in schemes)
        if {"relative", "disentangled"} & {*schemes} and self.relative_distance <= least:
            raise ValueError(
                f"relative_distance is {self.relative_distance}; it must be above a quarter of "
                f"relative_buckets {self.relative_buckets}: so many rows hold one distance each"
            )

    @property
    def position_schemes(self) -> tuple[str, ...]:
        """Names of the position schemes."""
        return tuple(self.positions.split("+"))

    @property
    def head_dim(self) -> int:
        """Width of each head."""
        return self.head_width or self.dim // self.heads

    @property
    def key_heads(self) -> int:
        """Number of key heads, and of value heads."""
        return self.kv_heads or self.heads

    @property
    def embedding_width(self) -> int:
        """Width of token embeddings, and of the segments that are added to them."""
        return self.embedding_dim or self.dim

    @property
    def position_width(self) -> int:
        """Width of added positions."""
        return self.dim if self.positions_every_layer else self.embedding_width

    @property
    def pooled_dim(self) -> int:
        """Width of the pooled vector."""
        return self.dense[-1].width if self.dense else self.dim

    @property
    def rope_width(self) -> int:
        """Number of dimensions of each head that are rotated."""
        return int(self.head_dim * self.rope_fraction)

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self), indent=2) + "\n"

    @classmethod
    def from_dict(cls, values: Any) -> EncoderConfig:
        """Build from parsed JSON.

        Raises:
            ValueError: an unknown or missing key, or a value of the wrong type; the message names
                it.
        """
        return build(cls, values)

    @classmethod
    def load(cls, path: Path) -> EncoderConfig:
        """Read a checkpoint's config.json.

        Raises:
            ValueError: the config is invalid; the message names the file and the key.
        """
        try:
            return cls.from_dict(json.loads(path.read_text(encoding="utf-8")))
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error
