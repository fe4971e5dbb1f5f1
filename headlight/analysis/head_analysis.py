"""Head analysis of a model: kinds, strongest links and importance of all heads.

    texts --client--> statistics of each head    --headlight.analysis.head_kinds--> kinds
                      largest weights of each    --headlight.analysis.head_kinds--> links
                      or, for patterns, all      --headlight.analysis.token_patterns--> more kinds
                      vectors with each head off --importance-------> distances

Importance ablates one head at a time, after Michel et al. 2019, "Are Sixteen Heads Really Better
than One?", 3.2. It measures how far the vectors move, because the service has no task score.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Unpack

import numpy as np

from headlight.analysis.head_kinds import (
    PATTERNS,
    Head,
    Link,
    classify,
    stronger,
    strongest,
    with_patterns,
)
from headlight.analysis.token_patterns import PatternShares, TokenPattern
from headlight.errors import InvalidInput, MixedWeights, Reason
from headlight.interface.arguments import Input, Reading, as_list, text_of
from headlight.interface.encoder import Encoder
from headlight.results import Floats, ModelRef
from headlight.spec import AttentionSpec

TEXTS_AT_ONCE = 32  # the largest weights of one text may take a megabyte of memory
# Whole maps requested at once. A text with more is requested alone: 12 layers of 12 heads have
# 151 MB for 512 tokens.
MAPS_BYTES_AT_ONCE = 64 * 2**20


@dataclasses.dataclass(frozen=True, slots=True)
class Importance:
    """Mean distance over the texts that pooled vectors move when one head is removed.

    Attributes:
        distance: float32 [L, H], Euclidean distance. A value below 1e-5 may be rounding.
        cosine: float32 [L, H], cosine distance: 1 minus the cosine.
        baseline: float32 [N, D], the vectors with all heads.
        model: the weights.
    """

    distance: Floats
    cosine: Floats
    baseline: Floats
    model: ModelRef


@dataclasses.dataclass(frozen=True, slots=True)
class Analysis:
    """All heads of a model, on some texts.

    Attributes:
        heads: L · H heads, layer by layer.
        token_counts: number of tokens of each text, special tokens included.
        model: the weights.
        importance: None if not requested.
        patterns: base rate and number of queries of each pattern, by the names of
            `headlight.analysis.head_kinds.PATTERNS`; None if not requested.
    """

    heads: tuple[Head, ...]
    token_counts: tuple[int, ...]
    model: ModelRef
    importance: Importance | None = None
    patterns: Mapping[str, TokenPattern] | None = None


def analyse(
    client: Encoder,
    texts: Iterable[Input] | str,
    *,
    ablate: bool = False,
    patterns: bool = False,
    **reading: Unpack[Reading],
) -> Analysis:
    """Return the kind, strongest link and (with `ablate`) importance of each head over some texts.

    Args:
        client: a client, or a runtime. It runs each text twice; with `ablate` also once with all
            heads and once for each head.
        texts: inputs as of `Encoder.encode`. Ids have no known special tokens: on ids alone no head
            is "delimiter".
        ablate: whether to measure importance.
        patterns: whether heads may also be "same", "bracket", "punctuation" or "rare". This takes
            all weights instead of the largest of each row: float32 [L, H, n, n] of each text.
        reading: as in `Encoder.encode`.

    Raises:
        InvalidInput: there are no texts, or none has two tokens.
        HeadlightError: of the encoder's methods; MixedWeights also if weights changed between two
            calls.
    """
    inputs = some(texts)
    statistics = client.attention(inputs, AttentionSpec(reduce=("statistics",)), **reading)
    heads = classify(statistics)
    # So many of a row include a key that is neither special nor the token itself, if there is one.
    enough = max(sum(maps.tokens.special) for maps in statistics) + 2
    spec = AttentionSpec(top_k=None if patterns else enough)
    answered = [maps.model for maps in statistics]
    links: list[Link | None] = [None] * len(heads)
    measured = PatternShares(maps.tokens for maps in statistics) if patterns else None
    counts = tuple(len(maps.tokens) for maps in statistics)
    for part in parts_of(counts, len(heads) if patterns else 0):
        given = inputs[part.start : part.stop]
        for text, maps in zip(part, client.attention(given, spec, **reading), strict=True):
            links_of_text = strongest(maps, maps.tokens.labels(text_of(inputs[text])), text)
            links = [stronger(held, new) for held, new in zip(links, links_of_text, strict=True)]
            answered.append(maps.model)
            if measured:
                weights = maps.weights.reshape(len(heads), *maps.values.shape[-2:])
                measured.add(weights, maps.tokens, inputs[text])
    heads = [dataclasses.replace(head, link=link) for head, link in zip(heads, links, strict=True)]
    moved = importance(client, inputs, **reading) if ablate else None
    return Analysis(
        heads=tuple(named_by_patterns(heads, measured) if measured else heads),
        token_counts=counts,
        model=same_weights([*answered, moved.model] if moved else answered),
        importance=moved,
        patterns=measured.patterns if measured else None,
    )


def parts_of(counts: Sequence[int], heads: int) -> Iterator[range]:
    """Yield the texts to request together: at most TEXTS_AT_ONCE, with MAPS_BYTES_AT_ONCE of maps.

    Args:
        counts: number of tokens of each text; one with more bytes of maps is alone.
        heads: whole maps of each text, float32; 0 if only the largest weights are requested.
    """
    begin, held = 0, 0
    for text, count in enumerate(counts):
        size = 4 * heads * count**2
        full = text - begin == TEXTS_AT_ONCE or held + size > MAPS_BYTES_AT_ONCE
        if full and text > begin:
            yield range(begin, text)
            begin, held = text, 0
        held += size
    yield range(begin, len(counts))


def named_by_patterns(heads: Sequence[Head], measured: PatternShares) -> list[Head]:
    """Return the heads with their shares of patterns, which may rename them."""
    rates = {name: measured.patterns[name].base_rate for name in PATTERNS}
    return [
        with_patterns(head, dict(zip(PATTERNS, row, strict=True)), rates)
        for head, row in zip(heads, measured.shares.tolist(), strict=True)
    ]


def importance(
    client: Encoder, texts: Iterable[Input] | str, **reading: Unpack[Reading]
) -> Importance:
    """Return how far the vectors of texts move when each head is removed in turn.

    Args:
        client: a client, or a runtime. It encodes all texts once with all heads, and once for
            each head.
        texts: inputs as of `Encoder.encode`.
        reading: as in `Encoder.encode`.

    Raises:
        InvalidInput: there are no texts.
        HeadlightError: of `Encoder.encode`; MixedWeights also if weights changed between two calls.
    """
    inputs = some(texts)
    described = client.model()
    shape = (described.layers, described.heads)
    whole = client.encode_with_info(inputs, **reading)
    moved = np.zeros((2, *shape), np.float32)
    for layer, head in np.ndindex(shape):
        mask = np.ones(shape, np.float32)
        mask[layer, head] = 0
        without = client.encode_with_info(inputs, head_mask=mask, **reading)
        same_weights([whole.model, without.model])
        moved[:, layer, head] = distances(whole.vectors, without.vectors)
    return Importance(moved[0], moved[1], whole.vectors, whole.model)


def distances(one: Floats, other: Floats) -> tuple[float, float]:
    """Return the mean Euclidean and mean cosine distance between the rows of two [N, D] arrays."""
    first, second = one.astype(np.float64), other.astype(np.float64)
    lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    cosines = (first * second).sum(axis=1) / np.maximum(lengths, np.finfo(np.float64).tiny)
    return float(np.linalg.norm(first - second, axis=1).mean()), max(0.0, float(1 - cosines.mean()))


def some(texts: Iterable[Input] | str) -> list[Input]:
    """Return the inputs as a list. Raises InvalidInput if there are none."""
    inputs = as_list(texts)
    if not inputs:
        raise InvalidInput("texts", Reason.NO_TEXTS)
    return inputs


def same_weights(models: Iterable[ModelRef]) -> ModelRef:
    """Return the first of some model references.

    Raises MixedWeights if the vectors of another are not comparable with it.
    """
    first, *rest = models
    if not all(ref.compares_with(first) for ref in rest):
        raise MixedWeights(
            "the service's weights changed during the analysis; "
            "start again when the roll-out has ended"
        )
    return first
