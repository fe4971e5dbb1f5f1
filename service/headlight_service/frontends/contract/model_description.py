"""The answer of GetModel."""

from __future__ import annotations

import dataclasses

from headlight.pb import headlight_pb2 as pb
from headlight.runtime.runtime_description import describe as describe_runtime
from headlight.wire.vector_codec import SPECIAL_TOKENS, VECTOR_TYPES
from headlight_service.core.models import ServedModel
from headlight_service.frontends.contract.answer_encoding import model_ref
from headlight_service.frontends.contract.request_decoding import TRUNCATIONS


def describe(model: ServedModel) -> pb.GetModelResponse:
    """Return a model's description, its limits and its outputs."""
    runtime = model.runtime
    told = describe_runtime(
        runtime.bundle,
        runtime.forms,
        provider=runtime.provider,
        precision=runtime.precision,
        attends=model.attends,
        texts=runtime.tokenizer is not None,
    )
    info = pb.ModelInfo(
        positions=told.positions,
        layers=told.layers,
        heads=told.heads,
        dim=told.dim,
        vocab_size=told.vocab_size,
        trained_length=told.trained_length,
        max_length=told.max_length,
        pooling=told.pooling,
        normalized=told.normalized,
        accepts=told.accepts,
        outputs=told.outputs,
        pooled_dim=told.pooled_dim,
        prompts=[pb.NamedPrompt(name=name, text=text) for name, text in told.prompts.items()],
        default_prompt=told.default_prompt,
        include_prompt=told.include_prompt,
        trained_dimensions=told.trained_dimensions,
        similarity=told.similarity,
        pooled_dtypes=[VECTOR_TYPES[dtype] for dtype in told.pooled_types],
        int8_dimensions=told.int8_dimensions,
        special_tokens=SPECIAL_TOKENS[model.special_tokens],
        truncation=TRUNCATIONS[model.truncation],
    )
    return pb.GetModelResponse(
        model=model_ref(model.ref),
        info=info,
        limits=pb.Limits(**dataclasses.asdict(model.limits)),
        variants=[pb.Variant(provider=provider, precision=p) for provider, p in told.variants],
        parity=[pb.Parity(**dataclasses.asdict(entry)) for entry in told.parity],
        quality=[pb.Quality(**dataclasses.asdict(entry)) for entry in told.quality],
    )
