"""The two graphs of a bundle, traced from the encoder.

`embed` computes vectors and nothing else. `attend` also returns each layer's attention weights and hidden states, each as an output
of its own name. They are two because ONNX Runtime runs every node whichever outputs are fetched: a caller who wants a vector must
not pay for attention. Both write attention in plain operations (MatMul, Add, Softmax, MatMul), which every provider can run.
"""

from __future__ import annotations

import logging
import warnings
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from model.encoder import Encoder

if TYPE_CHECKING:
    import onnx

OPSET = 20  # the first with Gelu as one operator
INPUTS = ("ids", "mask")


class Embed(nn.Module):
    """ids, mask -> pooled, tokens."""

    outputs: tuple[str, ...] = ("pooled", "tokens")

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, ...]:
        """int64 [B, S], int64 [B, S] -> float [B, D], [B, S, D]."""
        out = self.encoder(ids, mask, fused=False)
        return out.pooled, out.tokens


class Attend(nn.Module):
    """ids, mask -> pooled, tokens, attention_0 .. attention_{L-1}, hidden_0 .. hidden_L."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = encoder
        layers = encoder.config.layers
        attention = tuple(f"attention_{layer}" for layer in range(layers))
        self.outputs = ("pooled", "tokens", *attention, *(f"hidden_{layer}" for layer in range(layers + 1)))

    def forward(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, ...]:
        """int64 [B, S], int64 [B, S] -> float [B, D], [B, S, D], L of [B, H, S, S], L+1 of [B, S, D]."""
        out = self.encoder(ids, mask, fused=False)
        return out.pooled, out.tokens, *out.attention, *out.hidden


GRAPHS: dict[str, type[Embed] | type[Attend]] = {"embed": Embed, "attend": Attend}


def trace(encoder: Encoder, role: str) -> tuple[onnx.ModelProto, tuple[str, ...]]:
    """Export one graph, its batch and length free.

    Args:
        encoder: float32, in evaluation mode, on the CPU.
        role: a key of GRAPHS.

    Returns:
        The model with its weights inside, and its output names in order.
    """
    graph = GRAPHS[role](encoder).eval()
    batch = torch.export.Dim("batch", min=1, max=1 << 20)
    length = torch.export.Dim("length", min=1, max=encoder.config.max_length)
    free = {0: batch, 1: length}
    # Extents other than 1, which the tracer would take for a constant.
    ids = torch.ones((2, min(5, encoder.config.max_length)), dtype=torch.int64)
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter's remarks on its own innards; what it yields is proven by parity
        program = torch.onnx.export(
            graph,
            (ids, torch.ones_like(ids)),
            dynamo=True,
            input_names=INPUTS,
            output_names=graph.outputs,
            dynamic_shapes=(free, free),
            opset_version=OPSET,
            external_data=False,
            verbose=False,
        )
    assert program is not None  # only the exporter's older form returns nothing
    model = program.model_proto
    _drop_remarks(model)
    return model, graph.outputs


def _drop_remarks(model: onnx.ModelProto) -> None:
    """Remove the exporter's notes on where each node came from: three quarters of the file, and paths of the machine it ran on."""
    model.ClearField("metadata_props")
    model.graph.ClearField("metadata_props")
    for part in (
        *model.graph.node,
        *model.graph.initializer,
        *model.graph.value_info,
        *model.graph.input,
        *model.graph.output,
    ):
        part.ClearField("metadata_props")
        part.ClearField("doc_string")
