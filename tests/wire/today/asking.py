"""Exchanges over gRPC, over HTTP and by the command line, with their answers as plain JSON."""

from __future__ import annotations

import contextlib
import http.client
import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import grpc
from google.protobuf import json_format
from google.protobuf.any_pb2 import Any as Packed
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from google.rpc import error_details_pb2, status_pb2

from headlight.cli.main import main
from headlight.pb import headlight_pb2 as pb
from tests.system.processes import ROOT

FRONTENDS = ROOT / "service/headlight_service/frontends"
SECONDS = 60
RECORDED_HEADERS = ("content-type", "allow", "www-authenticate", "retry-after", "retry-after-ms")
JSON_TYPE = {"Content-Type": "application/json"}


class Rpc(NamedTuple):
    """A call over gRPC.

    Attributes:
        method: as "package.Service/Method".
        requests: as JSON; several of a stream alone.
        token: to send.
    """

    method: str
    requests: tuple[dict[str, Any], ...]
    token: str = ""


class Http(NamedTuple):
    """A request over HTTP.

    Attributes:
        line: method and path.
        body: sent as JSON, or as it is if it is bytes.
        headers: beside the type of the body.
        shown: whether the answer is recorded with its body.
    """

    line: str
    body: Any = None
    headers: tuple[tuple[str, str], ...] = ()
    shown: bool = True


class Command(NamedTuple):
    """A command, without "headlight"."""

    words: tuple[str, ...]
    stdin: str = ""


Exchange = Rpc | Http | Command


class Door(NamedTuple):
    """Where a service listens."""

    grpc: str
    http: str


def ask(door: Door, exchange: Exchange) -> dict[str, Any]:
    """Return the answer as JSON: messages or body, status, details and telling headers."""
    if isinstance(exchange, Rpc):
        return _call(door.grpc, exchange)
    if isinstance(exchange, Http):
        return _request(door.http, exchange)
    return _run(door.grpc, exchange)


def _pool() -> DescriptorPool:
    """Return all contracts that are served, in a pool of their own."""
    pool, contract = DescriptorPool(), FileDescriptorProto()
    pb.DESCRIPTOR.CopyToProto(contract)
    pool.Add(contract)
    for binpb in ("oip/inference_messages.binpb", "grpc/tei/tei_messages.binpb"):
        for file in FileDescriptorSet.FromString((FRONTENDS / binpb).read_bytes()).file:
            pool.Add(file)
    return pool


POOL = _pool()


def _method(name: str) -> MethodDescriptor:
    service, _, method = name.partition("/")
    return POOL.FindServiceByName(service).methods_by_name[method]


def _call(target: str, call: Rpc) -> dict[str, Any]:
    method = _method(call.method)
    kind, answer_kind = GetMessageClass(method.input_type), GetMessageClass(method.output_type)
    requests = [json_format.ParseDict(each, kind()) for each in call.requests]
    metadata = [("authorization", f"Bearer {call.token}")] if call.token else []
    answers: list[Any] = []
    with grpc.insecure_channel(target) as channel:
        try:
            answers += _answers(channel, method, requests, answer_kind, metadata)
        except grpc.RpcError as error:
            return {"messages": _said(answers), **_status(error)}
    return {"messages": _said(answers), "code": "OK"}


def _answers(
    channel: grpc.Channel, method: MethodDescriptor, requests: list[Any], kind: Any, metadata: Any
) -> Iterator[Any]:
    streams = ("stream" if method.client_streaming else "unary") + (
        "_stream" if method.server_streaming else "_unary"
    )
    make = getattr(channel, streams)
    path = f"/{method.containing_service.full_name}/{method.name}"
    call = make(path, lambda message: message.SerializeToString(), kind.FromString)
    sent = iter(requests) if method.client_streaming else requests[0]
    answer = call(sent, timeout=SECONDS, metadata=metadata)
    if method.server_streaming:
        yield from answer
    else:
        yield answer


def _said(messages: list[Any]) -> list[Any]:
    """Return messages as JSON; those of a stream by their ids, for answers may overtake another."""
    said = [json_format.MessageToDict(each, preserving_proto_field_name=True) for each in messages]
    return sorted(said, key=lambda each: str(each.get("id", "")))


def _status(error: Any) -> dict[str, Any]:
    trailing = dict(error.trailing_metadata() or ())
    status = status_pb2.Status.FromString(trailing.pop("grpc-status-details-bin", b""))
    names = {name for name in trailing if not name.startswith("x-request")}
    return {
        "code": error.code().name,
        "message": error.details(),
        "details": [_unpacked(detail) for detail in status.details],
        "trailing": sorted(names),
    }


def _unpacked(detail: Packed) -> dict[str, Any]:
    kind = detail.TypeName()
    message = getattr(error_details_pb2, kind.rpartition(".")[2])()
    detail.Unpack(message)
    return {"type": kind} | json_format.MessageToDict(message, preserving_proto_field_name=True)


def _request(address: str, request: Http) -> dict[str, Any]:
    method, _, path = request.line.partition(" ")
    headers = dict(request.headers)
    body = request.body
    if body is not None and not isinstance(body, bytes):
        body, headers = json.dumps(body).encode(), JSON_TYPE | headers
    connection = http.client.HTTPConnection(address, timeout=SECONDS)
    with contextlib.closing(connection):
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        raw = answer.read()
    kept = {name.lower(): value for name, value in answer.getheaders()}
    said = {name: kept[name] for name in RECORDED_HEADERS if name in kept}
    response: dict[str, Any] = {"status": answer.status, "headers": said}
    if request.shown:
        json_body = "json" in said.get("content-type", "")
        response["body"] = json.loads(raw) if json_body else raw.decode()
    return response


def _run(target: str, command: Command) -> dict[str, Any]:
    out, err = io.StringIO(), io.StringIO()
    words = [*command.words]
    if words[0] not in ("--help", "--version", "doctor") and "--target" not in words:
        words += ["--target", target]
    read = io.TextIOWrapper(io.BytesIO(command.stdin.encode()))
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.redirect_stdout(out))
        stack.enter_context(contextlib.redirect_stderr(err))
        stack.enter_context(_reading(read))
        try:
            code: Any = main(words)
        except SystemExit as ended:
            code = ended.code
    return {"exit": code or 0, "out": _lines(out.getvalue()), "err": err.getvalue()}


def _lines(text: str) -> list[Any]:
    """Return JSON, a document or one a line, read; else the lines as they are."""
    with contextlib.suppress(ValueError):
        return [json.loads(text)]
    with contextlib.suppress(ValueError):
        return [json.loads(line) for line in text.splitlines()]
    return text.splitlines()


@contextlib.contextmanager
def _reading(text: io.TextIOWrapper) -> Iterator[None]:
    before, sys.stdin = sys.stdin, text
    try:
        yield
    finally:
        sys.stdin = before


def answers_path(name: str) -> Path:
    """Return the file of the recorded answers of a group of exchanges."""
    return Path(__file__).parent / "answers" / f"{name}.json"
