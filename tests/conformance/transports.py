"""The Open Inference Protocol over REST, and over gRPC, with answers in one form.

A request and an answer have the JSON form of REST. Over gRPC, a status has the number that REST has
for it, and its details are the body's `error`.
"""

from __future__ import annotations

import copy
import json
import math
import struct
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote, urlsplit

from tests.conformance.http_client import SECONDS_TO_LEAVE, Answer, HttpServer, NoAnswer

Body = dict[str, Any]
SERVICE = "/inference.GRPCInferenceService/"
HEADER = "Inference-Header-Content-Length"
CONTRACT = "service/headlight_service/frontends/oip/inference_messages.binpb"
NAMES = "BOOL INT8 INT16 INT32 INT64 UINT8 UINT16 UINT32 UINT64 FP16 FP32 FP64"
FORMATS = dict(zip(NAMES.split(), "?bhiqBHIQefd", strict=True))
CONTENTS = {"BYTES": "bytes_contents", "FP32": "fp32_contents", "FP64": "fp64_contents"}
CONTENTS |= {"BOOL": "bool_contents", "INT64": "int64_contents", "INT32": "int_contents"}
STATUSES = {  # by the name of a gRPC status
    "OK": 200,
    "INVALID_ARGUMENT": 400,
    "OUT_OF_RANGE": 400,
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "NOT_FOUND": 404,
    "RESOURCE_EXHAUSTED": 429,
    "CANCELLED": 499,
    "UNIMPLEMENTED": 501,
    "UNAVAILABLE": 503,
    "DEADLINE_EXCEEDED": 504,
}


def pack(datatype: str, values: Iterable[Any]) -> bytes:
    """Return values as raw bytes."""
    if datatype == "BYTES":
        texts = [each.encode() for each in values]
        return b"".join(struct.pack("<I", len(each)) + each for each in texts)
    return b"".join(struct.pack(f"<{FORMATS[datatype]}", each) for each in values)


def unpack(datatype: str, data: bytes) -> list[Any]:
    """Return the values of raw bytes."""
    if datatype != "BYTES":
        return [value for (value,) in struct.iter_unpack(f"<{FORMATS[datatype]}", data)]
    values, place = [], 0
    while place < len(data):
        (size,) = struct.unpack_from("<I", data, place)
        values.append(data[place + 4 : place + 4 + size].decode("utf-8", "replace"))
        place += 4 + size
    return values


def answered(body: Body) -> Answer:
    """Return an answer; raise ValueError if a tensor has not as many values as its shape."""
    for each in body["outputs"]:
        if len(each["data"]) != math.prod(each["shape"]):
            raise ValueError(f"{each['name']} {each['shape']} has {len(each['data'])} values")
    return Answer(200, {}, json.dumps(body).encode())


class Rest(HttpServer):
    """Over HTTP, in JSON or with the extension for binary tensors."""

    def live(self) -> Answer:
        return self.get("/v2/health/live")

    def ready(self) -> Answer:
        return self.get("/v2/health/ready")

    def server_metadata(self) -> Answer:
        return self.get("/v2")

    def model_ready(self, model: str) -> Answer:
        return self.get(f"{self.path(model)}/ready")

    def model_metadata(self, model: str) -> Answer:
        return self.get(self.path(model))

    def path(self, model: str, version: str = "") -> str:
        """Return the path of a model."""
        return f"/v2/models/{quote(model, safe='')}" + (f"/versions/{version}" if version else "")

    def infer(self, model: str, body: Body, *, raw: bool = False, version: str = "") -> Answer:
        """Return an answer; `raw`: tensors are sent and requested as raw bytes.

        Outputs that came as raw bytes have `raw` true.
        """
        path = f"{self.path(model, version)}/infer"
        if raw:
            tensors = [pack(each["datatype"], each["data"]) for each in body["inputs"]]
            inputs = [dict(each, parameters={"binary_data_size": len(data)})
                      for each, data in zip(body["inputs"], tensors, strict=True)]  # fmt: skip
            for each in inputs:
                del each["data"]
            body = {**body, "inputs": inputs, "parameters": {"binary_data_output": True}}
            head = json.dumps(body).encode()
            headers = {HEADER: str(len(head)), "Content-Type": "application/octet-stream"}
            answer = self.request("POST", path, head + b"".join(tensors), **headers)
        else:
            answer = self.post(path, body)
        if answer.status != 200:
            return answer
        size = int(answer.headers.get(HEADER.lower(), len(answer.body)))
        read, tail = json.loads(answer.body[:size]), answer.body[size:]
        for each in read["outputs"]:
            count = each.get("parameters", {}).get("binary_data_size")
            if count is not None:
                each |= {"data": unpack(each["datatype"], tail[:count]), "raw": True}
                tail = tail[count:]
            else:
                each["data"] = flat(each["data"])
        return answered(read)

    def leave(self, model: str, body: Body) -> None:
        """Send a request and disconnect before its answer."""
        self.abandon(f"{self.path(model)}/infer", body)


def flat(values: Any) -> list[Any]:
    """Return nested lists as one; the protocol allows both."""
    if not isinstance(values, list):
        return [values]
    return [leaf for each in values for leaf in flat(each)]


def message_types() -> Any:
    """Return a function of a name that returns the type of a message.

    In a pool of their own, because other packages register the same names in the default one.
    """
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    pool = descriptor_pool.DescriptorPool()
    contract = (Path(__file__).parents[2] / CONTRACT).read_bytes()
    for file in descriptor_pb2.FileDescriptorSet.FromString(contract).file:
        pool.Add(file)
    return lambda name: message_factory.GetMessageClass(
        pool.FindMessageTypeByName(f"inference.{name}")
    )


