"""Checks of the Open Inference Protocol v2 with texts, over REST (http://) and gRPC (grpc://)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.conformance import checks
from tests.conformance.checks import (
    MISSING,
    TEXTS,
    Dialect,
    Failed,
    NotApplicable,
    NotOffered,
    Options,
    Suite,
    Vector,
    all_refused,
    distance,
    long_texts,
    refused,
    require,
    same,
)
from tests.conformance.http_client import Answer
from tests.conformance.transports import Body, Grpc, Rest, Transport, read_outputs

PROTOCOL = "Open Inference Protocol, docs/predict-api/v2"
GRPC = "Open Inference Protocol, specification/protocol/open_inference_grpc.proto"
BINARY = "Triton, docs/protocol/extension_binary_data.md"
TRITON = "tritonclient.grpc, _infer_result.py: as_numpy reads raw bytes alone"
STREAM = "Triton, grpc_service.proto: ModelStreamInfer; tritonclient.grpc, start_stream"
NUMBERS = ("FP32", "FP64", "FP16")
WRONG = (400, 422)  # gRPC: INVALID_ARGUMENT
UNKNOWN = (400, 404)  # gRPC: INVALID_ARGUMENT, NOT_FOUND
FULL = (429, 503)  # gRPC: RESOURCE_EXHAUSTED, UNAVAILABLE


class Oip(Dialect):
    """A server as clients of Triton, KServe and MLServer see it."""

    def __init__(self, server: Transport, options: Options) -> None:
        if not options.model:
            raise ValueError("the protocol has no list of models: name one by --model")
        self.server, self.options, self.model = server, options, options.model
        self._described: Body | None = None

    @property
    def described(self) -> Body:
        """The model's metadata."""
        if self._described is None:
            answer = self.server.model_metadata(self.model)
            require(answer.status == 200, f"metadata of {self.model} is {answer.summary()}")
            self._described = answer.json()
        return self._described

    def body(self, texts: Sequence[str], **fields: Any) -> Body:
        """Return a request of texts, in the form of the model's metadata."""
        inputs = [each for each in self.described["inputs"] if each["datatype"] == "BYTES"]
        if not inputs:
            raise NotApplicable(f"{self.model} takes no texts: it has no input of BYTES")
        ranks = len(inputs[0]["shape"])
        shape = [len(texts), *[1] * (ranks - 1)]
        tensor = {"name": inputs[0]["name"], "datatype": "BYTES", "shape": shape}
        return {"inputs": [tensor | {"data": list(texts)}]} | fields

    def answer(self, body: Body, raw: bool = False) -> Body:
        """Return the body of an answer with status 200."""
        answer = self.server.infer(self.model, body, raw=raw)
        if answer.status in MISSING:
            raise NotOffered(f"infer is {answer.summary()}")
        require(answer.status == 200, f"a right request is {answer.summary()}")
        read: Body = answer.json()
        return read

    def rows(self, body: Body) -> list[Vector]:
        """Return the rows of the first output of numbers with two axes."""
        for each in body["outputs"]:
            if each["datatype"] in NUMBERS and len(each["shape"]) == 2:
                _, width = each["shape"]
                data = each["data"]
                return [data[place : place + width] for place in range(0, len(data), width)]
        raise NotApplicable(f"{self.model} has no output of one vector a text")

    def vectors(self, texts: Sequence[str], **fields: Any) -> list[Vector]:
        return self.rows(self.answer(self.body(texts, **fields)))

    def attempt(self, text: str) -> Answer:
        return self.server.infer(self.model, self.body([text]))

    def abandon(self, texts: Sequence[str]) -> None:
        self.server.abandon(self.model, self.body(texts))

    def assert_overloaded(self, answer: Answer) -> None:
        require(answer.status in FULL, f"a refusal for load is {answer.summary()}")
        assert_error(answer)

    def changed(self, **fields: Any) -> Body:
        """Return a request of one text whose input has other fields."""
        body = self.body(["a"])
        body["inputs"][0] |= fields
        return body


def assert_error(answer: Answer) -> None:
    """Raise Failed if a refusal has no message."""
    try:
        message = answer.json()["error"]
    except (ValueError, KeyError, TypeError) as broken:
        raise Failed(f"a refusal is {answer.summary()}: no error") from broken
    require(isinstance(message, str) and message, f"a refusal is {answer.summary()}")


OIP: Suite[Oip] = Suite()


@OIP.check("live", f"{PROTOCOL}: Health")
def live(api: Oip) -> str:
    answer = api.server.live()
    require(answer.status == 200, f"live is {answer.summary()}")
    return "200" if not api.server.grpc else "live"


@OIP.check("ready", f"{PROTOCOL}: Health")
def ready(api: Oip) -> str:
    for answer in (api.server.ready(), api.server.model_ready(api.model)):
        require(answer.status == 200, f"ready is {answer.summary()}")
    return "the server and the model"


