"""What a service says of its model and of itself: plain frozen values that know neither gRPC nor protobuf."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from headlight.results import ModelRef
from headlight.spec import SpecialTokens, VectorType


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """What the server accepts. 0: it does not say."""

    max_items: int
    max_request_bytes: int
    max_unary_response_bytes: int
    max_stream_output_bytes: int
    max_stream_in_flight: int
    max_request_tokens: int


@dataclasses.dataclass(frozen=True, slots=True)
class Parity:
    """The distance of one output ("pooled", "attention", ...) from PyTorch, as the exporter measured it."""

    output: str
    provider: str
    precision: str
    max_error: float  # absolute; for hidden states and tokens over max(1, RMS of the row)
    tolerance: float  # what the bundle declares, and the server checks at start-up


@dataclasses.dataclass(frozen=True, slots=True)
class Quality:
    """How near pooled vectors of one precision are to those of fp32, as the exporter measured it."""

    provider: str
    precision: str
    texts: str  # what was embedded
    count: int  # of texts
    real_text: bool  # False: random ids, which tell nothing of neighbours
    cosine_mean: float  # with the vector of fp32
    cosine_p1: float  # the first percentile
    cosine_min: float
    nearest_kept: float  # share of the texts whose nearest other text is the same
    ten_nearest_kept: float  # share of the ten nearest that are among the ten
    batch_drift: float  # max |Δ| of a text's vector between alone and among others


@dataclasses.dataclass(frozen=True, slots=True)
class ModelDescription:
    """A model and its service.

    Attributes:
        positions: position scheme: "rope", "sinusoidal", ...
        layers: number of blocks.
        heads: attention heads per block.
        dim: width D of token and hidden vectors.
        vocab_size: size of the vocabulary.
        trained_length: tokens; the longest sequence of the training.
        max_length: tokens; the longest sequence accepted.
        pooling: "mean", "cls" (the first token), "last", "max", "weighted_mean" or "mean_sqrt_len".
        normalized: whether pooled vectors have unit length.
        accepts: kinds of input: "text", "pair", "ids".
        outputs: what this server can give: "pooled", "tokens", "attention", "hidden", "token_info".
        limits: what the server accepts.
        variants: (provider, precision) pairs that the bundle could run on.
        parity: measured distance from PyTorch.
        quality: of precisions beside fp32; empty: the bundle has none.
        pooled_dim: width of pooled vectors.
        prompts: what may be put before texts, by name.
        default_prompt: the name of the one that is, where nothing is said; None: none is.
        include_prompt: whether the tokens of a prompt count in pooling.
        trained_dimensions: of shortened vectors; empty: not said. Others are served all the same.
        pooled_types: of the numbers of pooled vectors: "float32", "int8", ...
        int8_dimensions: widths in which vectors can be had as int8.
        similarity: how vectors are meant to be compared: "cosine", "dot", ...; None: not said.
        special_tokens: how special tokens that texts spell out are read where a call does not say it: "parse" or "text".
    """

    name: str
    version: str
    bundle_sha256: str
    provider: str
    precision: str
    positions: str
    layers: int
    heads: int
    dim: int
    vocab_size: int
    trained_length: int
    max_length: int
    pooling: str
    normalized: bool
    accepts: tuple[str, ...]
    outputs: tuple[str, ...]
    limits: Limits
    variants: tuple[tuple[str, str], ...]
    parity: tuple[Parity, ...]
    pooled_dim: int
    quality: tuple[Quality, ...] = ()
    prompts: Mapping[str, str] = dataclasses.field(default_factory=dict)
    default_prompt: str | None = None
    include_prompt: bool = True
    trained_dimensions: tuple[int, ...] = ()
    pooled_types: tuple[VectorType, ...] = ("float32",)
    int8_dimensions: tuple[int, ...] = ()
    similarity: str | None = None
    special_tokens: SpecialTokens = "parse"

    def prompt_text(self, prompt: str | None = None, prompt_name: str | None = None) -> str:
        """What is put before each text, given what the caller says of it. A name that is unknown here stands for nothing."""
        name = self.default_prompt if prompt_name is None else prompt_name
        return self.prompts.get(name or "", "") if prompt is None else prompt

    @property
    def ref(self) -> ModelRef:
        """Which weights these are, on what."""
        return ModelRef(self.name, self.version, self.bundle_sha256, self.provider, self.precision)

    def as_dict(self) -> Mapping[str, object]:
        """Everything as plain dictionaries, lists and numbers, fit for JSON."""
        return dataclasses.asdict(self)
