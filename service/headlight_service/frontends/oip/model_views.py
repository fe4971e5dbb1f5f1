"""The models of the protocol over each served model, and what they say of themselves.

A request without named outputs means all outputs. With attention in the same model, each request
for a vector would return every map; so vectors of each kind and attention are models apart.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from headlight.errors import NotFound, Reason
from headlight.outputs.sparse import INDICES
from headlight_service.core.models import Models, ServedModel
from headlight_service.frontends.oip import inference_messages as oip

Kind = Literal["embedding", "scores", "sparse", "multi_vector", "tokens", "attention"]
OUTPUTS: dict[Kind, str] = {
    "embedding": "pooled",
    "scores": "scores",
    "sparse": "sparse",
    "multi_vector": "multi_vector",
    "tokens": "tokens",
    "attention": "attention",
}
# What a model of a task is for: this kind has the model's name alone.
MAIN: dict[str, Kind] = {
    "embed": "embedding",
    "rerank": "scores",
    "classify": "scores",
    "sparse": "sparse",
    "multi_vector": "multi_vector",
}
SLICED = ("embedding", "scores", "sparse")  # computed in slices: inputs of any length
PLATFORM = "headlight_onnx"
TEXT, IDS, MASK, SEGMENTS = "text", "input_ids", "attention_mask", "token_type_ids"
# Types of an output's elements in the protocol and in NumPy.
DATATYPES = {
    "FP32": "<f4",
    "FP16": "<f2",
    "INT8": "i1",
    "UINT8": "u1",
    "INT32": "<i4",
    "UINT32": "<u4",
    "INT64": "<i8",
}
CONFIG_TYPES = {
    "BYTES": oip.TYPE_STRING,
    "INT64": oip.TYPE_INT64,
    "INT32": oip.TYPE_INT32,
    "UINT32": oip.TYPE_UINT32,
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
        return self.model.name + self.suffix

    @property
    def suffix(self) -> str:
        """What the protocol puts behind each name of the model."""
        return "" if self.kind == MAIN[self.model.description.task] else f".{self.kind}"

    @property
    def max_batch_size(self) -> int:
        """Inputs of one request that are taken whatever their lengths.

        Requests for some are computed in slices. Other outputs grow with the lengths.
        """
        limits = self.model.limits
        if self.kind in SLICED:
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
        if self.kind == "sparse":
            types = {"sparse": "FP32", INDICES: "UINT32"}
            return [Tensor(name, datatype, (-1, -1)) for name, datatype in types.items()]
        main = {
            "tokens": Tensor("token_embeddings", "FP32", (-1, -1, shape.dim)),
            "multi_vector": Tensor("multi_vector", "FP32", (-1, -1, shape.multi_vector_dim)),
            "attention": Tensor("attention", "FP32", (-1, shape.layers, shape.heads, -1, -1)),
        }
        return [
            main[self.kind],
            Tensor("lengths", "INT32", (-1,)),
            Tensor(IDS, "INT64", (-1, -1)),
            Tensor("offsets", "INT32", (-1, -1, 2)),
        ]


def views(models: Models) -> list[View]:
    """Return the models of the protocol: those whose output the served model gives."""
    return [view for model in models.all for view in _views_of(model)]


def _views_of(model: ServedModel) -> list[View]:
    """Return the models over one served model, that of its name alone first."""
    views = [
        View(kind, model)
        for kind, output in OUTPUTS.items()
        if model.gives(output) and not (kind == "scores" and model.description.token_labels)
    ]
    return sorted(views, key=lambda view: bool(view.suffix))


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
            alias + view.suffix: view
            for view in views(models)
            for alias in models.addresses(view.model)
        }
        if name not in known:
            named = (
                alias + view.suffix
                for view in views(models)
                for alias, owner in models.by_name.items()
                if owner is view.model
            )
            served = ", ".join(named) or models.get().name  # raises: still being loaded
            raise NotFound(Reason.NOT_SERVED, "model_name", names=served)
        view = known[name]
    if version not in ("", view.model.ref.version):
        alias = name.removesuffix(view.suffix)
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
