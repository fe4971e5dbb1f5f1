"""The answers of GetModel and ListModels."""

from __future__ import annotations

import dataclasses

from headlight.outputs.contract import numbers_of
from headlight.pb import headlight_pb2 as pb
from headlight.wire.client_codec import TRUNCATIONS
from headlight_service.core.models import Models, ServedModel
from headlight_service.frontends.contract.answer_encoding import model_ref


def describe(model: ServedModel, models: Models) -> pb.GetModelResponse:
    """Return the description of a model, one of `models`, as a message."""
    described = model.description
    info = pb.ModelInfo(
        positions=described.positions,
        layers=described.layers,
        heads=described.heads,
        dim=described.dim,
        vocab_size=described.vocab_size,
        trained_length=described.trained_length,
        max_length=described.max_length,
        pooling=described.pooling,
        normalized=described.normalized,
        accepts=described.accepts,
        outputs=described.outputs,
        pooled_dim=described.pooled_dim,
        prompts=[pb.NamedPrompt(name=name, text=text) for name, text in described.prompts.items()],
        default_prompt=described.default_prompt,
        include_prompt=described.include_prompt,
        trained_dimensions=described.trained_dimensions,
        similarity=described.similarity,
        pooled_dtypes=[numbers_of("DataType")[dtype] for dtype in described.pooled_types],
        int8_dimensions=described.int8_dimensions,
        special_tokens=numbers_of("SpecialTokens")[described.special_tokens],
        truncation=TRUNCATIONS[described.truncation],
        task=described.task,
        labels=described.labels,
        token_labels=described.token_labels,
        activation=described.activation,
        multi_vector_dim=described.multi_vector_dim,
        query_tokens=described.query_tokens,
    )
    return pb.GetModelResponse(
        model=model_ref(described.ref),
        info=info,
        limits=pb.Limits(**dataclasses.asdict(described.limits)),
        variants=[pb.Variant(provider=provider, precision=p) for provider, p in described.variants],
        parity=[pb.Parity(**dataclasses.asdict(entry)) for entry in described.parity],
        quality=[pb.Quality(**dataclasses.asdict(entry)) for entry in described.quality],
        names=models.addresses(model),
    )


def list_models(models: Models) -> pb.ListModelsResponse:
    """Return all models in short, as a message. Raises Unavailable while they are being loaded."""
    default = models.get()
    return pb.ListModelsResponse(
        models=[
            pb.ListedModel(
                model=model_ref(each.ref),
                names=models.addresses(each),
                task=each.description.task,
                default=each is default,
            )
            for each in models.all
        ]
    )