@OIP.check("ready-unknown-model", f"{PROTOCOL}: Health")
def ready_unknown_model(api: Oip) -> str:
    answer = api.server.model_ready("no-such-model")
    return refused(answer, (400, 404, 503), "another name")


@OIP.check("server-metadata", f"{PROTOCOL}: Server Metadata")
def server_metadata(api: Oip) -> str:
    answer = api.server.server_metadata()
    require(answer.status == 200, f"metadata is {answer.summary()}")
    body = answer.json()
    for name in ("name", "version"):
        require(isinstance(body.get(name), str) and body[name], f"{name} is {body.get(name)!r}")
    require(isinstance(body.get("extensions"), list), f"extensions is {body.get('extensions')!r}")
    return f"{body['name']} {body['version']}, extensions {body['extensions']}"


@OIP.check("model-metadata", f"{PROTOCOL}: Model Metadata")
def model_metadata(api: Oip) -> str:
    body = api.described
    require(body["name"] == api.model, f"name is {body['name']!r}")
    require(isinstance(body["platform"], str), f"platform is {body['platform']!r}")
    for each in (*body["inputs"], *body["outputs"]):
        require(each["name"] and each["datatype"] and each["shape"], f"a tensor is {each}")
    require(body["inputs"] and body["outputs"], "there are no tensors")
    return f"{len(body['inputs'])} inputs, {len(body['outputs'])} outputs"


@OIP.check("infer-form", f"{PROTOCOL}: Inference Response")
def infer_form(api: Oip) -> str:
    body = api.answer(api.body(TEXTS))
    require(body["model_name"] == api.model, f"model_name is {body['model_name']!r}")
    described = {each["name"]: each for each in api.described["outputs"]}
    for each in body["outputs"]:
        name, shape = each["name"], each["shape"]
        require(name in described, f"output {name!r} is not in the metadata")
        stated = described[name]
        require(each["datatype"] == stated["datatype"], f"{name} is {each['datatype']}")
        fits = len(shape) == len(stated["shape"]) and all(
            size in (-1, real) for size, real in zip(stated["shape"], shape, strict=True)
        )
        require(fits, f"{name} has the shape {shape}, the metadata {stated['shape']}")
        require(shape[0] == len(TEXTS), f"{len(TEXTS)} texts give the shape {shape}")
    return ", ".join(f"{each['name']} {each['shape']}" for each in body["outputs"])


@OIP.check("request-id", f"{PROTOCOL}: id")
def request_id(api: Oip) -> str:
    body = api.answer(api.body(["a"], id="some-id"))
    require(body.get("id") == "some-id", f"id is {body.get('id')!r}")
    return "the answer has the id of its request"


@OIP.check("raw-bytes", f"{BINARY}; {GRPC}: raw_input_contents; {TRITON}")
def raw_bytes(api: Oip) -> str:
    if not api.server.grpc:
        extensions = api.server.server_metadata().json().get("extensions", [])
        if "binary_tensor_data" not in extensions:
            raise NotOffered(f"extensions are {extensions}")
    body = api.answer(api.body(TEXTS), raw=True)
    raw = [each.get("raw", False) for each in body["outputs"]]
    require(all(raw), "the answer to raw bytes has no raw bytes")
    largest = same(api, api.rows(body), api.vectors(TEXTS), "raw bytes and typed values")
    return f"the same as typed values; within {largest:.2g}"


OIP.add("order", f"{PROTOCOL}: Tensor Data, row-major", checks.order_kept)
OIP.add("single-list", f"{PROTOCOL}: shape", checks.single_equals_list)
OIP.add("concurrent-callers", "tritonclient, async_infer", checks.concurrent_callers)


@OIP.check("outputs", f"{PROTOCOL}: Request Output")
def outputs(api: Oip) -> str:
    for each in api.described["outputs"]:
        body = api.answer(api.body(["a"], outputs=[{"name": each["name"]}]))
        names = [output["name"] for output in body["outputs"]]
        require(names == [each["name"]], f"output {each['name']!r} gives {names}")
    answer = api.server.infer(api.model, api.body(["a"], outputs=[{"name": "no-such-output"}]))
    refused(answer, UNKNOWN, "an unknown output")
    return f"each by its name; an unknown one is {answer.status}"


@OIP.check("wrong-inputs", f"{PROTOCOL}: Inference Request; {GRPC}: INVALID_ARGUMENT")
def wrong_inputs(api: Oip) -> str:
    api.vectors(["a"])
    bodies = [
        ("no inputs", api.body(["a"], inputs=[])),
        ("FP32 for BYTES", api.changed(datatype="FP32", data=[1.0])),
        ("a shape of two texts, and one", api.changed(shape=[2])),
        ("a negative shape", api.changed(shape=[-1])),
        ("a shape of three axes", api.changed(shape=[1, 1, 1, 1])),
        ("no texts", api.changed(shape=[0], data=[])),
    ]
    sent = [(what, api.server.infer(api.model, body)) for what, body in bodies]
    return all_refused(sent, WRONG)


