"""What an encoder is, as one frozen value: everything needed to rebuild the module before its weights are read."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any, get_type_hints

# The words that a field may hold.
CHOICES = {
    "norm": ("pre", "post"),
    "norm_type": ("layer", "rms"),
    "ffn": ("plain", "gated"),
    "activation": ("gelu", "silu"),
    "alibi": ("symmetric", "signed"),
    "pooling": ("mean", "cls", "last"),
}
# The smallest number that a field may hold.
LEAST = {
    **dict.fromkeys(("vocab_size", "dim", "heads", "layers", "ffn_dim", "trained_length", "max_length"), 1),
    **dict.fromkeys(("segments", "rope_offset"), 0),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class EncoderConfig:
    """Architecture of an encoder. Immutable; every value but `positions`, which the encoder looks up, is checked here.

    Raises:
        ValueError: naming the field, the value and what would be accepted.
    """

    vocab_size: int
    dim: int  # width of the residual stream
    heads: int  # dim must be a multiple of it
    layers: int
    ffn_dim: int  # customarily 4 * dim
    positions: str  # a name in model.positions.POSITIONS
    norm: str = "pre"  # "pre": x + f(LN(x)), trains without warm-up pains; "post": LN(x + f(x)), as BERT
    final_norm: bool = True  # for norm "pre": the last block's output is normed; without, lengths of token vectors tell
    norm_type: str = "layer"  # "layer": LayerNorm; "rms": RMSNorm
    norm_bias: bool = True  # LayerNorm has one; RMSNorm never has
    norm_eps: float = 1e-5
    attention_bias: bool = True  # the projections to Q, K and V and the one behind them have biases
    causal: bool = False  # a token sees itself and those before it, none behind it
    ffn: str = "plain"  # "plain": down(act(up x)); "gated": down(act(gate x) * up x), as Shazeer 2020
    activation: str = "gelu"  # "gelu": the exact erf form; "silu"
    ffn_bias: bool = True
    segments: int = 0  # token types (first text, second text, ...) with an embedding each; 0: the model knows none
    scale_embeddings: bool = False  # multiply token embeddings by sqrt(dim), as Vaswani et al. 2017
    rope_theta: float = 10000.0  # base of the rotary wavelengths; this and the next two are for positions "rope"
    rope_fraction: float = 1.0  # of each head's dimensions, which turn; the others know no position
    rope_offset: int = 0  # position of the first token
    alibi: str = "symmetric"  # for positions "alibi"; see model.positions.Alibi
    pooling: str = "mean"  # "mean"; "cls": the first token; "last": the last token, for causal models
    projection: bool = False  # a linear map [dim, dim] without bias, applied to what pooling yields
    normalize: bool = True  # pooled vectors have unit length
    dropout: float = 0.0  # training only: of what each half of a block adds
    embedding_dropout: float = 0.0  # training only: of embeddings with positions and segments added
    trained_length: int = 128  # tokens; the longest sequence seen in training
    max_length: int = 2048  # tokens; the longest sequence that will be accepted; rows of the table of learned positions
    pad_id: int = 0

    def __post_init__(self) -> None:
        for name, least in LEAST.items():
            if getattr(self, name) < least:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least {least}")
        for name in ("norm_eps", "rope_theta"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be above 0 and finite")
        for name, choices in CHOICES.items():
            if getattr(self, name) not in choices:
                raise ValueError(f"{name} is {getattr(self, name)!r}; choose one of {choices}")
        for name in ("dropout", "embedding_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least 0 and below 1")
        if self.dim % self.heads:
            raise ValueError(f"dim {self.dim} is not a multiple of heads {self.heads}; each head needs the same width")
        if not 0 <= self.pad_id < self.vocab_size:
            raise ValueError(f"pad_id {self.pad_id} is not a token of a vocabulary of {self.vocab_size}")
        if self.trained_length > self.max_length:
            raise ValueError(f"trained_length {self.trained_length} is beyond max_length {self.max_length}")
        self._check_positions()

    def _check_positions(self) -> None:
        """What one scheme demands, and whoever uses another need not fulfil."""
        if self.positions == "rope" and not math.isfinite(self.rope_fraction):
            raise ValueError(f"rope_fraction is {self.rope_fraction}; it must be above 0 and at most 1")
        if self.positions == "rope" and (self.rope_width % 2 or not 2 <= self.rope_width <= self.head_dim):
            have = (
                f"rope_fraction {self.rope_fraction} of dim / heads = {self.head_dim} is {self.rope_width} dimensions"
            )
            raise ValueError(f"{have}; rope turns pairs, so it must be an even number from 2 to {self.head_dim}")
        if self.positions == "alibi" and self.alibi == "signed" and self.causal:
            raise ValueError("alibi 'signed' has heads that look ahead, which causal forbids; choose 'symmetric'")

    @property
    def head_dim(self) -> int:
        return self.dim // self.heads

    @property
    def rope_width(self) -> int:
        """Dimensions of each head that rotary positions turn."""
        return int(self.head_dim * self.rope_fraction)

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self), indent=2) + "\n"

    @classmethod
    def from_dict(cls, values: Any) -> EncoderConfig:
        """Build from parsed JSON.

        Raises:
            ValueError: an unknown or missing key, or a value of the wrong type, by name.
        """
        if not isinstance(values, dict):
            raise ValueError("is not a JSON object")
        hints = get_type_hints(cls)
        unknown = sorted(set(values) - set(hints))
        if unknown:
            raise ValueError(f"unknown keys {unknown}; known are {sorted(hints)}")
        for name, value in values.items():
            expected = (int, float) if hints[name] is float else hints[name]
            if not isinstance(value, expected) or (isinstance(value, bool) and hints[name] is not bool):
                raise ValueError(f"{name} is {value!r}; expected {hints[name].__name__}")
        required = {f.name for f in dataclasses.fields(cls) if f.default is dataclasses.MISSING}
        missing = sorted(required - set(values))
        if missing:
            raise ValueError(f"missing keys {missing}")
        return cls(**values)

    @classmethod
    def load(cls, path: Path) -> EncoderConfig:
        """Read a checkpoint's config.json.

        Raises:
            ValueError: naming the file and the key at fault.
        """
        try:
            return cls.from_dict(json.loads(path.read_text(encoding="utf-8")))
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error
