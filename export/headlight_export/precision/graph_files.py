"""Files of the graphs of further precisions, beside those of fp32."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from pathlib import Path

import onnx

from headlight.runtime.bundle.manifest import Graph
from headlight_export.precision.conversion import convert
from headlight_export.precision.quality import broken
from headlight_export.writer.fused_attention import PLAIN
from headlight_export.writer.weight_file import share_weights
from headlight_model.encoder import Encoder

CPU, OPENVINO, CUDA = "cpu", "openvino", "cuda"
# Precisions whose graphs CUDA has kernels for. bf16 graphs hold bfloat16 weights and compute in
# float32, as everywhere.
ON_CUDA = ("bf16", "fp16")


def convertible(graphs: Sequence[Graph]) -> list[Graph]:
    """Return the graphs that those of other precisions are made of: fp32, in plain operators."""
    return [
        graph
        for graph in graphs
        if graph.precision == "fp32" and graph.role != "head" and graph.form == PLAIN
    ]


def write_precision(
    draft: Path,
    exact: Sequence[Graph],
    precision: str,
    encoder: Encoder,
    kept: Collection[str] = (),
) -> list[Graph]:
    """Write the graphs of one precision, with one file of weights.

    Args:
        draft: the bundle.
        exact: its graphs that are `convertible`.
        precision: one of headlight_export.precision.conversion.PRECISIONS.
        encoder: the model.
        kept: names of products that stay in fp32.

    Raises:
        ValueError: a weight is beyond the range of the precision.
    """
    parameters = {f"encoder.{name}" for name, _ in encoder.named_parameters()}
    models = {graph.role: onnx.load(draft / graph.file) for graph in exact}
    for model in models.values():
        try:
            convert(model, precision, parameters, kept)
        except ValueError as error:
            raise broken(CPU, precision, f"cannot hold the weights: {error}") from error
    weights = f"weights.{precision}.bin"
    share_weights(models.values(), draft / weights)
    written = []
    for graph in exact:
        file = f"{graph.role}.{precision}.onnx"
        onnx.save(models[graph.role], draft / file)
        providers = (CPU, CUDA) if precision in ON_CUDA else (CPU,)
        written.append(
            dataclasses.replace(
                graph, precision=precision, file=file, weights=(weights,), providers=providers
            )
        )
    return written