def plain(value: Any) -> Any:
    """Return a message as a dictionary of all its fields, and a map as its keys."""
    if hasattr(value, "DESCRIPTOR"):
        fields = [each.name for each in value.DESCRIPTOR.fields]
        return {name: plain(getattr(value, name)) for name in fields}
    scalar = isinstance(value, str | bytes | int | float)
    return value if scalar else [plain(each) for each in value]


class Grpc:
    """Over gRPC, with the same methods."""

    def __init__(self, url: str, token: str, seconds: float) -> None:
        try:
            import grpc

            self._type = message_types()
        except ImportError as error:
            remedy = "grpc:// needs grpcio and protobuf: pip install grpcio protobuf"
            raise ValueError(remedy) from error
        self._error, self.token, self._seconds = grpc.RpcError, token, seconds
        options = [("grpc.max_receive_message_length", -1)]
        self._channel = grpc.insecure_channel(urlsplit(url).netloc, options=options)

    def with_token(self, token: str) -> Self:
        """Return the server as a caller with another token reaches it."""
        other = copy.copy(self)
        other.token = token
        return other

    def probe(self) -> None:
        """Raise NoAnswer if the server does not answer, or is not live."""
        if self.live().status == 503:
            raise NoAnswer("the server does not answer, or is not live")

    def _method(self, name: str, request: str = "", kind: str = "unary_unary") -> Any:
        types = self._type(f"{request or name}Request"), self._type(f"{name}Response")
        make = getattr(self._channel, kind)
        return make(SERVICE + name, types[0].SerializeToString, types[1].FromString)

    def _call(self, call: Any, request: Any) -> Any:
        """Return what a call returns, or its refusal as an Answer."""
        try:
            return call(request, timeout=self._seconds, metadata=self._metadata())
        except self._error as error:
            code = error.code().name
            body = {"error": error.details() or "", "grpc": code}
            trailers: Any = error.trailing_metadata() or ()
            headers = {name.lower(): str(value) for name, value in trailers}
            return Answer(STATUSES.get(code, 500), headers, json.dumps(body).encode())

    def _metadata(self) -> tuple[tuple[str, str], ...]:
        return (("authorization", f"Bearer {self.token}"),) if self.token else ()

    def _get(self, name: str, flag: str = "", /, **fields: str) -> Answer:
        answer = self._call(self._method(name), self._type(f"{name}Request")(**fields))
        if isinstance(answer, Answer):
            return answer
        status = 200 if not flag or getattr(answer, flag) else 503
        return Answer(status, {}, json.dumps(plain(answer)).encode())

    def live(self) -> Answer:
        return self._get("ServerLive", "live")

    def ready(self) -> Answer:
        return self._get("ServerReady", "ready")

    def server_metadata(self) -> Answer:
        return self._get("ServerMetadata")

    def model_ready(self, model: str) -> Answer:
        return self._get("ModelReady", "ready", name=model)

    def model_metadata(self, model: str) -> Answer:
        return self._get("ModelMetadata", name=model)

    def request(self, model: str, body: Body, raw: bool = False, version: str = "") -> Any:
        """Return a request to infer."""
        inputs, tensors = [], []
        for each in body["inputs"]:
            inputs.append({key: each[key] for key in ("name", "datatype", "shape")})
            if raw:
                tensors.append(pack(each["datatype"], each["data"]))
            else:
                values = [v.encode() if isinstance(v, str) else v for v in each["data"]]
                inputs[-1]["contents"] = {CONTENTS[each["datatype"]]: values}
        fields = {"id": body.get("id", ""), "outputs": body.get("outputs", [])}
        fields |= {"model_name": model, "model_version": version}
        kind = self._type("ModelInferRequest")
        return kind(**fields, inputs=inputs, raw_input_contents=tensors)

    def infer(self, model: str, body: Body, *, raw: bool = False, version: str = "") -> Answer:
        request = self.request(model, body, raw, version)
        answer = self._call(self._method("ModelInfer"), request)
        return answer if isinstance(answer, Answer) else read_outputs(answer)

    def leave(self, model: str, body: Body) -> None:
        call = self._method("ModelInfer").future
        future = self._call(call, self.request(model, body))
        threading.Event().wait(SECONDS_TO_LEAVE)
        future.cancel()

    def stream(self, requests: list[Any]) -> list[Any] | Answer:
        """Return the answers to a stream of requests, or a refusal."""
        method = self._method("ModelStreamInfer", "ModelInfer", "stream_stream")

        def call(messages: list[Any], **options: Any) -> list[Any]:
            return list(method(iter(messages), **options))

        answers: list[Any] | Answer = self._call(call, requests)
        return answers


def read_outputs(message: Any) -> Answer:
    """Return an answer of infer over gRPC in the JSON form."""
    body = plain(message)
    tensors = body.pop("raw_output_contents")
    for place, each in enumerate(body["outputs"]):
        values = each.pop("contents").get(CONTENTS.get(each["datatype"], ""), [])
        if tensors:
            each |= {"data": unpack(each["datatype"], tensors[place]), "raw": True}
        else:
            texts = [v.decode("utf-8", "replace") if isinstance(v, bytes) else v for v in values]
            each["data"] = texts
    return answered(body)
