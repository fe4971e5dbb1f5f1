"""Results of clients and runtime: plain frozen values, without gRPC or protobuf."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from headlight.spec import VectorType

Floats = NDArray[np.float32]
SHOWN_PIECES = 16  # of a token list on one line
PLURALS = {"query": "queries", "top": "largest"}  # of axes


class Presenter(Protocol):
    """Shows attention; `headlight.web.notebook` is one."""

    def inline(self, attention: Attention, /) -> str:
        """Return it as HTML for the cell of a notebook."""

    def show(self, attention: Attention, /) -> None:
        """Show it below the cell of a notebook, or in the browser."""


def presenter() -> Presenter:
    """Return what shows attention.

    `headlight` puts `headlight.web.notebook` in its place: the page is made of these results, so
    they do not import it.
    """
    raise NotImplementedError


@dataclasses.dataclass(frozen=True, slots=True)
class ModelRef:
    """Weights of an answer and their provider.

    Vectors are comparable only if all fields but the provider are equal.
    """

    name: str
    version: str
    bundle_sha256: str  # hex, of the bundle's manifest, which holds the digest of every other file
    provider: str  # "cpu", ...
    precision: str  # "fp32", ...

    def compares_with(self, other: ModelRef) -> bool:
        """Return whether weights and precision are the same; the digest stands for the version."""
        mine, its = ((ref.name, ref.bundle_sha256, ref.precision) for ref in (self, other))
        return mine == its


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class TokenList:
    """The tokens of one input: tuples of n entries each; `len()` is n.

    Attributes:
        ids: ids in the model's vocabulary.
        pieces: the vocabulary's spelling; empty strings for ids given to a model without a
            tokenizer.
        starts: offset of each token's first code point in the text, without the prompt; 0 for
            special tokens around it, tokens of the prompt, and inputs given as ids.
        ends: offset after each token's last code point.
        special: whether each token is special: put around the text ([CLS], [SEP], ...), or spelled
            out in it and parsed.
        segments: 0 for the first text, 1 for the second of a pair.
        prompt: whether each token belongs only to the prompt, and to no character of the text.
            Default: False for each.
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

    def __repr__(self) -> str:
        more = " …" if len(self) > SHOWN_PIECES else ""
        return f"<TokenList of {len(self)}: {' '.join(self.labels()[:SHOWN_PIECES])}{more}>"

    def labels(self, text: str | tuple[str, str] | None = None) -> tuple[str, ...]:
        """Return a label for each token: its characters in the text or pair, else its piece or id.

        The characters read better than the pieces of byte-level vocabularies, which spell a space
        as another letter.

        Raises:
            ValueError: `text` is one text, and the tokens are those of a pair.
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


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class Attention:
    """Attention weights of one text of n tokens.

    Attributes:
        weights: float32 [L, H, n, n]; axis -2 is the query (each row sums to 1), axis -1 the key.
        layers: absolute layers of the first axis, in its order.
        tokens: tokens of the last two axes.
        model: the weights.
        text: the text or the pair; None: the input was ids, or the attention comes from a file.
    """

    weights: Floats
    layers: tuple[int, ...]
    tokens: TokenList
    model: ModelRef
    text: str | tuple[str, str] | None = None

    def __repr__(self) -> str:
        layers, heads, tokens = self.weights.shape[:3]
        return f"<Attention {self.model.name}: {layers} layers × {heads} heads × {tokens} tokens>"

    def _repr_html_(self) -> str:
        return presenter().inline(self)

    def show(self) -> None:
        """Show the page of all heads: below a notebook's cell, else in the browser.

        The page loads nothing. The browser opens a file that stays in the folder of temporary
        files.

        Raises:
            ValueError: there are no weights, or one is not from 0 to 1.
            RuntimeError: no browser can be opened; the message has the name of the file.
        """
        presenter().show(self)

    @property
    def heads(self) -> int:
        """Heads of each layer."""
        return int(self.weights.shape[1])

    def layer_number(self, layer: int) -> int:
        """Return a layer's absolute number: one of `layers`, or negative from their end.

        Raises:
            ValueError: `layers` lacks the layer.
        """
        if -len(self.layers) <= layer < 0:
            return self.layers[layer]
        if layer not in self.layers:
            raise ValueError(
                f"layer {layer} is not here; there are {', '.join(map(str, self.layers))}"
            )
        return int(layer)  # it may be a NumPy integer, which JSON cannot encode

    def head_number(self, head: int) -> int:
        """Return the number of a head, from 0; a negative one counts from the last.

        Raises:
            ValueError: there is no such head.
        """
        if not -self.heads <= head < self.heads:
            raise ValueError(
                f"head {head} is not here; there are 0 to {self.heads - 1}, "
                "or negative from the last"
            )
        return int(head % self.heads)

    def layer(self, layer: int) -> Floats:
        """Return the heads of one layer, float32 [H, n, n], a view.

        `layer` as in `layer_number`.
        """
        maps: Floats = self.weights[self.layers.index(self.layer_number(layer))]
        return maps

    def head(self, layer: int, head: int) -> Floats:
        """Return one head, float32 [n, n], a view.

        `layer` as in `layer_number`, `head` as in `head_number`.
        """
        weights: Floats = self.layer(layer)[self.head_number(head)]
        return weights

    def mean(self, layer: int | None = None) -> Floats:
        """Return the mean over the heads of one layer, or of all layers held: float32 [n, n].

        Rows still sum to 1.
        """
        maps = self.weights if layer is None else self.layer(layer)
        mean: Floats = maps.mean(axis=tuple(range(maps.ndim - 2)), dtype=np.float32)
        return mean


@dataclasses.dataclass(frozen=True, slots=True)
class Units:
    """Units of an axis: the tokens of each position.

    Attributes:
        tokens: for each position, the indices of its tokens.
    """

    tokens: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, tokens: Sequence[int], starts: Sequence[int] = ()) -> Units:
        """Return units that begin at these places of a list of tokens; empty: each token is one."""
        bounds = itertools.pairwise((*(starts or range(len(tokens))), len(tokens)))
        return cls(tuple(tuple(tokens[begin:end]) for begin, end in bounds))

    def labels(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return a name for each position: the names of its tokens, joined."""
        return tuple("".join(names[token] for token in tokens) for tokens in self.tokens)


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class AttentionMaps:
    """Attention of one text in the form of an AttentionSpec.

    Attributes:
        values: float32, float16 or uint8, with an axis for each of `axes`.
        axes: axes of the result, outermost first: "layer" and "head", or "pair"; "query"; then
            "key", "top" or "statistic".
        layers: absolute numbers on that axis, or of the reduced layers; for pairs, of each pair.
        heads: as `layers`.
        queries: units of that axis.
        keys: as `queries`.
        tokens: tokens of the text.
        model: the weights.
        indices: uint16, in the shape of `values`; with an axis "top", the position of each entry on
            the axis "key".
        scales: float32, a factor for each row of uint8 values.
        statistics: names on the axis "statistic".
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

    def __repr__(self) -> str:
        return f"<AttentionMaps {self.model.name}: {_extents(self.axes, self.values)}>"

    @property
    def weights(self) -> Floats:
        """`values` as float32, within the precision of their type."""
        if self.scales is not None:
            return self.values.astype(np.float32) * self.scales[..., None]
        return self.values.astype(np.float32, copy=False)

    def whole(self, text: str | tuple[str, str] | None) -> Attention:
        """Return unreduced maps of a text as such; `text` as in `Attention`."""
        return Attention(self.weights, self.layers, self.tokens, self.model, text)

    def dense(self) -> Floats:
        """Return `weights` with the axis "key" if only "top" was sent: zeros at all other keys."""
        if self.indices is None:
            return self.weights
        whole = np.zeros((*self.values.shape[:-1], len(self.keys.tokens)), dtype=np.float32)
        np.put_along_axis(whole, self.indices.astype(np.int64), self.weights, axis=-1)
        return whole


class AttentionPiece(NamedTuple):
    """Rows of the attention of one text: some of one head, or all of several heads of one layer.

    Attributes:
        layer: absolute; of a pair its layer; of reduced layers the first.
        heads: positions on the axis "head"; for a pair 0 alone.
        rows: positions on the axis "query".
        values: float32 or float16 [heads, rows, keys]; copy it to write to it.
    """

    layer: int
    heads: range
    rows: range
    values: NDArray[Any]


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class Occlusion:
    """Distance that the vector of one text moves as each of its tokens is hidden.

    Attributes:
        moved: float32 [m], Euclidean distances; for vectors of unit length from 0 to 2.
        places: indices of the hidden tokens, in the order of `moved`.
        tokens: tokens of the text.
        model: the weights.
        fall: float32 [m], the fall of the similarity to the target as each token is hidden; None:
            there is no target.
        similarity: that of the whole text to the target, by the model's measure.
    """

    moved: Floats
    places: tuple[int, ...]
    tokens: TokenList
    model: ModelRef
    fall: Floats | None = None
    similarity: float | None = None

    def __repr__(self) -> str:
        return f"<Occlusion {self.model.name}: {len(self.places)} of {len(self.tokens)} tokens>"


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class Hidden:
    """Hidden states of one text of n tokens.

    Attributes:
        states: float32 or float16 [L, tokens, D]; state 0 is the embedding output, l the output of
            block l.
        layers: absolute states of the first axis, in its order.
        tokens: tokens of the text, and of the second axis unless `places` selects some.
        model: the weights.
    """

    states: NDArray[Any]
    layers: tuple[int, ...]
    tokens: TokenList
    model: ModelRef
    places: tuple[int, ...] | None = None

    def __repr__(self) -> str:
        return f"<Hidden {self.model.name}: {_extents(('layer', 'token', 'value'), self.states)}>"


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class Scores:
    """Scores of one input, from a model that reranks or classifies.

    Attributes:
        logits: float32 [labels], or [n, labels] of each token: before the activation.
        values: the same behind the model's activation.
        labels: names, in their order.
        token_count: tokens that were scored.
        cut_tokens: tokens that truncation cut off.
        model: the weights.
    """

    logits: Floats
    values: Floats
    labels: tuple[str, ...]
    token_count: int
    cut_tokens: int
    model: ModelRef

    def __repr__(self) -> str:
        shape = " × ".join(map(str, self.logits.shape))
        return f"<Scores {self.model.name}: {shape} of {', '.join(self.labels[:SHOWN_PIECES])}>"


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class SparseVector:
    """The terms that one input has weight in.

    Attributes:
        indices: uint32 [m], terms of the vocabulary, ascending.
        values: float32 [m], their weights, above 0.
        size: terms of the vocabulary.
        model: the weights.
        pieces: the vocabulary's spelling of each term; empty: not requested.
        token_count: tokens of the input that were encoded.
        cut_tokens: tokens that truncation cut off.
    """

    indices: NDArray[np.uint32]
    values: Floats
    size: int
    model: ModelRef
    pieces: tuple[str, ...] = ()
    token_count: int = 0
    cut_tokens: int = 0

    def __repr__(self) -> str:
        return f"<SparseVector {self.model.name}: {len(self.indices)} of {self.size} terms>"


@dataclasses.dataclass(frozen=True, slots=True)
class RankedDocument:
    """A document of a reranking.

    Attributes:
        index: its place among the documents given.
        score: as the model's makers mean it: often from 0 to 1.
        logit: the number that documents are ordered by.
        document: its text.
        cut_tokens: tokens of the query and the document that truncation cut off.
    """

    index: int
    score: float
    logit: float
    document: str
    cut_tokens: int


@dataclasses.dataclass(frozen=True, slots=True)
class LabelScore:
    """A label of a classification, its score, and the logit that labels are ordered by."""

    label: str
    score: float
    logit: float


class Usage(NamedTuple):
    """Token counts of a list: encoded (with special ones and prompts), prompts, untruncated."""

    tokens: int
    prompt_tokens: int
    original_tokens: int


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class Embeddings:
    """Pooled vectors, and the token counts of each input.

    Attributes:
        by_type: the vectors in each requested type, in that order: [N, D], or [N, D/8] bytes of
            bits, in the order of the inputs.
        token_counts: int64 [N], tokens encoded, special ones and the prompt included.
        prompt_token_counts: int64 [N], only those of the prompt.
        original_token_counts: int64 [N], before truncation.
        model: the weights, the same for all.
    """

    by_type: Mapping[VectorType, NDArray[Any]]
    token_counts: NDArray[np.int64]
    prompt_token_counts: NDArray[np.int64]
    original_token_counts: NDArray[np.int64]
    model: ModelRef

    def __repr__(self) -> str:
        types = ", ".join(
            f"{rows} × {width} {dtype}"
            for dtype, (rows, width) in ((name, each.shape) for name, each in self.by_type.items())
        )
        return f"<Embeddings {self.model.name}: {types}>"

    @property
    def vectors(self) -> NDArray[Any]:
        """The vectors in the first requested type: float32 [N, D] by default."""
        return next(iter(self.by_type.values()))

    @property
    def usage(self) -> Usage:
        """Token counts of all inputs together."""
        counts = (self.token_counts, self.prompt_token_counts, self.original_token_counts)
        return Usage(*(int(each.sum()) for each in counts))

    @property
    def truncated(self) -> NDArray[np.bool_]:
        """bool [N]: whether the input was truncated."""
        cut: NDArray[np.bool_] = self.token_counts != self.original_token_counts
        return cut


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class TokenVectors:
    """The vectors of some tokens of one text.

    Attributes:
        vectors: float32 or float16 [m, D].
        places: indices of their tokens, in order.
        tokens: all tokens of the text.
        model: the weights.
        cut_tokens: tokens that truncation cut off; counted for multi-vectors alone.
    """

    vectors: NDArray[Any]
    places: tuple[int, ...]
    tokens: TokenList
    model: ModelRef
    cut_tokens: int = 0

    @property
    def token_count(self) -> int:
        """Tokens of the text, with those that fill it up."""
        return len(self.tokens)

    def __repr__(self) -> str:
        return f"<TokenVectors {self.model.name}: {_extents(('token', 'value'), self.vectors)}>"


def _extents(axes: Sequence[str], array: NDArray[Any]) -> str:
    """Return the size of each axis, as "2 layers × 8 heads", and the type."""
    sizes = zip(array.shape, axes, strict=True)
    names = [
        f"{size} {axis if size == 1 else PLURALS.get(axis, f'{axis}s')}" for size, axis in sizes
    ]
    return f"{' × '.join(names)}, {array.dtype}"
