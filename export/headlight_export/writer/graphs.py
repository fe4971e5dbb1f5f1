"""The two graphs of a bundle: `attend` is traced, `embed` is made of it (`vectors_graph`).

`embed` computes vectors and nothing else. `attend` takes a mask of heads, and also returns each
layer's hidden states and the selected attention (`headlight_export.writer.selector_nodes`). Each
has its own output. ONNX Runtime runs every node whichever outputs are fetched, so a request for a
vector would otherwise pay for attention. Both write attention in plain operations (MatMul, Add,
Softmax, MatMul), which every provider can run.
"""

from __future__ import annotations

import copy
import dataclasses
import logging
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.export import Dim

from headlight_export.writer.selector_nodes import add_selectors
from headlight_model.config import EncoderConfig
from headlight_model.encoder import Encoder, EncoderOutput

if TYPE_CHECKING:
    import onnx

OPSET = 20  # the first with Gelu as one operator


class Embed(nn.Module):
    """Graph of ids, mask and, if the model has them, segments and pool_mask.

    It returns pooled (before normalisation), tokens, and what the model's heads give.
    """

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        # Vectors can be cut before they are normalised, so the runtime normalises them.
        self.encoder = copy.copy(encoder)
        vectors = encoder.config.multi_vector_head
        self.encoder.config = dataclasses.replace(
            encoder.config,
            normalize=False,
            multi_vector_head=vectors and dataclasses.replace(vectors, normalize=False),
        )
        optional = {
            "segments": encoder.config.segments > 0,
            "pool_mask": not encoder.config.include_prompt,
        }
        self.inputs: tuple[str, ...] = (
            "ids",
            "mask",
            *(name for name, there in optional.items() if there),
        )
        self.outputs: tuple[str, ...] = ("pooled", "tokens", *encoder.heads)
        self.maps: tuple[str, ...] = ()  # further outputs, which selectors replace

    def forward(
        self,
        ids: Tensor,
        mask: Tensor,
        segments: Tensor | None = None,
        pool_mask: Tensor | None = None,
    ) -> tuple[Tensor, ...]:
        """Map int64 [B, S], four times, to the outputs; see `EncoderOutput`."""
        out = self.encoder(ids, mask, segments=segments, pool_mask=pool_mask, fused=False)
        return _vectors(out)


class Attend(Embed):
    """Graph of Embed's inputs and head_mask.

    It returns Embed's outputs, hidden_0 .. hidden_L and, until selectors replace them, maps of
    attention.
    """

    def __init__(self, encoder: Encoder) -> None:
        super().__init__(encoder)
        layers = encoder.config.layers
        self.inputs = (*self.inputs, "head_mask")
        self.outputs = (*self.outputs, *(f"hidden_{layer}" for layer in range(layers + 1)))
        self.maps = tuple(
            f"{kind}_of_{layer}" for kind in ("weights", "scores") for layer in range(layers)
        )

    def forward(
        self,
        ids: Tensor,
        mask: Tensor,
        segments: Tensor | None = None,
        pool_mask: Tensor | None = None,
        head_mask: Tensor | None = None,
    ) -> tuple[Tensor, ...]:
        """Map int64 [B, S], four times, and float [B, L, H] to the outputs.

        They are Embed's, L+1 of [B, S, D], twice L of [B, H, S, S].
        """
        out = self.encoder(
            ids, mask, segments=segments, head_mask=head_mask, pool_mask=pool_mask, fused=False
        )
        return *_vectors(out), *out.hidden, *out.attention, *out.scores


def _vectors(out: EncoderOutput) -> tuple[Tensor, ...]:
    return (out.pooled, out.tokens, *out.heads.values())


def trace(encoder: Encoder) -> onnx.ModelProto:
    """Export the graph `attend`, its batch and length free.

    Args:
        encoder: float32, in evaluation mode, on the CPU.

    Returns:
        The model with its weights inside.
    """
    model = traced(Attend(encoder), OPSET)
    add_selectors(model, encoder.config.layers, encoder.config.heads)
    return model


def traced(graph: Embed, opset: int) -> onnx.ModelProto:
    """Export a graph's module unchanged, in operators of an opset version.

    Batch and length are free, and weights are inside.
    """
    inputs, shapes = _examples(graph.encoder.config, graph.inputs)
    return exported(graph, inputs, shapes, (*graph.outputs, *graph.maps), opset)


def exported(
    module: nn.Module,
    inputs: Mapping[str, Tensor],
    shapes: Mapping[str, Mapping[int, Dim]],
    outputs: Sequence[str],
    opset: int = OPSET,
) -> onnx.ModelProto:
    """Export a module, with its weights inside.

    Args:
        module: in float32, on the CPU.
        inputs: examples, by name.
        shapes: the free axes of each.
        outputs: names of its outputs.
        opset: version of the operators.
    """
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the exporter's internals; parity proves its result
        program = torch.onnx.export(
            module.eval(),
            (),
            kwargs=dict(inputs),
            dynamo=True,
            input_names=tuple(inputs),
            output_names=tuple(outputs),
            dynamic_shapes=dict(shapes),
            opset_version=opset,
            external_data=False,
            verbose=False,
        )
    assert program is not None  # only the exporter's older form returns nothing
    model = program.model_proto
    _drop_remarks(model)
    return model


def _examples(
    config: EncoderConfig, names: Sequence[str]
) -> tuple[dict[str, Tensor], dict[str, dict[int, Dim]]]:
    """Return inputs to trace with, by name, and their free axes.

    No extent is 1, which would become a constant.
    """
    batch = Dim("batch", min=1, max=1 << 20)
    length = Dim("length", min=1, max=config.max_length)
    ids = torch.ones((2, min(5, config.max_length)), dtype=torch.int64)
    inputs = {
        "ids": ids,
        "mask": torch.ones_like(ids),
        "segments": torch.zeros_like(ids),
        "pool_mask": torch.ones_like(ids),
    }
    inputs["head_mask"] = torch.ones((2, config.layers, config.heads))
    free = {0: batch, 1: length}
    shapes = {name: {0: batch} if name == "head_mask" else free for name in names}
    return {name: inputs[name] for name in names}, shapes


def _drop_remarks(model: onnx.ModelProto) -> None:
    """Remove the exporter's notes on each node's origin.

    They are three quarters of the file, and have paths of the machine.
    """
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
