"""Outputs of third-party code for one text."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray


@dataclasses.dataclass(frozen=True, eq=False)
class Expected:
    """Outputs of n tokens, float64.

    Attributes:
        tokens: [n, D], after the last norm.
        attention: [L, H, n, n].
        hidden: [L or L + 1, n, D]: the embeddings, then the output of each block; without the last
            one if the library returns it normed.
    """

    tokens: NDArray[np.float64]
    attention: NDArray[np.float64]
    hidden: NDArray[np.float64]


class Transformers:
    """Model of transformers, in float32 and eager mode."""

    def __init__(self, model: Any) -> None:
        self.model = model
        layers = model.config.num_hidden_layers
        self.shape = (layers, model.config.num_attention_heads, layers)

    def outputs(
        self, ids: NDArray[np.int64], segments: NDArray[np.int64] | None = None
    ) -> Expected:
        """Return the outputs of one text alone, without padding."""
        return self._run(self.model, ids, segments)

    def exact(self, ids: NDArray[np.int64], segments: NDArray[np.int64] | None = None) -> Expected:
        """Return the same in float64, as far as its code allows it."""
        return self._run(copy.deepcopy(self.model).double(), ids, segments)

    @staticmethod
    def _run(model: Any, ids: NDArray[np.int64], segments: NDArray[np.int64] | None) -> Expected:
        inputs: dict[str, Any] = {"input_ids": torch.from_numpy(ids)[None]}
        if segments is not None:
            inputs["token_type_ids"] = torch.from_numpy(segments)[None]
        with torch.inference_mode():
            out = model(**inputs, output_attentions=True, output_hidden_states=True)
        return Expected(
            out.last_hidden_state[0].double().numpy(),
            torch.cat(out.attentions).double().numpy(),
            torch.cat(out.hidden_states[:-1]).double().numpy(),
        )
