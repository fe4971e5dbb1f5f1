"""The models of the protocol over each served model, and what they say of themselves.

A request without named outputs means all outputs. With attention in the same model, each request
for a vector would return every map; so vectors, token vectors and attention are models apart.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from headlight.errors import NotFound, Reason
from headlight_service.core.models import Models, ServedModel
from headlight_service.frontends.oip import inference_messages as oip

Kind = Literal["embedding", "scores", "tokens", "attention"]
# A model that scores gives no pooled vectors.
SUFFIXES: dict[Kind, str] = {
    "embedding": "",
    "scores": "",
    "tokens": ".tokens",
    "attention": ".attention",
}
OUTPUTS: dict[Kind, str] = {
    "embedding": "pooled",
    "scores": "scores",
    "tokens": "tokens",
    "attention": "attention",
}
PLATFORM = "headlight_onnx"
TEXT, IDS, MASK, SEGMENTS = "text", "input_ids", "attention_mask", "token_type_ids"
# Types of an output's elements in the protocol and in NumPy.
DATATYPES = {
    "FP32": "<f4",
    "FP16": "<f2",
    "INT8": "i1",
    "UINT8": "u1",
    "INT32": "<i4",
    "INT64": "<i8",
}
CONFIG_TYPES = {
    "BYTES": oip.TYPE_STRING,
    "INT64": oip.TYPE_INT64,
    "INT32": oip.TYPE_INT32,
    "FP32": oip.TYPE_FP32,
}


class Tensor(NamedTuple):
    """Description of an input or output; -1 in `shape`: any extent."""

    name: str
    datatype: str
    shape: tuple[int, ...]


class View(NamedTuple):
    """One model of the protocol.

    Attributes:
        kind: what it returns.
        model: the served model that computes it.
    """

    kind: Kind
    model: ServedModel

    @property
    def name(self) -> str:
        """Name in the protocol."""
        return self.model.name + SUFFIXES[self.kind]

    @property
    def max_batch_size(self) -> int:
        """Inputs of one request that are taken whatever their lengths.

        Requests for vectors and scores are computed in slices. Other outputs grow with the lengths.
        """
        limits = self.model.limits
        if self.kind in ("embedding", "scores"):
            return limits.max_items
        return min(limits.max_items, limits.max_request_tokens // self.model.max_length)

    @property
    def inputs(self) -> list[Tensor]:
        """The inputs: a request has texts or ids."""
        accepts, ids = self.model.accepts, list[Tensor]()
        if "ids" in accepts:
            names = [IDS, MASK]
            if self.model.runtime.bundle.manifest.architecture.segments:
                names.append(SEGMENTS)
            ids = [Tensor(name, "INT64", (-1, -1)) for name in names]
        texts = 2 if self.model.description.task == "rerank" else 1  # of a row: a pair, or one
        return [Tensor(TEXT, "BYTES", (-1, texts)), *ids] if "text" in accepts else ids

    @property
    def outputs(self) -> list[Tensor]:
        """The outputs in their default form, the main one first."""
        shape = self.model.runtime.bundle.manifest.architecture
        if self.kind == "embedding":
            return [Tensor("embedding", "FP32", (-1, shape.pooled_dim))]
        if self.kind == "scores":
            return [Tensor(name, "FP32", (-1, shape.labels)) for name in ("scores", "logits")]
        main = (
            Tensor("token_embeddings", "FP32", (-1, -1, shape.dim))
            if self.kind == "tokens"
            else Tensor("attention", "FP32", (-1, shape.layers, shape.heads, -1, -1))
        )
        return [
            main,
            Tensor("lengths", "INT32", (-1,)),
            Tensor(IDS, "INT64", (-1, -1)),
            Tensor("offsets", "INT32", (-1, -1, 2)),
        ]


def views(models: Models) -> list[View]:
    """Return the models of the protocol: those whose output the served model gives."""
    return [view for model in models.all for view in _views_of(model)]


def _views_of(model: ServedModel) -> list[View]:
    return [
        View(kind, model)
        for kind, output in OUTPUTS.items()
        if model.gives(output) and not (kind == "scores" and model.description.token_labels)
    ]


def view_of(models: Models, name: str, version: str) -> View:
    """Return the model that a request names; without a name, the first one over the default model.

    Raises:
        NotFound: there is none of that name or version.
        Unavailable: the first model is still being loaded.
    """
    if not name:
        default = models.get("", "embed")
        view = next(iter(_views_of(default)), View("tokens", default))  # refused without tokens
    else:
        known = {
            alias + SUFFIXES[view.kind]: view
            for view in views(models)
            for alias in models.addresses(view.model)
        }
        if name not in known:
            named = (
                alias + SUFFIXES[view.kind]
                for view in views(models)
                for alias, owner in models.by_name.items()
                if owner is view.model
            )
            served = ", ".join(named) or models.get().name  # raises: still being loaded
            raise NotFound(Reason.NOT_SERVED, "model_name", names=served)
        view = known[name]
    if version not in ("", view.model.ref.version):
        alias = name.removesuffix(SUFFIXES[view.kind])
        for other in views(models):
            its = other.kind, other.model.ref.version
            if its == (view.kind, version) and alias in other.model.names:
                return other
        raise NotFound(
            Reason.OTHER_VERSION,
            "model_version",
            name=view.name,
            version=view.model.ref.version,
        )
    return view


def metadata(view: View) -> oip.ModelMetadataResponse:
    """Return a model's inputs and outputs."""
    ref = view.model.ref
    made = oip.ModelMetadataResponse.TensorMetadata
    return oip.ModelMetadataResponse(
        name=view.name,
        versions=[ref.version],
        platform=PLATFORM,
        inputs=[made(**each._asdict()) for each in view.inputs],
        outputs=[made(**each._asdict()) for each in view.outputs],
        properties={
            "task": view.model.description.task,
            "bundle_sha256": ref.bundle_sha256,
            "provider": ref.provider,
            "precision": ref.precision,
        },
    )


def configuration(view: View) -> oip.ModelConfig:
    """Return the part of Triton's model configuration that clients read."""
    required = view.inputs[0].name
    return oip.ModelConfig(
        name=view.name,
        platform=PLATFORM,
        max_batch_size=view.max_batch_size,
        input=[
            oip.ModelInput(
                name=each.name,
                data_type=CONFIG_TYPES[each.datatype],
                dims=each.shape[1:],
                optional=each.name != required,
            )
            for each in view.inputs
        ],
        output=[
            oip.ModelOutput(
                name=each.name, data_type=CONFIG_TYPES[each.datatype], dims=each.shape[1:] or (1,)
            )
            for each in view.outputs
        ],
    )
