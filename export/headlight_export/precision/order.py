"""Order of a precision's scores, against fp32: of documents for a query, or of an input's labels.

Vectors of models that score compare nothing, and a small change of a logit harms nobody: the order
is what is used.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headlight.outputs.scores import ALL
from headlight.runtime.encode_items import EncodeItem
from headlight.runtime.runtime import Runtime
from headlight.runtime.values import Floats
from headlight_export.precision.sample_texts import Passages, spread

QUERIES, DOCUMENTS = 8, 24  # lists, and items of each
CUT = 10  # documents that a reader sees


class Order(NamedTuple):
    """Agreement of the order of lists with that of fp32, on average over the lists.

    Attributes:
        lists: how many.
        items: documents or labels of each.
        kendall_tau: share of the pairs that fp32 orders which have the same order, less the share
            that has the other.
        ndcg_at_10: normalised discounted gain, if the first ten of fp32 have the gains 10 to 1.
    """

    lists: int
    items: int
    kendall_tau: float
    ndcg_at_10: float

    @property
    def size(self) -> dict[str, int]:
        """What was ordered, for parity.json."""
        return {"lists": self.lists, "items": self.items}


def compare_order(exact: Runtime, variant: Runtime, texts: Passages) -> Order | None:
    """Return the agreement of a variant's order; None: the model gives no scores of texts.

    A model of one score orders pairs of texts, or texts if there is no tokenizer. Others order
    their labels for each text.
    """
    shape = exact.bundle.manifest.architecture
    if not shape.labels or shape.token_labels:
        return None
    lists = _items(exact, texts)
    return agreement(_logits(exact, lists), _logits(variant, lists))


def agreement(exact: Floats, other: Floats) -> Order:
    """Return how the order of lists agrees with that of others: float32 [lists, items], twice."""
    lists, items = exact.shape
    return Order(
        lists,
        items,
        float(np.mean([_kendall(*pair) for pair in zip(exact, other, strict=True)])),
        float(np.mean([_ndcg(*pair) for pair in zip(exact, other, strict=True)])),
    )


def _items(exact: Runtime, texts: Passages) -> list[list[EncodeItem]]:
    """Return the lists of items: pairs of a query and each document, or texts."""
    selection = exact.select(pooled=False, scores=ALL)
    read = [EncodeItem(each.ids, selection, each.segments) for each in texts.items]
    if exact.bundle.manifest.architecture.labels > 1:
        return [[each] for each in spread(read, QUERIES * DOCUMENTS)]
    if exact.tokenizer is None or "pair" not in exact.bundle.manifest.accepts or not texts.texts:
        return [read]
    queries = spread(texts.texts, QUERIES)
    documents = spread([text for text in texts.texts if text not in queries], DOCUMENTS)
    return [
        [
            each.item
            for each in exact.prepare(
                [(query, document) for document in documents],
                selection,
                truncation="cut_end",
                special_tokens="text",
            )
        ]
        for query in queries
    ]


def _logits(runtime: Runtime, lists: list[list[EncodeItem]]) -> Floats:
    """Return float32 [lists, items], or [lists, labels] if each list is of one item."""
    flat = [item for items in lists for item in items]
    outputs = runtime.engine.run_in_batches(flat)
    return np.concatenate([each["scores"] for each in outputs]).reshape(len(lists), -1)


def _kendall(exact: Floats, other: Floats) -> float:
    """Return Kendall's tau of two lists of scores; pairs that tie in the first do not count."""
    above = np.triu_indices(len(exact), 1)
    signs = [np.sign(scores[:, None] - scores)[above] for scores in (exact, other)]
    if not np.any(signs[0]):
        return 1.0
    return float((signs[0] * signs[1]).sum() / np.abs(signs[0]).sum())


def _ndcg(exact: Floats, other: Floats) -> float:
    """Return NDCG@CUT of the order of `other`, whose ideal is that of `exact`: float32 [n]."""
    first = min(CUT, len(exact))
    ideal, order = _falling(exact), _falling(other)
    gains = np.zeros(len(exact))
    gains[ideal[:first]] = np.arange(first, 0, -1)
    discounts = 1 / np.log2(np.arange(first) + 2)
    return float(
        (gains[order[:first]] * discounts).sum() / (gains[ideal[:first]] * discounts).sum()
    )


def _falling(scores: Floats) -> NDArray[np.int64]:
    return np.argsort(-scores, kind="stable")
