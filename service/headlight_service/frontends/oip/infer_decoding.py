"""Decoding of a ModelInferRequest to the core's request, and of its errors to its own fields."""

from __future__ import annotations

import functools
from typing import NamedTuple

from headlight.refusals import Edge
from headlight_service.core.models import Models, ServedModel, counted
from headlight_service.core.requests.request import Request
from headlight_service.frontends.grpc.transport.grpc_call import Call
from headlight_service.frontends.oip import inference_messages as oip
from headlight_service.frontends.oip.model_views import IDS, SEGMENTS, TEXT, view_of
from headlight_service.frontends.oip.output_selection import decode_outputs
from headlight_service.frontends.oip.request_parameters import decode_options
from headlight_service.frontends.oip.tensor_answers import TensorForm
from headlight_service.frontends.oip.tensor_decoding import decode_inputs, field_of

# Names of the core's fields.
OUTPUTS = ("pooled", "tokens", "sparse", "multi_vector")
ATTENTION = {
    "layers": "layer",
    "layer_runs": "layer",
    "heads": "head",
    "head_runs": "head",
    "reduce": "reduce",
    "scores": "score",
    "max_bytes": "max_bytes",
}
NAMES = {
    **{f"outputs.{each}.dtype": "parameters.dtype" for each in OUTPUTS},
    **{f"outputs.{each}.dtypes": "parameters.dtype" for each in OUTPUTS},
    **{
        f"outputs.{each}.{name}": f"parameters.{name}"
        for each in OUTPUTS
        for name in ("dimensions", "normalize", "skip_special", "top_k", "min_weight")
    },
    **{
        f"outputs.attention.{name}": f"parameters.attention_{field}"
        for name, field in ATTENTION.items()
    },
    **{
        name: f"parameters.{name}"
        for name in ("prompt_name", "truncation", "special_tokens", "empty_texts")
    },
    "inputs[*].ids": f"{IDS}[{{}}]",
    "inputs[*].ids.segments": f"{SEGMENTS}[{{}}]",
    "outputs": "outputs",
    "outputs.parameters.classification": "outputs.parameters.classification",
    "outputs.parameters.shared_memory_region": "outputs.parameters.shared_memory_region",
}


class Inference(NamedTuple):
    """A decoded request.

    Attributes:
        model: computes it.
        request: for the pipeline.
        form: sizes the answer, and makes its message.
    """

    model: ServedModel
    request: Request
    form: TensorForm


def decode_infer(message: oip.ModelInferRequest, models: Models, call: Call) -> Inference:
    """Return the request of a message.

    Raises:
        NotFound: there is no such model.
        InvalidInput: names the tensor or parameter, and the remedy.
    """
    view = view_of(models, message.model_name, message.model_version)
    model = view.model
    with counted(model):
        options = decode_options(message.parameters, view.kind)
        outputs = decode_outputs(view, message.outputs, options.form)
        inputs = decode_inputs(message, model)
    request = Request(
        inputs,
        outputs.spec,
        model.key,
        message.ByteSize(),
        min(call.deadline, options.deadline),
        options.priority,
        call.client,
        options.prompt_name,
        options.prompt_text,
        options.truncation,
        options.special_tokens,
        empty_texts=options.empty_texts,
        role=options.role,
    )
    attention, most = outputs.spec.specs.get("attention"), model.limits.max_stream_output_bytes
    if attention is not None and attention.max_bytes is not None:
        most = min(most, attention.max_bytes)
    form = TensorForm(view.name, outputs.requested, most, model.description.activation)
    return Inference(model, request, form)


def edge_of(message: oip.ModelInferRequest) -> Edge:
    """Return the words for a request, whose tensor of texts has a name of the client's choice."""
    names = [tensor.name for tensor in message.inputs if tensor.datatype == "BYTES"]
    return _edge(field_of(names[0]) if names else TEXT)


@functools.lru_cache(64)
def _edge(text: str) -> Edge:
    texts = dict.fromkeys(("inputs[*].text", "inputs[*].pair"), f"{text}[{{}}]")
    return Edge(names=NAMES | texts)
