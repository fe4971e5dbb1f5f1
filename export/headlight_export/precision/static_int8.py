"""Static int8 graphs for OpenVINO, calibrated by NNCF.

Products with weights of the encoder's layers get int8 inputs with one scale for each tensor, and
int8 weights with a scale for each column. All else stays as traced, products of attention included.
A graph has QuantizeLinear and DequantizeLinear nodes, which OpenVINO fuses into int8 products.
Scales are constants: they do not depend on the batch.

Weights use half of the range of int8. Processors without VNNI add pairs of products in 16 bits,
where whole int8 weights overflow. On docs-rope, this cost 0.3 % of neighbours, and overflow 9 %.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import logging
import warnings
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from headlight.errors import BundleError
from headlight.extras import remedy
from headlight.runtime.bundle.manifest import Graph
from headlight.runtime.providers import openvino_session
from headlight_export.precision.layer_search import layer_products
from headlight_export.precision.sample_texts import Passage
from headlight_export.writer.weight_file import share_weights

WEIGHTS = "weights.int8-static.bin"
PRODUCT = "MatMul"


def check_nncf() -> None:
    """Check that NNCF is installed.

    Raises:
        BundleError: it is not; the message names the extra.
    """
    if importlib.util.find_spec("nncf") is None:
        raise BundleError(
            f"--precision int8 with --provider openvino needs NNCF ({remedy('int8')})"
        )


def nncf_library() -> Any:
    """Return NNCF, which sends no telemetry and logs errors alone."""
    # Without the package openvino_telemetry, which this call hides, NNCF reports nothing.
    openvino_session.library()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of NNCF's dependencies
        import nncf  # noqa: PLC0415  (an extra)
    nncf.set_log_level(logging.ERROR)
    return nncf


def calibrate(model: onnx.ModelProto, texts: Sequence[Passage]) -> onnx.ModelProto:
    """Return a copy of the graph `embed` with all products of the layers in int8.

    Args:
        model: fp32, its weights inside.
        texts: their activations set the scales of inputs.
    """
    nncf = nncf_library()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of NNCF's dependencies
        chosen = {name for names in layer_products(model.graph).values() for name in names}
        left_out = [node.name for node in model.graph.node if node.name not in chosen]
        names = {value.name for value in model.graph.input}
        with contextlib.redirect_stdout(io.StringIO()):  # its progress bars
            quantized = nncf.quantize(
                model,
                nncf.Dataset([_feeds(text, names) for text in texts]),
                subset_size=len(texts),
                model_type=nncf.ModelType.TRANSFORMER,
                ignored_scope=nncf.IgnoredScope(names=left_out, validate=False),
                advanced_parameters=nncf.AdvancedQuantizationParameters(
                    overflow_fix=nncf.OverflowFix.ENABLE,
                    disable_bias_correction=True,  # it kept no more neighbours of docs-rope
                ),
            )
    assert isinstance(quantized, onnx.ModelProto)
    return quantized


def _feeds(text: Passage, names: Collection[str]) -> dict[str, Any]:
    ids = text.ids[None]
    segments = np.zeros_like(ids) if text.segments is None else text.segments[None]
    every = {"ids": ids, "segments": segments} | dict.fromkeys(
        ("mask", "pool_mask"), np.ones_like(ids)
    )
    return {name: every[name] for name in names}


def write_static(
    draft: Path, exact: Iterable[Graph], calibrated: onnx.ModelProto, kept: Collection[str] = ()
) -> list[Graph]:
    """Write int8 graphs for OpenVINO beside those of fp32, whose other weights they share.

    Args:
        draft: the bundle.
        exact: its fp32 graphs.
        calibrated: from `calibrate`.
        kept: names of products that stay in fp32.
    """
    models = {graph: onnx.load(draft / graph.file, load_external_data=False) for graph in exact}
    for model in models.values():
        _transplant(calibrated.graph, model.graph, kept)
    share_weights(models.values(), draft / WEIGHTS)
    written = []
    for graph, model in models.items():
        file = f"{graph.role}.int8-static.onnx"
        onnx.save(model, draft / file)
        written.append(
            Graph(
                role=graph.role,
                form=graph.form,
                precision="int8",
                file=file,
                weights=(*graph.weights, WEIGHTS),
                inputs=graph.inputs,
                outputs=graph.outputs,
                providers=("openvino",),
            )
        )
    return written


def _transplant(calibrated: onnx.GraphProto, graph: onnx.GraphProto, kept: Collection[str]) -> None:
    """Give the products of a graph the inputs that those of the calibrated graph have.

    Both are of one trace, so nodes and values have the same names.
    """
    makers = {output: node for node in calibrated.node for output in node.output}
    constants = {tensor.name: tensor for tensor in calibrated.initializer}
    products = {node.name: node for node in calibrated.node if node.op_type == PRODUCT}
    known = {output for node in graph.node for output in node.output}
    known |= {tensor.name for tensor in graph.initializer} | {value.name for value in graph.input}
    nodes: list[onnx.NodeProto] = []

    def bring(name: str) -> None:
        """Add a value of the calibrated graph, and all that it is made of."""
        if name in known:
            return
        known.add(name)
        if name in constants:
            graph.initializer.append(constants[name])
            return
        for needed in makers[name].input:
            bring(needed)
        nodes.append(makers[name])

    for node in list(graph.node):
        if node.name in products and node.name not in kept:
            for name in products[node.name].input:
                bring(name)
            node.input[:] = products[node.name].input
        nodes.append(node)
    _replace_nodes(graph, nodes)


def _replace_nodes(graph: onnx.GraphProto, nodes: Sequence[onnx.NodeProto]) -> None:
    """Write the nodes into the graph, without unused weights."""
    used = {name for node in nodes for name in node.input}
    used |= {value.name for value in graph.output}
    constants = [tensor for tensor in graph.initializer if tensor.name in used]
    copied = [onnx.NodeProto() for _ in nodes]
    for copy, node in zip(copied, nodes, strict=True):
        copy.CopyFrom(node)
    del graph.node[:]
    graph.node.extend(copied)
    kept = [onnx.TensorProto() for _ in constants]
    for tensor, constant in zip(kept, constants, strict=True):
        tensor.CopyFrom(constant)
    del graph.initializer[:]
    graph.initializer.extend(kept)
