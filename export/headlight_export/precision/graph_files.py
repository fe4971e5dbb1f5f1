"""Files of the graphs of further precisions, beside those of fp32."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import onnx

from headlight.runtime.bundle.manifest import Graph
from headlight_export.precision.conversion import convert, without_casts
from headlight_export.precision.quality import broken
from headlight_export.writer.fused_attention import FORMS, FUSED, PLAIN, with_fused_attention
from headlight_export.writer.weight_file import share_weights
from headlight_model.encoder import Encoder

CPU, OPENVINO, CUDA = "cpu", "openvino", "cuda"
ON_CUDA = ("bf16", "fp16")  # precisions whose graphs CUDA has kernels for


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
    models = {graph.role: onnx.load(draft / graph.file) for graph in exact}
    on_cuda = _embed_on_cuda(models, precision, encoder, kept)
    for model in models.values():
        _convert(model, precision, encoder, kept)
    weights = f"weights.{precision}.bin"
    share_weights([*models.values(), *([on_cuda] if on_cuda else [])], draft / weights)
    written = []

    def write(graph: Graph, model: onnx.ModelProto, name: str, *providers: str) -> None:
        onnx.save(model, draft / name)
        written.append(
            dataclasses.replace(
                graph, precision=precision, file=name, weights=(weights,), providers=providers
            )
        )

    for graph in exact:
        name, fused = f"{graph.role}.{precision}.onnx", on_cuda if graph.role == "embed" else None
        on_both = precision in ON_CUDA and fused is None
        write(graph, models[graph.role], name, CPU, *((CUDA,) if on_both else ()))
        if fused is not None:
            form = dataclasses.replace(graph, form=FUSED)
            write(form, fused, f"embed.{FUSED}.{CUDA}.{precision}.onnx", CUDA)
    return written


def _embed_on_cuda(
    models: Mapping[str, onnx.ModelProto],
    precision: str,
    encoder: Encoder,
    kept: Collection[str],
) -> onnx.ModelProto | None:
    """Return the graph of vectors for CUDA, if it differs from that for CPUs.

    It multiplies in the precision, and has fused attention. In bf16, CPUs have no kernels for
    either.
    """
    form = FORMS.get((CUDA, precision))
    if form is None or "embed" not in models:
        return None
    model = onnx.ModelProto()
    model.CopyFrom(models["embed"])
    _convert(model, precision, encoder, kept, narrow=True)
    fused = with_fused_attention(model, encoder.config, form)
    if fused is not None:
        without_casts(fused, form.kind)
    return fused


def _convert(
    model: onnx.ModelProto,
    precision: str,
    encoder: Encoder,
    kept: Collection[str],
    *,
    narrow: bool = False,
) -> None:
    """Convert a graph in place. Raises ValueError if the precision cannot hold its weights."""
    parameters = {f"encoder.{name}" for name, _ in encoder.named_parameters()}
    try:
        convert(model, precision, parameters, kept, narrow=narrow)
    except ValueError as error:
        raise broken(CPU, precision, f"cannot hold the weights: {error}") from error
