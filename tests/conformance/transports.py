"""The Open Inference Protocol over REST, and over gRPC, with answers in one form.

A request and an answer have the JSON form of REST. Over gRPC, a status has the number that REST has
for it, and its details are the body's `error`.
"""

from __future__ import annotations

import json
import math
import struct
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote, urlsplit

from tests.conformance.http_client import SECONDS_TO_LEAVE, Answer, HttpServer, NoAnswer
from tests.conformance.protobuf import decode, encode

Body = dict[str, Any]
SERVICE = "/inference.GRPCInferenceService/"
HEADER = "Inference-Header-Content-Length"
FORMATS = {"FP16": "e", "FP32": "f", "FP64": "d", "BOOL": "?"}
FORMATS |= {"INT8": "b", "INT16": "h", "INT32": "i", "INT64": "q"}
FORMATS |= {"UINT8": "B", "UINT16": "H", "UINT32": "I", "UINT64": "Q"}
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


def checked(outputs: list[Body]) -> None:
    """Raise ValueError if an output's numbers are not as many as its shape has."""
    for each in outputs:
        count = math.prod(each["shape"])
        if len(each["data"]) != count:
            raise ValueError(f"{each['name']} {each['shape']} has {len(each['data'])} values")


class Transport(ABC):
    """A server of the protocol.

    Attributes:
        grpc: whether it is reached over gRPC.
    """

    grpc: bool
    token: str

    @abstractmethod
    def live(self) -> Answer: ...

    @abstractmethod
    def ready(self) -> Answer: ...

    @abstractmethod
    def server_metadata(self) -> Answer: ...

    @abstractmethod
    def model_ready(self, model: str) -> Answer: ...

    @abstractmethod
    def model_metadata(self, model: str) -> Answer: ...

    @abstractmethod
    def infer(
        self,
        model: str,
        body: Body,
        *,
        raw: bool = False,
        token: str | None = None,
        version: str = "",
    ) -> Answer:
        """Return an answer; `raw`: tensors are sent as raw bytes, and requested as such.

        Outputs that came as raw bytes have `raw` true.
        """

    @abstractmethod
    def abandon(self, model: str, body: Body) -> None:
        """Send a request and disconnect before its answer."""


class Rest(Transport):
    """Over HTTP, in JSON or with the extension for binary tensors."""

    grpc = False

    def __init__(self, server: HttpServer) -> None:
        self.server, self.token = server, server.token

    def live(self) -> Answer:
        return self.server.get("/v2/health/live")

    def ready(self) -> Answer:
        return self.server.get("/v2/health/ready")

    def server_metadata(self) -> Answer:
        return self.server.get("/v2")

    def _path(self, model: str, version: str = "") -> str:
        path = f"/v2/models/{quote(model, safe='')}"
        return f"{path}/versions/{version}" if version else path

    def model_ready(self, model: str) -> Answer:
        return self.server.get(f"{self._path(model)}/ready")

    def model_metadata(self, model: str) -> Answer:
        return self.server.get(self._path(model))

    def infer(
        self,
        model: str,
        body: Body,
        *,
        raw: bool = False,
        token: str | None = None,
        version: str = "",
    ) -> Answer:
        headers: dict[str, str] = {}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        tail = b""
        if raw:
            inputs = []
            for each in body["inputs"]:
                data = pack(each["datatype"], each["data"])
                sized = {"binary_data_size": len(data)}
                inputs.append({**each, "parameters": sized})
                del inputs[-1]["data"]
                tail += data
            body = {**body, "inputs": inputs, "parameters": {"binary_data_output": True}}
        head = json.dumps(body).encode()
        if raw:
            headers |= {HEADER: str(len(head)), "Content-Type": "application/octet-stream"}
        path = f"{self._path(model, version)}/infer"
        answer = self.server.request("POST", path, head + tail, headers)
        return self._read(answer) if answer.status == 200 else answer

    def _read(self, answer: Answer) -> Answer:
        size = int(answer.headers.get(HEADER.lower(), len(answer.body)))
        body, tail = json.loads(answer.body[:size]), answer.body[size:]
        for each in body["outputs"]:
            count = each.get("parameters", {}).get("binary_data_size")
            if count is not None:
                each |= {"data": unpack(each["datatype"], tail[:count]), "raw": True}
                tail = tail[count:]
            else:
                each["data"] = flat(each["data"])
        checked(body["outputs"])
        return Answer(200, answer.headers, json.dumps(body).encode())

    def abandon(self, model: str, body: Body) -> None:
        self.server.abandon(f"{self._path(model)}/infer", body)


def flat(values: Any) -> list[Any]:
    """Return nested lists as one; the protocol allows both."""
    if not isinstance(values, list):
        return [values]
    return [leaf for each in values for leaf in flat(each)]


