"""What the client gives back: plain frozen values that know neither gRPC nor protobuf."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headlight.spec import VectorType

Floats = NDArray[np.float32]


@dataclasses.dataclass(frozen=True, slots=True)
class ModelRef:
    """Which weights answered, on what. Vectors compare only where all but the provider agree."""

    name: str
    version: str
    bundle_sha256: str  # hex, of the bundle's manifest, which holds the digest of every other file
    provider: str  # "cpu", ...
    precision: str  # "fp32", ...

    def compares_with(self, other: ModelRef) -> bool:
        """Whether both are the same weights in the same precision; the bundle's digest stands for its version."""
        mine, its = ((ref.name, ref.bundle_sha256, ref.precision) for ref in (self, other))
        return mine == its


@dataclasses.dataclass(frozen=True, slots=True)
class TokenList:
    """The tokens of one input: tuples of n entries each; `len()` is n.

    Attributes:
        ids: ids in the model's vocabulary.
        pieces: the vocabulary's spelling; empty strings for ids given to a model without a tokenizer.
        starts: code point of the text at which each begins, the prompt not counted; 0 for special tokens put around
            it, tokens of the prompt, and inputs given as ids.
        ends: code point behind its last.
        special: whether it is a special token: put around the text ([CLS], [SEP], ...), or spelled out in it and parsed.
        segments: 0 for the first text, 1 for the second of a pair.
        prompt: whether it stands for the prompt alone, and for no character of the text. Given none: False for each.
    """

    ids: tuple[int, ...]
    pieces: tuple[str, ...]
    starts: tuple[int, ...]
    ends: tuple[int, ...]
    special: tuple[bool, ...]
    segments: tuple[int, ...]
    prompt: tuple[bool, ...] = ()

    def __post_init__(self) -> None:
        if not self.prompt:
            object.__setattr__(self, "prompt", (False,) * len(self.ids))

    def __len__(self) -> int:
        return len(self.ids)

    def labels(self, text: str | tuple[str, str] | None = None) -> tuple[str, ...]:
        """A short name for each token: the characters of the text, or pair, that it covers, else its piece, else its id.

        The characters read better than the pieces of byte-level vocabularies, which spell a space as another letter.

        Raises:
            ValueError: one text for tokens of a pair.
        """
        texts = (text,) if isinstance(text, str) else text or ()
        if len(texts) == 1 and any(self.segments):
            raise ValueError("text: these are the tokens of a pair; give both texts, as a tuple")
        labels = []
        for index, piece in enumerate(self.pieces):
            segment, known = self.segments[index], bool(texts) and not self.special[index]
            covered = texts[segment][self.starts[index] : self.ends[index]] if known else ""
            labels.append(covered or piece or f"#{self.ids[index]}")
        return tuple(labels)


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
        return int(layer)  # it may be NumPy's, which JSON does not take

    def head_number(self, head: int) -> int:
        """The number of a head, from 0; a negative one counts from the last.

        Raises:
            ValueError: the head is not here.
        """
        if not -self.heads <= head < self.heads:
            raise ValueError(f"head {head} is not here; there are 0 to {self.heads - 1}, or negative from the last")
        return int(head % self.heads)

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
class Units:
    """What the places of an axis stand for.

    Attributes:
        tokens: for each place, the numbers of its tokens.
    """

    tokens: tuple[tuple[int, ...], ...]

    def labels(self, names: Sequence[str]) -> tuple[str, ...]:
        """A name for each place, given one for each token: those of its tokens, joined."""
        return tuple("".join(names[token] for token in tokens) for tokens in self.tokens)


