"""Parts of a bundle in fp32: graphs, weights, tokenizer, golden inputs and their manifest."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch

from headlight.outputs.registry import GRAPH_ROLES, OUTPUTS
from headlight.runtime.bundle.manifest import Graph, Manifest, Tolerance
from headlight.runtime.values import Architecture
from headlight_export.folders.origin import Origin
from headlight_export.parity.parity_report import SEED
from headlight_export.parity.reference import Reference, tolerances
from headlight_export.precision.graph_files import CPU, CUDA, OPENVINO
from headlight_export.precision.variants import SLACK
from headlight_export.progress import TRACING, Progress
from headlight_export.tokenizers.tokenizer_file import takes_pairs
from headlight_export.writer.fused_attention import (
    FORMS,
    FUSED,
    PLAIN,
    with_fused_attention,
)
from headlight_export.writer.golden_answers import write_golden
from headlight_export.writer.graphs import OPSET, trace
from headlight_export.writer.head_graph import write_head
from headlight_export.writer.vectors_graph import vectors_alone
from headlight_export.writer.weight_file import WeightFile
from headlight_model.checkpoint import TOKENIZER
from headlight_model.config import EncoderConfig
from headlight_model.encoder import Encoder

GOLDEN, WEIGHT_FILE, QUERY_TERMS = "golden.npz", "weights.bin", "query_terms.npz"
PRECISION = "fp32"


def write_parts(
    draft: Path,
    origin: Origin,
    reference: Reference,
    own_error: dict[str, float],
    progress: Progress,
) -> Manifest:
    """Write graphs, weights, tokenizer and golden inputs, and return their manifest.

    It covers fp32 only, without any proof.
    """
    graphs = _write_graphs(draft, origin.encoder, progress)
    write_golden(draft / GOLDEN, reference)
    if has_tokenizer := origin.tokenizer is not None:
        (draft / TOKENIZER).write_text(origin.tokenizer, encoding="utf-8")
    if origin.query_terms is not None:
        np.savez(draft / QUERY_TERMS, weights=origin.query_terms)
    config, limits = origin.encoder.config, tolerances(own_error)
    architecture = architecture_of(config)
    rounding = reference.own_rounding(SEED)
    rounded = {output: max(SLACK * error, limits[output]) for output, error in rounding.items()}
    return Manifest(
        name="",
        version="",
        architecture=architecture,
        trained_length=config.trained_length,
        max_length=config.max_length,
        pooling=config.pooling,
        normalize=config.normalize,
        accepts=_accepts(config, has_tokenizer),
        graphs=graphs,
        # "*": the limit for providers that are not available here.
        tolerances=(
            *(Tolerance(provider=p, precision=PRECISION, limits=limits) for p in (CPU, "*")),
            Tolerance(provider="*", precision="bf16", limits=rounded),
        ),
        parity=(),
        golden=GOLDEN,
        tokenizer=TOKENIZER if has_tokenizer else None,
        files={},
        source=_source(origin),
        outputs=outputs_of(origin.task, architecture),
        task=origin.task,
        labels=() if config.score_head is None else config.score_head.labels,
        activation="" if config.score_head is None else config.score_head.activation,
        prompts=origin.recipe.prompts,
        default_prompt=origin.recipe.default_prompt,
        include_prompt=config.include_prompt,
        pair_template=origin.pair_template,
        roles=origin.roles,
        query_terms=None if origin.query_terms is None else QUERY_TERMS,
        dimensions=tuple(n for n in origin.recipe.dimensions if n <= config.pooled_dim),
        similarity=origin.recipe.similarity,
        dense_layers=len(config.dense),
    )


def architecture_of(config: EncoderConfig) -> Architecture:
    """Return the architecture of an encoder, as a manifest has it."""
    head, vectors = config.score_head, config.multi_vector_head
    return Architecture(
        positions=config.positions,
        layers=config.layers,
        heads=config.heads,
        dim=config.dim,
        pooled_dim=config.pooled_dim,
        vocab_size=config.vocab_size,
        segments=config.segments,
        labels=0 if head is None else len(head.labels),
        token_labels=head is not None and head.each_token,
        causal=config.causal,
        terms=config.term_head is not None or config.token_weight_head is not None,
        token_terms=config.token_weight_head is not None,
        multi_vector_dim=0 if vectors is None else vectors.layers[-1].width,
    )


def outputs_of(task: str, architecture: Architecture) -> tuple[str, ...]:
    """Return the outputs of a model for a task."""
    # Pooled vectors of a model that was trained for something else compare nothing.
    left = () if task == "embed" else ("pooled", "spans")
    return tuple(
        name
        for name in GRAPH_ROLES
        if name not in left and (name not in OUTPUTS or OUTPUTS[name].given_by(architecture))
    )


def _accepts(config: EncoderConfig, has_tokenizer: bool) -> tuple[str, ...]:
    texts = ("text", "pair") if takes_pairs(config) else ("text",)
    return (*(texts if has_tokenizer else ()), "ids")


def _write_graphs(draft: Path, encoder: Encoder, progress: Progress) -> tuple[Graph, ...]:
    progress(TRACING)
    providers = (CPU, OPENVINO, CUDA)
    with WeightFile(draft / WEIGHT_FILE) as weights:
        attend = trace(encoder)
        weights.take(attend)
        embed = vectors_alone(attend)
        fused = {
            provider: model
            for provider in providers
            if (form := FORMS.get((provider, PRECISION)))
            and (model := with_fused_attention(embed, encoder.config, form))
        }
        rest = tuple(provider for provider in providers if provider not in fused)
        plain = [
            _write_graph(draft, "embed.onnx", PLAIN, embed, weights, rest),
            _write_graph(draft, "attend.onnx", PLAIN, attend, weights, providers),
        ]
        graphs = plain + [
            _write_graph(draft, _fused_file(provider), FUSED, model, weights, (provider,))
            for provider, model in fused.items()
        ]
    # OpenVINO rounds by itself: its bfloat16 needs no file of its own.
    return (
        *graphs,
        *(dataclasses.replace(graph, precision="bf16", providers=(OPENVINO,)) for graph in plain),
        *write_head(draft, encoder, providers),
    )


def _fused_file(provider: str) -> str:
    """Return the file of a provider's graph `embed` with fused attention."""
    return "embed.fused.onnx" if provider == CPU else f"embed.fused.{provider}.onnx"


def _write_graph(
    draft: Path,
    file: str,
    form: str,
    model: onnx.ModelProto,
    weights: WeightFile,
    providers: tuple[str, ...],
) -> Graph:
    weights.take(model)
    onnx.save(model, draft / file)
    return Graph(
        role=file.partition(".")[0],
        form=form,
        precision=PRECISION,
        file=file,
        weights=(WEIGHT_FILE,),
        inputs=tuple(value.name for value in model.graph.input),
        outputs=tuple(value.name for value in model.graph.output),
        providers=providers,
    )


def _source(origin: Origin) -> dict[str, Any]:
    # Imported by headlight.runtime, which sets its environment first.
    import onnxruntime  # noqa: PLC0415

    versions = {
        "torch": torch.__version__,
        "onnx": onnx.__version__,
        "onnxruntime": onnxruntime.__version__,
    }
    return {
        "family": origin.family,
        "weights_sha256": origin.weights_sha256,
        "opset": OPSET,
        "versions": versions,
    } | ({"hub": {**origin.hub}} if origin.hub else {})
