"""The answer of GetModel."""

from __future__ import annotations

import dataclasses

from headlight.pb import headlight_pb2 as pb
from headlight.wire.vector_codec import SPECIAL_TOKENS, VECTOR_TYPES
from headlight_service.core.models import ServedModel
from headlight_service.frontends.grpc.answer_encoding import model_ref
from headlight_service.frontends.grpc.request_decoding import TRUNCATIONS


def describe(model: ServedModel) -> pb.GetModelResponse:
    """Return a model's description, its limits and its outputs."""
    manifest, prompts, forms = (
        model.runtime.bundle.manifest,
        model.runtime.prompts,
        model.runtime.forms,
    )
    architecture = manifest.architecture
    info = pb.ModelInfo(
        positions=architecture.positions,
        layers=architecture.layers,
        heads=architecture.heads,
        dim=architecture.dim,
        vocab_size=architecture.vocab_size,
        trained_length=manifest.trained_length,
        max_length=manifest.max_length,
        pooling=manifest.pooling,
        normalized=manifest.normalize,
        accepts=model.accepts,
        outputs=[
            "pooled",
            "tokens",
            *(["attention", "hidden"] if model.attends else []),
            "token_info",
        ],
        pooled_dim=architecture.pooled_dim,
        prompts=[pb.NamedPrompt(name=name, text=text) for name, text in prompts.by_name.items()],
        default_prompt=prompts.default,
        include_prompt=manifest.include_prompt,
        trained_dimensions=manifest.dimensions,
        similarity=manifest.similarity,
        pooled_dtypes=[VECTOR_TYPES[dtype] for dtype in forms.dtypes],
        int8_dimensions=sorted(forms.ranges),
        special_tokens=SPECIAL_TOKENS[model.special_tokens],
        truncation=TRUNCATIONS[model.truncation],
    )
    parity = [
        pb.Parity(
            output=entry.output,
            provider=entry.provider,
            precision=entry.precision,
            max_error=entry.max_error,
            tolerance=entry.tolerance,
        )
        for entry in manifest.parity
    ]
    return pb.GetModelResponse(
        model=model_ref(model.ref),
        info=info,
        limits=pb.Limits(**dataclasses.asdict(model.limits)),
        variants=[pb.Variant(provider=provider, precision=p) for provider, p in manifest.variants],
        parity=parity,
        quality=[pb.Quality(**dataclasses.asdict(entry)) for entry in manifest.quality],
    )
