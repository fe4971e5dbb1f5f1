"""Checks of the Open Inference Protocol v2 with texts, over REST (http://) and gRPC (grpc://)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar

from tests.conformance import checks
from tests.conformance.checks import (
    TEXTS,
    TOO_LARGE,
    Body,
    Check,
    Dialect,
    Failed,
    NotApplicable,
    NotOffered,
    Options,
    Vector,
    refusals,
    refused,
    require,
    same,
)
from tests.conformance.http_client import Answer
from tests.conformance.transports import Grpc, Rest, read_outputs

PROTOCOL = "Open Inference Protocol, docs/predict-api/v2"
GRPC = "Open Inference Protocol, specification/protocol/open_inference_grpc.proto"
BINARY = "Triton, docs/protocol/extension_binary_data.md"
TRITON = "tritonclient.grpc, _infer_result.py: as_numpy reads raw bytes alone"
STREAM = "Triton, grpc_service.proto: ModelStreamInfer; tritonclient.grpc, start_stream"
UNKNOWN = (400, 404)  # gRPC: INVALID_ARGUMENT, NOT_FOUND


class Oip(Dialect):
    """A server as clients of Triton, KServe and MLServer see it."""

    transports: ClassVar = {"http": Rest, "https": Rest, "grpc": Grpc}
    server: Rest | Grpc
    overloaded = (429, 503)  # gRPC: RESOURCE_EXHAUSTED, UNAVAILABLE

    def __init__(self, server: Rest | Grpc, options: Options) -> None:
        super().__init__(server, options)
        if not options.model:
            raise ValueError("the protocol has no list of models: name one by --model")
        self.model = options.model

    @cached_property
    def metadata(self) -> Body:
        """The model's metadata."""
        answer = self.server.model_metadata(self.model)
        require(answer.status == 200, f"metadata of {self.model} is {answer.summary()}")
        body: Body = answer.json()
        return body

    def body(self, texts: Sequence[str], **fields: Any) -> Body:
        """Return a right request of texts, in which the tensor or the request has other fields."""
        inputs = [each for each in self.metadata["inputs"] if each["datatype"] == "BYTES"]
        if not inputs:
            raise NotApplicable(f"{self.model} takes no texts: it has no input of BYTES")
        shape = [len(texts), *[1] * (len(inputs[0]["shape"]) - 1)]
        tensor = {"name": inputs[0]["name"], "datatype": "BYTES", "shape": shape, "data": texts}
        tensor |= {name: fields.pop(name) for name in tensor.keys() & fields.keys()}
        return {"inputs": [tensor], **fields}

    def post(self, path: str = "", **fields: Any) -> Answer:
        """Send a text; `path` is the name of another model."""
        body = self.body(["a"], **fields)
        return self.server.infer(path or self.model, body)

    def embed(self, texts: Any, **fields: Any) -> Answer:
        return self.server.infer(self.model, self.body(texts, **fields))

    def answer(self, texts: Sequence[str], **fields: Any) -> Body:
        """Return the body of an answer with status 200."""
        body: Body = self.accepted(self.embed(texts, **fields)).json()
        return body

    def rows(self, answer: Answer) -> list[Vector]:
        """Return the rows of the first output of numbers with two axes."""
        for each in answer.json()["outputs"]:
            if each["datatype"] in ("FP32", "FP64", "FP16") and len(each["shape"]) == 2:
                width, data = each["shape"][1], each["data"]
                return [data[place : place + width] for place in range(0, len(data), width)]
        raise NotApplicable(f"{self.model} has no output of one vector a text")

    def abandon(self, texts: Sequence[str]) -> None:
        self.server.leave(self.model, self.body(texts))

    def send(self, body: bytes) -> Answer:
        if not isinstance(self.server, Rest):
            raise NotApplicable("gRPC's own library reads messages")
        return self.server.request("POST", f"{self.server.path(self.model)}/infer", body)

    def is_error(self, body: Any, status: int) -> bool:
        return isinstance(body["error"], str) and bool(body["error"])


