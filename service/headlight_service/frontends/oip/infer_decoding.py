"""Decoding of a ModelInferRequest to the core's request, and of its errors to its own fields."""

from __future__ import annotations

import re
from typing import NamedTuple

from headlight.errors import InvalidInput
from headlight_service.core.models import Models, ServedModel, counted
from headlight_service.core.requests.request import Request
from headlight_service.frontends.grpc.transport.grpc_call import Call
from headlight_service.frontends.oip import inference_messages as oip
from headlight_service.frontends.oip.model_views import IDS, SEGMENTS, TEXT, view_of
from headlight_service.frontends.oip.output_selection import decode_outputs
from headlight_service.frontends.oip.request_parameters import decode_options
from headlight_service.frontends.oip.tensor_answers import TensorForm
from headlight_service.frontends.oip.tensor_decoding import decode_inputs, field_of

# Fields of the core's errors, and where a request of this protocol has them.
OWN_FIELDS = (
    (re.compile(r"inputs(\[\d+\])\.text.*"), TEXT + r"\1"),
    (re.compile(r"inputs(\[\d+\])\.ids\.segments.*"), SEGMENTS + r"\1"),
    (re.compile(r"inputs(\[\d+\])\.ids.*"), IDS + r"\1"),
    (
        re.compile(r"outputs\.(?:pooled|tokens)\.(dimensions|normalize|skip_special)"),
        r"parameters.\1",
    ),
    (re.compile(r"outputs\.(?:pooled|tokens)\.dtypes?.*"), "parameters.dtype"),
    (re.compile(r"outputs\.attention\.max_bytes"), "parameters.attention_max_bytes"),
    (
        re.compile(r"outputs\.attention\.(layer|head|reduce|score)(?:s|_runs)?\b.*"),
        r"parameters.attention_\1",
    ),
    (re.compile(r"outputs\..*"), "outputs"),
    (re.compile(r"(prompt_name|truncation|special_tokens|empty_texts)"), r"parameters.\1"),
)


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
        model.ref.name,
        message.ByteSize(),
        min(call.deadline, options.deadline),
        options.priority,
        call.client,
        options.prompt_name,
        options.prompt_text,
        options.truncation,
        options.special_tokens,
        empty_texts=options.empty_texts,
    )
    attention, most = outputs.spec.specs.get("attention"), model.limits.max_stream_output_bytes
    if attention is not None and attention.max_bytes is not None:
        most = min(most, attention.max_bytes)
    return Inference(model, request, TensorForm(view.name, outputs.wanted, most))


def own_field(field: str, message: oip.ModelInferRequest) -> str:
    """Return the place in a request of a field that the core names."""
    for pattern, own in OWN_FIELDS:
        if pattern.fullmatch(field):
            field = pattern.sub(own, field)
            break
    names = [tensor.name for tensor in message.inputs if tensor.datatype == "BYTES"]
    if names and field.startswith(f"{TEXT}["):
        field = field_of(names[0]) + field.removeprefix(TEXT)
    return field


def in_own_terms(error: InvalidInput, message: oip.ModelInferRequest) -> InvalidInput:
    """Return an error of the core with the field of this protocol."""
    return InvalidInput(own_field(error.field, message), error.problem)
