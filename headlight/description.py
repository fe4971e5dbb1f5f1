"""Description of a service and its model: plain frozen values, without gRPC or protobuf."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from headlight.results import ModelRef
from headlight.spec import (
    ROLE_PROMPTS,
    InputRole,
    ScoreOutput,
    SpecialTokens,
    Truncate,
    VectorType,
)


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """Limits of the server. 0: not reported."""

    max_items: int
    max_request_bytes: int
    max_unary_response_bytes: int
    max_stream_output_bytes: int
    max_stream_in_flight: int
    max_request_tokens: int


@dataclasses.dataclass(frozen=True, slots=True)
class Parity:
    """Distance of one output ("pooled", "attention", ...) from PyTorch, found by the exporter."""

    output: str
    provider: str
    precision: str
    max_error: float  # absolute; for hidden states and tokens divided by max(1, RMS of the row)
    tolerance: float  # declared by the bundle, and checked by the server at start-up


def worst_pooled(parity: Iterable[Parity]) -> Parity | None:
    """Return the largest distance of pooled vectors; None: none was measured."""
    pooled = (row for row in parity if row.output == "pooled")
    return max(pooled, key=lambda row: row.max_error, default=None)


@dataclasses.dataclass(frozen=True, slots=True)
class Quality:
    """Nearness of one precision to fp32, in vectors and scores, as the exporter measured it.

    Attributes:
        kendall_tau: of a model that scores texts: the share of pairs of documents for a query, or
            of labels of a text, in the same order, less that in the other; else None.
        ndcg_at_10: of the same, with the gains 10 to 1 for the first ten of fp32.
    """

    provider: str
    precision: str
    texts: str  # name of the texts embedded
    count: int  # of texts
    real_text: bool  # False: random ids, which have no meaningful neighbours
    cosine_mean: float  # with the vector of fp32
    cosine_p1: float  # the first percentile
    cosine_min: float
    nearest_kept: float  # share of the texts whose nearest other text is the same
    ten_nearest_kept: float  # share of the ten nearest that stay among the ten
    batch_drift: float  # max |Δ| of a text's vector between alone and among others
    kendall_tau: float | None = None
    ndcg_at_10: float | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class ListedModel:
    """A model in the list of a service.

    Attributes:
        model: its weights, its provider and its precision.
        names: all names by which the service knows it.
        task: what it was trained for: "embed", "rerank", "classify", "sparse" or "multi_vector".
        default: whether it answers requests that name no model.
    """

    model: ModelRef
    names: tuple[str, ...]
    task: str
    default: bool


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class ModelDescription:
    """A model and its service.

    Attributes:
        positions: position scheme: "rope", "sinusoidal", ...; or several, joined by "+".
        layers: number of blocks.
        heads: attention heads per block.
        dim: width D of token and hidden vectors.
        vocab_size: size of the vocabulary.
        trained_length: tokens; the longest sequence of the training. Of a model whose folder does
            not say it: max_length.
        max_length: tokens; the longest sequence accepted.
        pooling: "mean", "cls" (the first token), "last", "max", "weighted_mean" or "mean_sqrt_len".
        normalized: whether pooled vectors have unit length.
        accepts: kinds of input: "text", "pair", "ids".
        outputs: available outputs: "pooled", "tokens", "attention", "hidden", "token_info",
            "spans", "scores", "sparse" or "multi_vector".
        limits: limits of the server.
        variants: (provider, precision) pairs that the bundle could run on.
        parity: measured distance from PyTorch.
        quality: of precisions compared with fp32; empty: the bundle has none.
        pooled_dim: width of pooled vectors.
        prompts: available prompts before texts, by name.
        default_prompt: name of the prompt used by default; None: none.
        include_prompt: whether the tokens of a prompt count in pooling.
        trained_dimensions: widths that shortened vectors were trained for; empty: not reported.
            Other widths are served too.
        pooled_types: number types of pooled vectors: "float32", "int8", ...
        int8_dimensions: widths available as int8.
        similarity: intended comparison of vectors: "cosine", "dot", ...; None: not reported.
        special_tokens: default reading of special tokens spelled out in texts: "parse" or "text".
        truncation: default treatment of texts that are too long: "refuse", "end" or "start".
        task: what the model was trained for: "embed", "rerank", "classify", "sparse" or
            "multi_vector".
        labels: of a model that scores, in the order of their scores.
        token_labels: whether each token has scores, and not the text.
        activation: from logits to scores: "identity", "sigmoid" or "softmax"; empty: the model
            gives no scores.
        multi_vector_dim: width of vectors that are matched one by one; 0: there are none.
        query_tokens: tokens of a query at least: shorter ones are filled up.
        names: all names by which the service knows it; empty: of a runtime without a service, and
            of a service of an earlier release.
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
    truncation: Truncate = "refuse"
    task: str = "embed"
    labels: tuple[str, ...] = ()
    token_labels: bool = False
    activation: str = ""
    multi_vector_dim: int = 0
    query_tokens: int = 0
    names: tuple[str, ...] = ()

    @property
    def reranks(self) -> bool:
        """Whether it gives one score of a text or a pair."""
        return len(self.labels) == 1 and not self.token_labels

    @property
    def score_output(self) -> ScoreOutput:
        """The output that a comparison scores."""
        if self.reranks:
            return "scores"
        if self.task == "sparse":
            return "sparse"
        many = self.multi_vector_dim and "pooled" not in self.outputs
        return "multi_vector" if many else "pooled"

    def __repr__(self) -> str:
        return (
            f"<ModelDescription {self.name} {self.version}, {self.precision} on {self.provider}: "
            f"{self.layers} layers × {self.heads} heads, {self.pooled_dim} dimensions, "
            f"{self.max_length} tokens>"
        )

    def prompt_text(
        self,
        prompt: str | None = None,
        prompt_name: str | None = None,
        role: InputRole | None = None,
    ) -> str:
        """Return the prompt before each text for the caller's arguments; "" for an unknown name.

        That of the role goes before the model's default one.
        """
        names = ROLE_PROMPTS.get(role, ())
        default = next((each for each in names if each in self.prompts), self.default_prompt)
        name = default if prompt_name is None else prompt_name
        return self.prompts.get(name or "", "") if prompt is None else prompt

    @property
    def ref(self) -> ModelRef:
        """The name, digest, provider and precision of the weights."""
        return ModelRef(self.name, self.version, self.bundle_sha256, self.provider, self.precision)

    def as_dict(self) -> Mapping[str, object]:
        """Return everything as plain dictionaries, lists and numbers, fit for JSON."""
        return dataclasses.asdict(self)