def live(api: Oip) -> str:
    answer = api.server.live()
    require(answer.status == 200, f"live is {answer.summary()}")
    return "live"


def ready(api: Oip) -> str:
    for answer in (api.server.ready(), api.server.model_ready(api.model)):
        require(answer.status == 200, f"ready is {answer.summary()}")
    return "the server and the model"


def ready_unknown_model(api: Oip) -> str:
    return refused({"another name": api.server.model_ready("no-such-model")}, (*UNKNOWN, 503))


def server_metadata(api: Oip) -> str:
    answer = api.server.server_metadata()
    require(answer.status == 200, f"metadata is {answer.summary()}")
    body = answer.json()
    for name in ("name", "version"):
        require(isinstance(body.get(name), str) and body[name], f"{name} is {body.get(name)!r}")
    require(isinstance(body.get("extensions"), list), f"extensions is {body.get('extensions')!r}")
    return f"{body['name']} {body['version']}, extensions {body['extensions']}"


def model_metadata(api: Oip) -> str:
    body = api.metadata
    require(body["name"] == api.model, f"name is {body['name']!r}")
    require(isinstance(body["platform"], str), f"platform is {body['platform']!r}")
    for each in (*body["inputs"], *body["outputs"]):
        require(each["name"] and each["datatype"] and each["shape"], f"a tensor is {each}")
    require(body["inputs"] and body["outputs"], "there are no tensors")
    return f"{len(body['inputs'])} inputs, {len(body['outputs'])} outputs"


def infer_form(api: Oip) -> str:
    body = api.answer(TEXTS)
    require(body["model_name"] == api.model, f"model_name is {body['model_name']!r}")
    metadata = {each["name"]: each for each in api.metadata["outputs"]}
    for each in body["outputs"]:
        name, shape = each["name"], each["shape"]
        require(name in metadata, f"output {name!r} is not in the metadata")
        stated = metadata[name]["shape"]
        require(each["datatype"] == metadata[name]["datatype"], f"{name} is {each['datatype']}")
        fits = len(shape) == len(stated) and all(
            size in (-1, real) for size, real in zip(stated, shape, strict=True)
        )
        require(fits, f"{name} has the shape {shape}, the metadata {stated}")
        require(shape[0] == len(TEXTS), f"{len(TEXTS)} texts give the shape {shape}")
    return ", ".join(f"{each['name']} {each['shape']}" for each in body["outputs"])


def request_id(api: Oip) -> str:
    body = api.answer(["a"], id="some-id")
    require(body.get("id") == "some-id", f"id is {body.get('id')!r}")
    return "the answer has the id of its request"


def raw_bytes(api: Oip) -> str:
    if isinstance(api.server, Rest):
        extensions = api.server.server_metadata().json().get("extensions", [])
        if "binary_tensor_data" not in extensions:
            raise NotOffered(f"extensions are {extensions}")
    answer = api.accepted(api.server.infer(api.model, api.body(TEXTS), raw=True))
    raw = [each.get("raw", False) for each in answer.json()["outputs"]]
    require(all(raw), "the answer to raw bytes has no raw bytes")
    return same(api, api.rows(answer), api.vectors(TEXTS), "raw bytes and typed values")


def outputs(api: Oip) -> str:
    for each in api.metadata["outputs"]:
        body = api.answer(["a"], outputs=[{"name": each["name"]}])
        names = [output["name"] for output in body["outputs"]]
        require(names == [each["name"]], f"output {each['name']!r} gives {names}")
    return refused({"an unknown output": api.post(outputs=[{"name": "no-such-output"}])}, UNKNOWN)


def too_long(api: Oip) -> str:
    answer = checks.long_text(api)
    if answer.status != 200:
        return refused({f"{api.options.words} words": answer}, TOO_LARGE)
    names = [*answer.json(), *answer.json().get("parameters", {})]
    require(any("truncat" in each for each in names), "a long text is cut without a word")
    return "cut, and said"


