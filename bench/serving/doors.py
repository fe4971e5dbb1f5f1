"""Doors of one service: a call of some texts in each protocol, as its client sends it."""

from __future__ import annotations

import dataclasses
import json
import struct
from collections.abc import Callable, Sequence

from bench.serving.http import embeddings_body
from headlight.pb import headlight_pb2 as pb
from headlight_service.frontends.oip import inference_messages as oip


@dataclasses.dataclass(frozen=True)
class Door:
    """One protocol.

    Attributes:
        name: as printed.
        method: full name of the RPC, or path of the POST.
        encode: returns the bytes of a call for some texts, by the name of the model.
    """

    name: str
    method: str
    encode: Callable[[Sequence[str], str], bytes]
    over_http: bool = True


def of_contract(texts: Sequence[str], model: str) -> bytes:
    """Return a request of headlight.v1.Encode."""
    inputs = [pb.Input(text=text) for text in texts]
    cut = pb.TRUNCATION_CUT_END
    return pb.EncodeRequest(model=model, inputs=inputs, truncation=cut).SerializeToString()


def of_inference(texts: Sequence[str], model: str) -> bytes:
    """Return a request of the Open Inference Protocol."""
    encoded = [text.encode() for text in texts]
    request = oip.ModelInferRequest(model_name=model)
    request.inputs.add(name="text", datatype="BYTES", shape=[len(texts)])
    request.raw_input_contents.append(
        b"".join(struct.pack("<I", len(text)) + text for text in encoded)
    )
    request.parameters["truncate"].string_param = "end"
    return request.SerializeToString()


def of_openai(texts: Sequence[str], model: str) -> bytes:
    """Return a request of OpenAI's API for vectors as lists."""
    return json.dumps({"model": model, "input": list(texts)}).encode()


def of_tei(texts: Sequence[str], _model: str) -> bytes:
    """Return a request of text-embeddings-inference."""
    return json.dumps({"inputs": list(texts), "truncate": True}).encode()


CONTRACT = Door("gRPC", "/headlight.v1.HeadlightService/Encode", of_contract, over_http=False)
OURS = (
    CONTRACT,
    Door("OIP", "/inference.GRPCInferenceService/ModelInfer", of_inference, over_http=False),
    Door("OpenAI base64", "/v1/embeddings", embeddings_body),
    Door("OpenAI lists", "/v1/embeddings", of_openai),
    Door("TEI", "/embed", of_tei),
)
INFINITY = Door("infinity, base64", "/embeddings", lambda texts, _: embeddings_body(texts))
DOORS = {door.name: door for door in (*OURS, INFINITY)}
