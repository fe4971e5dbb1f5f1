"""From logits to scores: activations, and the order of documents and labels.

The order is that of the logits: float32 has no numbers between a sigmoid above 17 and 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headlight.description import ModelDescription
from headlight.errors import InvalidInput, Phrase, Reason
from headlight.interface.checked_specs import UINT32
from headlight.refusals import Path
from headlight.results import LabelScore, ModelRef, RankedDocument, Scores


def activated(logits: NDArray[np.float32], activation: str) -> NDArray[np.float32]:
    """Return scores of logits: float32 [..., labels]. No logit overflows.

    `activation`: one of `headlight.spec.ACTIVATIONS`; empty or unknown, as of a newer service: none
    is applied.
    """
    if activation not in ("sigmoid", "softmax"):
        return logits
    if activation == "sigmoid":
        small = np.exp(-np.abs(logits))
        scores: NDArray[np.float32] = np.where(logits >= 0, 1, small) / (1 + small)
        return scores
    with np.errstate(over="ignore"):  # -inf has the power 0, as a difference below -104 has
        powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    scores = powers / powers.sum(axis=-1, keepdims=True)
    return scores


def falling(logits: NDArray[np.float32]) -> list[int]:
    """Return the indices of the largest first, and of equal ones the first first: float [n]."""
    order: list[int] = np.argsort(-logits, kind="stable").tolist()
    return order


def documents_of(query: object, documents: object, top_n: object) -> list[str]:
    """Return the documents for a query; a lone one counts as a list of one.

    Raises:
        InvalidInput: the query or a document is no text, there is no document, or `top_n` is no
            number from 1.
    """
    texts = [documents] if isinstance(documents, str) else documents
    if not isinstance(texts, Iterable):
        raise InvalidInput("documents", Reason.MUST_BE, kind=Phrase.TEXTS)
    if not isinstance(query, str):
        raise InvalidInput("query", Reason.MUST_BE, kind=Phrase.TEXT)
    if top_n is not None and not (type(top_n) is int and 1 <= top_n <= UINT32[1]):
        raise InvalidInput("top_n", Reason.MUST_BE, kind=Phrase.WHOLE_FROM_1)
    strings = list[str]()
    for at, document in enumerate(texts):
        if not isinstance(document, str):
            raise InvalidInput(f"documents[{at}]", Reason.MUST_BE, kind=Phrase.TEXT)
        strings.append(document)
    if not strings:
        raise InvalidInput("documents", Reason.NO_ENTRIES)
    return strings


def pair_names(count: int, documents: str = "documents", *, text: bool = False) -> dict[Path, Path]:
    """Return the names that the texts of so many pairs have as a query and its documents.

    `text`: the query and the documents are messages, with the text as a field.
    """
    last: Path = ("text",) if text else ()
    names: dict[Path, Path] = {("inputs",): (documents,)}
    for at in range(count):
        pair = ("inputs", at, "pair")
        names[pair] = (documents, at)
        names[(*pair, "first")] = ("query", *last)
        names[(*pair, "second")] = (documents, at, *last)
    return names


def ranked(
    documents: Sequence[str], scores: Sequence[Scores], top_n: int | None
) -> list[RankedDocument]:
    """Return documents by the falling logit of their pairs, `top_n` of them; None: all.

    Raises:
        InvalidInput: the model does not give one score.
    """
    if scores[0].logits.shape != (1,):
        raise InvalidInput("model", Reason.NO_RERANKER, labels=len(scores[0].labels))
    logits = np.array([each.logits[0] for each in scores], np.float32)
    return [
        RankedDocument(
            at, float(scores[at].values[0]), float(logits[at]), documents[at], scores[at].cut_tokens
        )
        for at in falling(logits)[:top_n]
    ]


def classified(scores: Sequence[Scores]) -> list[list[LabelScore]]:
    """Return the labels of each input by falling logit.

    Raises:
        InvalidInput: the model classifies tokens.
    """
    if scores and scores[0].logits.ndim > 1:
        raise InvalidInput("model", Reason.CLASSIFIES_TOKENS)
    return [
        [
            LabelScore(each.labels[at], float(each.values[at]), float(each.logits[at]))
            for at in falling(each.logits)
        ]
        for each in scores
    ]


def scores_of(
    logits: NDArray[Any], model: ModelDescription, origin: ModelRef, counts: tuple[int, int]
) -> Scores:
    """Return the scores of one input.

    Args:
        logits: float32 [labels], or [tokens, labels].
        model: its labels and its activation.
        origin: the weights.
        counts: tokens before and after truncation.
    """
    values = activated(logits, model.activation)
    original, kept = counts
    return Scores(logits, values, model.labels, kept, original - kept, origin)
