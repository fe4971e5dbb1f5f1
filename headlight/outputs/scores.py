"""Scores of a model that reranks or classifies: logits of each input, or of each token."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from headlight.outputs.contract import messages
from headlight.outputs.layout import Tensor
from headlight.outputs.output import Item, Output

if TYPE_CHECKING:
    from headlight.description import ModelDescription
    from headlight.outputs.vector_forms import AvailableForms
    from headlight.pb import headlight_pb2 as pb
    from headlight.runtime.values import Architecture, Arrays

LOGITS = "logits"  # the graph's output: float [B, labels], or [B, S, labels] of each token
ALL = "all labels"  # the only spec


class LabelChoice(NamedTuple):
    """How many scores an input has, or each of its tokens."""

    labels: int
    each_token: bool


class LabelScores(Output):
    """Logits in float32. The activation follows outside: `headlight.interface.scoring`."""

    name = "scores"
    axes = ("label",)
    reads = (LOGITS,)
    tolerance = "scores"
    floor = 1e-5
    by_number = True

    def choose(self, spec: Any, model: ModelDescription, forms: AvailableForms) -> LabelChoice:
        return LabelChoice(len(model.labels), model.token_labels)

    def given_by(self, architecture: Architecture) -> bool:
        return architecture.labels > 0

    def whole(self, architecture: Architecture) -> LabelChoice:
        return LabelChoice(architecture.labels, architecture.token_labels)

    def one_size(self, choice: LabelChoice) -> bool:
        return not choice.each_token

    def tensors(
        self, choice: LabelChoice, place: None, count: int, model: Architecture | ModelDescription
    ) -> tuple[Tensor, ...]:
        if choice.each_token:
            return (Tensor("scores", "float32", (count, choice.labels), ("token", "label")),)
        return (Tensor("scores", "float32", (choice.labels,), self.axes),)

    def cut(self, choice: LabelChoice, item: Item, outputs: Arrays, row: int) -> Arrays:
        logits = outputs[LOGITS][row]
        row = logits[: len(item.ids)] if logits.ndim > 1 else logits
        return {"scores": np.array(row, np.float32)}

    def usable(self, choice: LabelChoice, result: Arrays, usual: bool) -> bool:
        return bool(np.isfinite(result["scores"]).all())

    def graph_shapes(self, architecture: Architecture) -> dict[str, tuple[int, ...]]:
        tokens = (0,) if architecture.token_labels else ()
        return {LOGITS: (0, *tokens, architecture.labels)}

    def message_of(self, spec: Any) -> pb.ScoresOutput:
        message: pb.ScoresOutput = messages().ScoresOutput()
        return message

    def spec_of(self, message: pb.ScoresOutput) -> Any:
        return ALL