@OIP.check("empty-string", f"{PROTOCOL}: BYTES; an error or a vector, never a fault")
def empty_string(api: Oip) -> str:
    answer = api.server.infer(api.model, api.body(["a", ""]))
    if answer.status != 200:
        return refused(answer, WRONG, "an empty text")
    require(len(api.rows(answer.json())) == 2, "two texts, one empty, have not two vectors")
    return "an empty text has a vector"


@OIP.check("too-long", f"{PROTOCOL}: errors; a cut must not be silent")
def too_long(api: Oip) -> str:
    one, other = (api.server.infer(api.model, api.body([text])) for text in long_texts(api))
    if one.status != 200:
        return refused(one, (*WRONG, 413), f"{api.options.words} words")
    apart = distance(*(api.rows(each.json())[0] for each in (one, other)))
    if apart > api.options.tolerance:
        raise NotApplicable(f"a text of {api.options.words} words is not too long")
    names = [*one.json(), *one.json().get("parameters", {})]
    require(any("truncat" in each for each in names), "a long text is cut without a word")
    return "cut, and said"


@OIP.check("unknown-model", f"{PROTOCOL}: errors; {GRPC}: NOT_FOUND")
def unknown_model(api: Oip) -> str:
    answer = api.server.infer("no-such-model", api.body(["a"]))
    metadata = api.server.model_metadata("no-such-model")
    return all_refused([("infer", answer), ("metadata", metadata)], UNKNOWN)


@OIP.check("unknown-version", f"{PROTOCOL}: versions")
def unknown_version(api: Oip) -> str:
    answer = api.server.infer(api.model, api.body(["a"]), version="987654")
    return refused(answer, UNKNOWN, "another version")


@OIP.check("malformed-body", f"{PROTOCOL}: Inference Response JSON Error Object")
def malformed_body(api: Oip) -> str:
    if not isinstance(api.server, Rest):
        raise NotApplicable("gRPC's own library reads messages")
    bodies = [("half of JSON", b'{"inputs": [{'), ("a list", b"[]"), ("no UTF-8", b'"\xff"')]
    path, server = f"/v2/models/{api.model}/infer", api.server.server
    return all_refused([(what, server.request("POST", path, body)) for what, body in bodies], WRONG)


@OIP.check("error-body", f"{PROTOCOL}: error; {GRPC}: google.rpc.Status")
def error_body(api: Oip) -> str:
    answers = [
        api.server.infer("no-such-model", api.body(["a"])),
        api.server.infer(api.model, api.changed(datatype="FP32", data=[1.0])),
    ]
    failed = [each for each in answers if each.status >= 400]
    if not failed:
        raise NotApplicable("the server refuses nothing")
    for each in failed:
        assert_error(each)
    return f"{len(failed)} refusals have a message"


@OIP.check("stream", STREAM)
def stream(api: Oip) -> str:
    if not isinstance(api.server, Grpc):
        raise NotApplicable("REST has no streams")
    bodies = [api.body([text], id=f"id {place}") for place, text in enumerate(TEXTS)]
    answers = api.server.stream([api.server.request(api.model, each, raw=True) for each in bodies])
    if isinstance(answers, Answer):
        if answers.status in MISSING:
            raise NotOffered(answers.summary())
        raise Failed(answers.summary())
    errors = [each["error_message"] for each in answers if each["error_message"]]
    require(not errors, f"an answer has the error {errors[:1]}")
    read = [read_outputs(each["infer_response"]) for each in answers]
    ids = [each["id"] for each in read]
    require(ids == [each["id"] for each in bodies], f"the answers have the ids {ids}")
    vectors = [api.rows(each)[0] for each in read]
    largest = same(api, vectors, api.vectors(TEXTS), "a stream and a list")
    return f"{len(ids)} answers with their ids; within {largest:.2g}"


@OIP.check("token", "HTTP: 401; gRPC: UNAUTHENTICATED")
def token(api: Oip) -> str:
    if not api.server.token:
        raise NotApplicable("--token names the server's token")
    answer = api.server.infer(api.model, api.body(["a"]), token="a-wrong-token")
    return refused(answer, (401, 403), "a wrong token")


OIP.add("cancellation", "tritonclient, cancel() of a call", checks.cancellation)
OIP.check("overload", "Triton: UNAVAILABLE; others: RESOURCE_EXHAUSTED, 429 and 503")(
    checks.overload
)