class Grpc(Transport):
    """Over gRPC, by grpcio and the few messages of protobuf.py."""

    grpc = True

    def __init__(self, target: str, token: str, seconds: float) -> None:
        import grpc

        self._grpc, self.token, self._seconds = grpc, token, seconds
        options = [("grpc.max_receive_message_length", -1)]
        self._channel = grpc.insecure_channel(target, options=options)

    def _metadata(self, token: str | None = None) -> tuple[tuple[str, str], ...]:
        token = self.token if token is None else token
        return (("authorization", f"Bearer {token}"),) if token else ()

    def _method(self, name: str) -> Any:
        return self._channel.unary_unary(SERVICE + name, bytes, bytes)

    def _refusal(self, error: Any) -> Answer:
        code = error.code().name
        body = {"error": error.details() or "", "grpc": code}
        headers = {key.lower(): str(value) for key, value in error.trailing_metadata() or ()}
        return Answer(STATUSES.get(code, 500), headers, json.dumps(body).encode())

    def _call(self, name: str, request: bytes, token: str | None = None) -> Answer | bytes:
        """Return the bytes of an answer, or a refusal."""
        try:
            answer: bytes = self._method(name)(
                request, timeout=self._seconds, metadata=self._metadata(token)
            )
        except self._grpc.RpcError as error:
            return self._refusal(error)
        return answer

    def _get(self, name: str, schema: str, request: bytes = b"", flag: str = "") -> Answer:
        answer = self._call(name, request)
        if isinstance(answer, Answer):
            return answer
        body = decode(schema, answer)
        return Answer(200 if not flag or body[flag] else 503, {}, json.dumps(body).encode())

    def live(self) -> Answer:
        return self._get("ServerLive", "ServerLiveResponse", flag="live")

    def ready(self) -> Answer:
        return self._get("ServerReady", "ServerReadyResponse", flag="ready")

    def server_metadata(self) -> Answer:
        return self._get("ServerMetadata", "ServerMetadataResponse")

    def model_ready(self, model: str) -> Answer:
        request = encode("ModelReadyRequest", {"name": model})
        return self._get("ModelReady", "ModelReadyResponse", request, flag="ready")

    def model_metadata(self, model: str) -> Answer:
        request = encode("ModelMetadataRequest", {"name": model})
        return self._get("ModelMetadata", "ModelMetadataResponse", request)

    def request(self, model: str, body: Body, raw: bool = False, version: str = "") -> bytes:
        """Return the bytes of a request to infer."""
        message = body | {"model_name": model, "model_version": version, "inputs": []}
        message["parameters"] = []
        message["raw_input_contents"] = []
        for each in body["inputs"]:
            tensor = {key: each[key] for key in ("name", "datatype", "shape")}
            if raw:
                message["raw_input_contents"].append(pack(each["datatype"], each["data"]))
            else:
                values = each["data"]
                if each["datatype"] == "BYTES":
                    values = [value.encode() for value in values]
                tensor["contents"] = {CONTENTS[each["datatype"]]: values}
            message["inputs"].append(tensor)
        return encode("ModelInferRequest", message)

    def infer(
        self,
        model: str,
        body: Body,
        *,
        raw: bool = False,
        token: str | None = None,
        version: str = "",
    ) -> Answer:
        request = self.request(model, body, raw, version)
        answer = self._call("ModelInfer", request, token)
        if isinstance(answer, Answer):
            return answer
        return Answer(
            200, {}, json.dumps(read_outputs(decode("ModelInferResponse", answer))).encode()
        )

    def abandon(self, model: str, body: Body) -> None:
        future = self._method("ModelInfer").future(
            self.request(model, body), timeout=self._seconds, metadata=self._metadata()
        )
        threading.Event().wait(SECONDS_TO_LEAVE)
        future.cancel()

    def stream(self, requests: list[bytes]) -> list[Mapping[str, Any]] | Answer:
        """Return Triton's answers to a stream of requests, or a refusal."""
        method = self._channel.stream_stream(SERVICE + "ModelStreamInfer", bytes, bytes)
        try:
            answers = list(method(iter(requests), timeout=self._seconds, metadata=self._metadata()))
        except self._grpc.RpcError as error:
            return self._refusal(error)
        return [decode("ModelStreamInferResponse", each) for each in answers]


def read_outputs(message: Body) -> Body:
    """Return an answer over gRPC in the JSON form."""
    blobs = message.pop("raw_output_contents")
    for place, each in enumerate(message["outputs"]):
        contents = each.pop("contents") or {}
        if blobs:
            each |= {"data": unpack(each["datatype"], blobs[place]), "raw": True}
            continue
        values = contents.get(CONTENTS.get(each["datatype"], ""), [])
        each["data"] = [v.decode("utf-8", "replace") if isinstance(v, bytes) else v for v in values]
    message.pop("parameters")
    for each in message["outputs"]:
        each.pop("parameters")
    checked(message["outputs"])
    return message


def http_server(url: str, token: str, seconds: float) -> HttpServer:
    """Return a server that answers; raise NoAnswer if it does not."""
    server = HttpServer(url, token, seconds)
    server.probe()
    return server


def transport(url: str, token: str, seconds: float) -> Transport:
    """Return the transport of a URL: http://, https:// or grpc://.

    Raises:
        ValueError: the URL has another scheme, or grpcio is missing.
    """
    parts = urlsplit(url)
    if parts.scheme != "grpc":
        return Rest(http_server(url, token, seconds))
    try:
        made = Grpc(parts.netloc, token, seconds)
    except ImportError as error:
        raise ValueError("grpc:// needs the package grpcio: pip install grpcio") from error
    if made.live().status == 503:
        raise NoAnswer("the server does not answer, or is not live")
    return made
