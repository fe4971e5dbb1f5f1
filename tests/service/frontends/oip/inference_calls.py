"""Calls of the Open Inference Protocol, as tests over a socket build and read them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import grpc
import numpy as np
from google.protobuf.message_factory import GetMessageClass
from numpy.typing import NDArray

from headlight_service.frontends.oip import inference_messages as oip
from headlight_service.frontends.oip.model_views import DATATYPES

SERVICE = oip.DESCRIPTOR.services_by_name["GRPCInferenceService"]
FAKE, TOKENS, ATTENTION = "fake", "fake.tokens", "fake.attention"


class InferenceStub:
    """Stub of all methods, with messages of the private pool."""

    def __init__(self, channel: Any) -> None:
        for method in SERVICE.methods:
            make = channel.stream_stream if method.client_streaming else channel.unary_unary
            setattr(
                self,
                method.name,
                make(
                    f"/{SERVICE.full_name}/{method.name}",
                    request_serializer=GetMessageClass(method.input_type).SerializeToString,
                    response_deserializer=GetMessageClass(method.output_type).FromString,
                ),
            )

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


def packed(*texts: str | bytes) -> bytes:
    """Return the elements of a BYTES tensor."""
    elements = [text.encode() if isinstance(text, str) else text for text in texts]
    return b"".join(struct.pack("<I", len(each)) + each for each in elements)


def of_texts(*texts: str | bytes, model: str = FAKE, **options: Any) -> oip.ModelInferRequest:
    request = with_options(oip.ModelInferRequest(model_name=model), **options)
    request.inputs.add(name="text", datatype="BYTES", shape=[len(texts)])
    request.raw_input_contents.append(packed(*texts))
    return request


def of_ids(
    ids: Sequence[Sequence[int]], model: str = FAKE, *, datatype: str = "INT64", **options: Any
) -> oip.ModelInferRequest:
    """Return a request of ids, padded with zeros on the right."""
    longest, kind = max(map(len, ids)), DATATYPES[datatype]
    request = with_options(oip.ModelInferRequest(model_name=model), **options)
    whole = np.zeros((len(ids), longest), dtype=kind)
    mask = np.zeros((len(ids), longest), dtype=kind)
    for row, each in enumerate(ids):
        whole[row, : len(each)], mask[row, : len(each)] = each, 1
    for name, array in (("input_ids", whole), ("attention_mask", mask)):
        add_array(request, name, array, datatype)
    return request


def add_array(
    request: oip.ModelInferRequest, name: str, array: NDArray[Any], datatype: str = "INT64"
) -> None:
    request.inputs.add(name=name, datatype=datatype, shape=array.shape)
    request.raw_input_contents.append(array.tobytes())


def with_options(request: oip.ModelInferRequest, **options: Any) -> oip.ModelInferRequest:
    """Set parameters: of Python's types; `outputs` names the outputs."""
    for name in options.pop("outputs", ()):
        request.outputs.add(name=name)
    for name, value in options.items():
        kind = {bool: "bool", int: "int64", str: "string", float: "double"}[type(value)]
        setattr(request.parameters[name], f"{kind}_param", value)
    return request


def arrays(response: oip.ModelInferResponse) -> dict[str, NDArray[Any]]:
    """Return the outputs by name."""
    assert len(response.outputs) == len(response.raw_output_contents)
    pairs = zip(response.outputs, response.raw_output_contents, strict=True)
    return {
        each.name: np.frombuffer(raw, DATATYPES[each.datatype]).reshape(tuple(each.shape))
        for each, raw in pairs
    }


def codes(error: Any) -> tuple[grpc.StatusCode, str]:
    return error.code(), error.details() or ""
