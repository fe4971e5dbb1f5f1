"""Graph `head`: the Dense layers behind pooling, for vectors of spans.

It holds its weights, so that a runtime in another precision need not read those of fp32.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import onnx
import torch
from torch import Tensor, nn
from torch.export import Dim

from headlight.runtime.bundle.manifest import Graph
from headlight_export.writer.graphs import exported
from headlight_model.encoder import Encoder

MOST_VECTORS = 1 << 20


class Head(nn.Module):
    """The Dense layers of an encoder. Normalisation is the runtime's."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.dense = encoder.dense

    def forward(self, vectors: Tensor) -> Tensor:
        """Map float [N, dim] to [N, pooled_dim]."""
        for dense in self.dense:
            vectors = dense(vectors)
        return vectors


def write_head(draft: Path, encoder: Encoder, providers: Sequence[str]) -> tuple[Graph, ...]:
    """Write the graph of a model's Dense layers; return nothing for a model without any."""
    if not encoder.config.dense:
        return ()
    example = torch.zeros((2, encoder.config.dim))
    free = {0: Dim("vectors", min=1, max=MOST_VECTORS)}
    model = exported(Head(encoder), {"vectors": example}, {"vectors": free}, ["pooled"])
    graph = Graph(
        role="head",
        form="decomposed",
        precision="fp32",
        file="head.onnx",
        weights=(),
        inputs=("vectors",),
        outputs=("pooled",),
        providers=tuple(providers),
    )
    onnx.save(model, draft / graph.file)
    return (graph,)
