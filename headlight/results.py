"""What the client gives back: plain frozen values that know neither gRPC nor protobuf."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


@dataclasses.dataclass(frozen=True, slots=True)
class ModelRef:
    """Which weights answered, on what. Vectors compare only where all but the provider agree."""

    name: str
    version: str
    bundle_sha256: str  # hex, of the bundle's manifest, which holds the digest of every other file
    provider: str  # "cpu", ...
    precision: str  # "fp32", ...


@dataclasses.dataclass(frozen=True, slots=True)
class TokenList:
    """The tokens of one input: tuples of n entries each; `len()` is n.

    Attributes:
        ids: ids in the model's vocabulary.
        pieces: the vocabulary's spelling; empty strings for ids given to a model without a tokenizer.
        starts: code point of the text at which each begins; 0 for special tokens and inputs given as ids.
        ends: code point behind its last.
        special: whether the tokenizer added it ([CLS], [SEP], ...) rather than found it in the text.
        segments: 0 for the first text, 1 for the second of a pair.
    """

    ids: tuple[int, ...]
    pieces: tuple[str, ...]
    starts: tuple[int, ...]
    ends: tuple[int, ...]
    special: tuple[bool, ...]
    segments: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.ids)

    def labels(self, text: str | tuple[str, str] | None = None) -> tuple[str, ...]:
        """A short name for each token: the characters of `text` that it covers, else its piece, else its id.

        The characters read better than the pieces of byte-level vocabularies, which spell a space as another letter. `text`
        is both texts where the input was a pair.
        """
        texts = () if text is None else (text,) if isinstance(text, str) else text
        labels = []
        for index, piece in enumerate(self.pieces):
            known = not self.special[index] and self.segments[index] < len(texts)
            covered = texts[self.segments[index]][self.starts[index] : self.ends[index]] if known else ""
            labels.append(covered or piece or f"#{self.ids[index]}")
        return tuple(labels)


@dataclasses.dataclass(frozen=True, slots=True)
class Embeddings:
    """Pooled vectors and what became of each input.

    Attributes:
        vectors: float32 [N, D], in the order of the inputs.
        token_counts: int64 [N], tokens encoded, special ones included.
        original_token_counts: int64 [N], before truncation.
        model: which weights answered all of them.
    """

    vectors: Floats
    token_counts: NDArray[np.int64]
    original_token_counts: NDArray[np.int64]
    model: ModelRef

    @property
    def truncated(self) -> NDArray[np.bool_]:
        """bool [N]: whether something was cut off."""
        cut: NDArray[np.bool_] = self.token_counts != self.original_token_counts
        return cut


@dataclasses.dataclass(frozen=True, slots=True)
class Attention:
    """Attention weights of one text of n tokens.

    Attributes:
        weights: float32 [L, H, n, n]; axis -2 is the query (each row sums to 1), axis -1 the key.
        layers: the absolute layers that the first axis stands for, in its order.
        tokens: what the last two axes stand for.
        model: which weights answered.
    """

    weights: Floats
    layers: tuple[int, ...]
    tokens: TokenList
    model: ModelRef

    @property
    def heads(self) -> int:
        """Heads of each layer."""
        return int(self.weights.shape[1])

    def layer_number(self, layer: int) -> int:
        """The absolute number of a layer: one of `layers`, or negative from the end of `layers`.

        Raises:
            ValueError: the layer is not here.
        """
        if -len(self.layers) <= layer < 0:
            return self.layers[layer]
        if layer not in self.layers:
            raise ValueError(f"layer {layer} is not here; there are {', '.join(map(str, self.layers))}")
        return layer

    def head_number(self, head: int) -> int:
        """The number of a head, from 0; a negative one counts from the last.

        Raises:
            ValueError: the head is not here.
        """
        if not -self.heads <= head < self.heads:
            raise ValueError(f"head {head} is not here; there are 0 to {self.heads - 1}, or negative from the last")
        return head % self.heads

    def layer(self, layer: int) -> Floats:
        """The heads of one layer, float32 [H, n, n], a view. `layer` as in `layer_number`."""
        maps: Floats = self.weights[self.layers.index(self.layer_number(layer))]
        return maps

    def head(self, layer: int, head: int) -> Floats:
        """One head, float32 [n, n], a view. `layer` as in `layer_number`, `head` as in `head_number`."""
        weights: Floats = self.layer(layer)[self.head_number(head)]
        return weights

    def mean(self, layer: int | None = None) -> Floats:
        """The mean over the heads of one layer, or of all layers held: float32 [n, n]; rows still sum to 1."""
        maps = self.weights if layer is None else self.layer(layer)
        mean: Floats = maps.mean(axis=tuple(range(maps.ndim - 2)), dtype=np.float32)
        return mean


@dataclasses.dataclass(frozen=True, slots=True)
class Hidden:
    """Hidden states of one text of n tokens.

    Attributes:
        states: float32 [L, n, D]; state 0 is the embedding output, l the output of block l.
        layers: the absolute states that the first axis stands for, in its order.
        tokens: what the second axis stands for.
        model: which weights answered.
    """

    states: Floats
    layers: tuple[int, ...]
    tokens: TokenList
    model: ModelRef


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
class ModelDescription:
    """A model and its service.

    Attributes:
        positions: position scheme: "rope", "sinusoidal", ...
        layers: number of blocks.
        heads: attention heads per block.
        dim: width D of pooled, token and hidden vectors.
        vocab_size: size of the vocabulary.
        trained_length: tokens; the longest sequence of the training.
        max_length: tokens; the longest sequence accepted.
        pooling: "mean" or "cls".
        normalized: whether pooled vectors have unit length.
        accepts: kinds of input: "text", "pair", "ids".
        outputs: what this server can give: "pooled", "tokens", "attention", "hidden", "token_info".
        limits: what the server accepts.
        variants: (provider, precision) pairs that the bundle could run on.
        parity: measured distance from PyTorch.
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

    @property
    def ref(self) -> ModelRef:
        """Which weights these are, on what."""
        return ModelRef(self.name, self.version, self.bundle_sha256, self.provider, self.precision)

    def as_dict(self) -> Mapping[str, object]:
        """Everything as plain dictionaries, lists and numbers, fit for JSON."""
        return dataclasses.asdict(self)
