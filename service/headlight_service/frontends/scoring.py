"""Scores as the dialects of rerank and classify return them: sorted, activated or raw."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headlight.errors import InvalidInput, Reason
from headlight.interface.scoring import activated, falling
from headlight.outputs.scores import ALL
from headlight_service.core.models import ServedModel
from headlight_service.core.requests.answer import Answer
from headlight_service.core.requests.request import OutputSpec

LABELLING = ("classify", "rerank")  # tasks of models that give labels of a text
SCORES = OutputSpec(pooled=False, scores=ALL)


class Scored(NamedTuple):
    """Scores of several inputs.

    Attributes:
        logits: float32 [N, labels], which decide the order.
        values: the same behind the activation of the model's folder; of raw scores, the logits.
    """

    logits: NDArray[np.float32]
    values: NDArray[np.float32]

    def ranks(self) -> list[tuple[int, np.float32]]:
        """Return places and scores of inputs, the best first."""
        return [(at, self.values[at, 0]) for at in falling(self.logits[:, 0])]

    def labels(self, names: tuple[str, ...]) -> list[list[tuple[str, np.float32]]]:
        """Return names and scores of the labels of each input, the likeliest first."""
        return [
            [(names[at], values[at]) for at in order]
            for order, values in zip(self.orders(), self.values, strict=True)
        ]

    def orders(self) -> list[list[int]]:
        """Return the places of the labels of each input, the likeliest first."""
        return [falling(logits) for logits in self.logits]


def scored(answer: Answer, model: ServedModel, *, raw: bool) -> Scored:
    """Return the scores of an answer."""
    logits = np.stack(answer.arrays("scores")["scores"])
    return Scored(logits, logits if raw else activated(logits, model.description.activation))


def check_scores(model: ServedModel, field: str = "model") -> None:
    """Refuse a model that gives no scores of texts. Raises InvalidInput, naming `field`."""
    model.check_gives("scores", field)
    if model.description.token_labels:
        raise InvalidInput(field, Reason.CLASSIFIES_TOKENS)


def check_ranks(model: ServedModel) -> None:
    """Refuse a model that does not give one score of a pair. Raises InvalidInput."""
    check_scores(model)
    if len(model.description.labels) != 1:
        raise InvalidInput("model", Reason.NO_RERANKER, labels=len(model.description.labels))
