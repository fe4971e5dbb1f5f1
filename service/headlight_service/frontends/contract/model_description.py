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
    told = model.description
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
        pooled_dtypes=[numbers_of("DataType")[dtype] for dtype in told.pooled_types],
        int8_dimensions=told.int8_dimensions,
        special_tokens=numbers_of("SpecialTokens")[told.special_tokens],
        truncation=TRUNCATIONS[told.truncation],
        task=told.task,
        labels=told.labels,
        token_labels=told.token_labels,
        activation=told.activation,
        multi_vector_dim=told.multi_vector_dim,
        query_tokens=told.query_tokens,
    )
    return pb.GetModelResponse(
        model=model_ref(told.ref),
        info=info,
        limits=pb.Limits(**dataclasses.asdict(told.limits)),
        variants=[pb.Variant(provider=provider, precision=p) for provider, p in told.variants],
        parity=[pb.Parity(**dataclasses.asdict(entry)) for entry in told.parity],
        quality=[pb.Quality(**dataclasses.asdict(entry)) for entry in told.quality],
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