def unknown_model(api: Oip) -> str:
    answers = {"infer": api.post("no-such-model")}
    answers["metadata"] = api.server.model_metadata("no-such-model")
    return refused(answers, UNKNOWN)


def unknown_version(api: Oip) -> str:
    answer = api.server.infer(api.model, api.body(["a"]), version="987654")
    return refused({"another version": answer}, UNKNOWN)


def stream(api: Oip) -> str:
    if not isinstance(api.server, Grpc):
        raise NotApplicable("REST has no streams")
    bodies = [api.body([text], id=f"id {place}") for place, text in enumerate(TEXTS)]
    answers = api.server.stream([api.server.request(api.model, each, raw=True) for each in bodies])
    if isinstance(answers, Answer):
        raise Failed(api.accepted(answers).summary())
    errors = [each.error_message for each in answers if each.error_message]
    require(not errors, f"an answer has the error {errors[:1]}")
    read = [read_outputs(each.infer_response) for each in answers]
    ids = [each.json()["id"] for each in read]
    require(ids == [each["id"] for each in bodies], f"the answers have the ids {ids}")
    rows = [api.rows(each)[0] for each in read]
    return same(api, rows, api.vectors(TEXTS), "a stream and a list")


WRONG_INPUTS: dict[str, Body] = {
    "no inputs": {"inputs": []},
    "FP32 for BYTES": {"datatype": "FP32", "data": [1.0]},
    "a shape of two texts, and one": {"shape": [2]},
    "a negative shape": {"shape": [-1]},
    "a shape of four axes": {"shape": [1, 1, 1, 1]},
    "no texts": {"shape": [0], "data": []},
}
ERROR_BODY = checks.error_body(("no-such-model", {}), ("", WRONG_INPUTS["FP32 for BYTES"]))

CHECKS = [
    Check("live", f"{PROTOCOL}: Health", live),
    Check("ready", f"{PROTOCOL}: Health", ready),
    Check("ready-unknown-model", f"{PROTOCOL}: Health", ready_unknown_model),
    Check("server-metadata", f"{PROTOCOL}: Server Metadata", server_metadata),
    Check("model-metadata", f"{PROTOCOL}: Model Metadata", model_metadata),
    Check("infer-form", f"{PROTOCOL}: Inference Response", infer_form),
    Check("request-id", f"{PROTOCOL}: id", request_id),
    Check("raw-bytes", f"{BINARY}; {GRPC}: raw_input_contents; {TRITON}", raw_bytes),
    Check("order", f"{PROTOCOL}: Tensor Data, row-major", checks.order),
    Check("single-list", f"{PROTOCOL}: shape", checks.single_equals_list),
    Check("concurrent-callers", "tritonclient, async_infer", checks.concurrent_callers),
    Check("outputs", f"{PROTOCOL}: Request Output", outputs),
    Check(
        "wrong-inputs",
        f"{PROTOCOL}: Inference Request; {GRPC}: INVALID_ARGUMENT",
        refusals(WRONG_INPUTS),
    ),
    Check(
        "empty-string",
        f"{PROTOCOL}: BYTES; an error or a vector, never a fault",
        checks.empty_string,
    ),
    Check("too-long", f"{PROTOCOL}: errors; a cut must not be silent", too_long),
    Check("unknown-model", f"{PROTOCOL}: errors; {GRPC}: NOT_FOUND", unknown_model),
    Check("unknown-version", f"{PROTOCOL}: versions", unknown_version),
    Check(
        "malformed-body",
        f"{PROTOCOL}: Inference Response JSON Error Object",
        checks.malformed_body,
    ),
    Check("error-body", f"{PROTOCOL}: error; {GRPC}: google.rpc.Status", ERROR_BODY),
    Check("stream", STREAM, stream),
    Check("token", "HTTP: 401; gRPC: UNAUTHENTICATED", checks.token((401, 403))),
    Check("cancellation", "tritonclient, cancel() of a call", checks.cancellation),
    Check(
        "overload", "Triton: UNAVAILABLE; others: RESOURCE_EXHAUSTED, 429 and 503", checks.overload
    ),
]