@dataclasses.dataclass(frozen=True, slots=True)
class AttentionMaps:
    """Attention of one text in the form that an AttentionSpec asked for.

    Attributes:
        values: float32, float16 or uint8, an axis for each of `axes`.
        axes: what is left, outermost first: "layer" and "head", or "pair"; "query"; then "key", "top" or "statistic".
        layers, heads: absolute, of those axes, or of what was reduced; of each pair.
        queries, keys: what the places of those axes stand for.
        tokens: of the text.
        model: which weights answered.
        indices: uint16, of the shape of `values`, where the axis "top" is: the place of each entry on the axis "key".
        scales: float32, a number for each row of uint8 values.
        statistics: what the entries of the axis "statistic" are.
    """

    values: NDArray[Any]
    axes: tuple[str, ...]
    layers: tuple[int, ...]
    heads: tuple[int, ...]
    queries: Units
    keys: Units
    tokens: TokenList
    model: ModelRef
    indices: NDArray[np.uint16] | None = None
    scales: Floats | None = None
    statistics: tuple[str, ...] = ()

    @property
    def weights(self) -> Floats:
        """`values` as float32: what was asked for, within the precision of its type."""
        if self.scales is not None:
            return self.values.astype(np.float32) * self.scales[..., None]
        return self.values.astype(np.float32, copy=False)

    def dense(self) -> Floats:
        """`weights` with the axis "key" where only "top" was sent: zeros at all other keys."""
        if self.indices is None:
            return self.weights
        whole = np.zeros((*self.values.shape[:-1], len(self.keys.tokens)), dtype=np.float32)
        np.put_along_axis(whole, self.indices.astype(np.int64), self.weights, axis=-1)
        return whole


@dataclasses.dataclass(frozen=True, slots=True)
class Occlusion:
    """How far the vector of one text moves when each of its tokens is hidden.

    Attributes:
        moved: float32 [m], Euclidean distances; for vectors of unit length from 0 to 2.
        places: the tokens that were hidden, in the order of `moved`.
        tokens: of the text.
        model: which weights answered.
    """

    moved: Floats
    places: tuple[int, ...]
    tokens: TokenList
    model: ModelRef


@dataclasses.dataclass(frozen=True, slots=True)
class Hidden:
    """Hidden states of one text of n tokens.

    Attributes:
        states: float32 or float16 [L, tokens, D]; state 0 is the embedding output, l the output of block l.
        layers: the absolute states that the first axis stands for, in its order.
        tokens: of the text; what the second axis stands for, unless `places` says which of them do.
        model: which weights answered.
    """

    states: NDArray[Any]
    layers: tuple[int, ...]
    tokens: TokenList
    model: ModelRef
    places: tuple[int, ...] | None = None


class Usage(NamedTuple):
    """Tokens of a whole list: encoded (special ones and prompts included), of prompts alone, and before truncation."""

    tokens: int
    prompt_tokens: int
    original_tokens: int


@dataclasses.dataclass(frozen=True, slots=True)
class Embeddings:
    """Pooled vectors and what became of each input.

    Attributes:
        by_type: the vectors in each type asked, in that order: [N, D], or [N, D/8] bytes of bits, in the order of the inputs.
        token_counts: int64 [N], tokens encoded, special ones and the prompt included.
        prompt_token_counts: int64 [N], those of the prompt alone.
        original_token_counts: int64 [N], before truncation.
        model: which weights answered all of them.
    """

    by_type: Mapping[VectorType, NDArray[Any]]
    token_counts: NDArray[np.int64]
    prompt_token_counts: NDArray[np.int64]
    original_token_counts: NDArray[np.int64]
    model: ModelRef

    @property
    def vectors(self) -> NDArray[Any]:
        """The vectors in the first type asked: float32 [N, D] unless something else was."""
        return next(iter(self.by_type.values()))

    @property
    def usage(self) -> Usage:
        """Tokens in all."""
        counts = (self.token_counts, self.prompt_token_counts, self.original_token_counts)
        return Usage(*(int(each.sum()) for each in counts))

    @property
    def truncated(self) -> NDArray[np.bool_]:
        """bool [N]: whether something was cut off."""
        cut: NDArray[np.bool_] = self.token_counts != self.original_token_counts
        return cut


@dataclasses.dataclass(frozen=True, slots=True)
class TokenVectors:
    """The vectors of some tokens of one text.

    Attributes:
        vectors: float32 or float16 [m, D].
        places: the tokens that they are of, in their order.
        tokens: all of the text.
        model: which weights answered.
    """

    vectors: NDArray[Any]
    places: tuple[int, ...]
    tokens: TokenList
    model: ModelRef
