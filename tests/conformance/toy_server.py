"""A server of all dialects around a toy model, which keeps every promise until a fault is set.

A fault gets the right server and a request, and returns a reply of its own.
"""

from __future__ import annotations

import base64
import json
import math
import struct
import threading
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import grpc

from tests.conformance.transports import (
    CONTENTS,
    HEADER,
    SERVICE,
    STATUSES,
    message_types,
    pack,
    plain,
    unpack,
)

WIDTH, LIMIT, TOKEN = 16, 512, "secret"
GRPC_CODES = {number: name for name, number in reversed(STATUSES.items())}
SIDES = {None: None, "Left": "start", "Right": "end", "NONE": None, "START": "start", "END": "end"}
RIGHT_TYPES = {"float", "int8", "uint8", "binary", "ubinary", "base64"}
Body = dict[str, Any]


@dataclass(frozen=True)
class Request:
    """A request; its body is parsed: None if it is absent or no JSON."""

    method: str
    path: str
    token: str
    body: Any = None


@dataclass(frozen=True)
class Reply:
    """A reply with JSON; outputs in a body with `raw` are sent as raw bytes."""

    status: int
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)


Right = Callable[[Request], Reply]
Fault = Callable[[Right, Request], Reply]


class Refusal(Exception):
    """A refused request; `status` 0: what the dialect has for a wrong one."""

    def __init__(self, status: int, kind: str) -> None:
        super().__init__(f"refused, {status}")
        self.status, self.kind = status, kind


def need(condition: object, status: int = 0, kind: str = "Validation") -> None:
    """Refuse a request if a condition does not hold."""
    if not condition:
        raise Refusal(status, kind)


# The model


def tokens(text: str) -> list[Body]:
    """Return the words of a text, with offsets in bytes."""
    words, place, raw = [], 0, text.encode()
    for word in raw.split():
        place = raw.index(word, place)
        token = {"id": zlib.crc32(word) % 1000 + 10, "text": word.decode(), "special": False}
        words.append(token | {"start": place, "stop": place + len(word)})
        place += len(word)
    return words


def count(texts: list[str]) -> int:
    """Return the tokens of texts, each with two special ones."""
    return sum(len(tokens(text)) + 2 for text in texts)


def text_of(value: Any) -> str:
    """Return an input as a text; ids become one of the same length."""
    if isinstance(value, list):
        need(value and all(type(each) is int for each in value))
        return " ".join(f"id{each}" for each in value)
    need(isinstance(value, str))
    need(value, 400, "Empty")
    need(all(not "\ud800" <= each <= "\udfff" for each in value))
    return str(value)


def texts_of(value: Any, most: int = 2048) -> list[str]:
    """Return the texts of a text, a list of texts, ids, or a list of lists of ids."""
    ids = isinstance(value, list) and value and type(value[0]) is int
    inputs = [value] if isinstance(value, str) or ids else value
    need(isinstance(inputs, list))
    need(inputs, 400, "Empty")
    need(len(inputs) <= most)
    return [text_of(each) for each in inputs]


def raw_vector(text: str, side: str | None = None) -> list[float]:
    """Return a vector that depends on each word and its place; `side`: what is cut."""
    words = [each["id"] for each in tokens(text)]
    need(len(words) <= LIMIT or side)
    words = words[-LIMIT:] if side == "start" else words[:LIMIT]
    places = [(word, 1 + 0.1 * math.cos(place)) for place, word in enumerate(words)]
    return [
        1e-3 + sum(math.sin(word * entry * 0.7) * scale for word, scale in places)
        for entry in range(1, WIDTH + 1)
    ]


def vectors(texts: list[str], width: Any = None, side: str | None = None) -> list[list[float]]:
    """Return vectors of length 1, in float32."""
    need(width is None or (type(width) is int and 0 < width <= WIDTH))
    rows = [raw_vector(text, side)[:width] for text in texts]
    packed = [struct.pack(f"<{len(row)}f", *(x / math.hypot(*row) for x in row)) for row in rows]
    return [[value for (value,) in struct.iter_unpack("<f", each)] for each in packed]


def in_type(row: list[float], kind: str) -> Any:
    """Return a vector in one of Cohere's types."""
    if kind in ("float", "base64"):
        raw = base64.b64encode(struct.pack(f"<{len(row)}f", *row)).decode()
        return row if kind == "float" else raw
    if kind.endswith("int8"):
        return [round(each * 127) + (128 if kind == "uint8" else 0) for each in row]
    signs = "".join(str(int(each > 0)) for each in row)
    values = [int(signs[place : place + 8], 2) for place in range(0, len(signs), 8)]
    return values if kind == "ubinary" else [each - 128 for each in values]


def scores(query: Any, texts: Any) -> list[float]:
    """Return the logit of each text for a query."""
    need(isinstance(query, str) and isinstance(texts, list))
    need(texts, 400, "Empty")
    words = {each["id"] for each in tokens(query)}
    ids = [[each["id"] for each in tokens(text_of(text))] for text in texts]
    return [len(words & set(each)) + float(sum(each) % 97) / 100 for each in ids]


def sigmoid(number: float) -> float:
    return 1 / (1 + math.exp(-number))


# OpenAI


def openai_embeddings(body: Body) -> Body:
    need(body.get("model", "toy") == "toy", 404)
    texts, kind = texts_of(body.get("input")), body.get("encoding_format", "float")
    need(kind in ("float", "base64"))
    rows = [in_type(row, kind) for row in vectors(texts, body.get("dimensions"))]
    data = [{"object": "embedding", "index": n, "embedding": row} for n, row in enumerate(rows)]
    usage = dict.fromkeys(("prompt_tokens", "total_tokens"), count(texts))
    return {"object": "list", "data": data, "model": "toy", "usage": usage}


# text-embeddings-inference

INFO: Body = {"model_id": "toy", "model_dtype": "float32", "version": "1", "auto_truncate": False}
INFO |= {"max_concurrent_requests": 512, "max_input_length": LIMIT, "max_batch_tokens": 16384}
INFO |= {"max_client_batch_size": 32, "tokenization_workers": 1}
INFO |= {"model_type": {"embedding": {"pooling": "mean"}}}
SPECIALS = [
    {"id": number, "text": text, "special": True, "start": None, "stop": None}
    for number, text in ((1, "<s>"), (2, "</s>"))
]


def tei_embed(body: Body) -> Reply:
    texts = texts_of(body.get("inputs"), INFO["max_client_batch_size"])
    truncate, direction = body.get("truncate"), body.get("truncation_direction", "Right")
    need(truncate in (None, False, True) and direction in ("Left", "Right"))
    need(body.get("prompt_name") is None)
    side = SIDES[direction] if truncate else None
    rows = vectors(texts, body.get("dimensions"), side)
    if not body.get("normalize", True):
        rows = [raw_vector(text, side) for text in texts]
    return Reply(200, rows, {"x-compute-tokens": str(count(texts))})


def tei_embed_all(body: Body) -> Any:
    return [[[1.0] * WIDTH] * count([text]) for text in texts_of(body["inputs"])]


def tei_embed_sparse(body: Body) -> Any:
    rows = [{each["id"] for each in tokens(text)} for text in texts_of(body["inputs"])]
    return [[{"index": each, "value": 1.5} for each in sorted(row)] for row in rows]


def tei_tokenize(body: Body) -> Any:
    rows, special = [tokens(text) for text in texts_of(body["inputs"])], SPECIALS
    return [
        [special[0], *row, special[1]] if body.get("add_special_tokens", True) else row
        for row in rows
    ]


def tei_decode(body: Body) -> Any:
    words = {each["id"]: each["text"] for each in tokens("join two paths parse a date")}
    return [" ".join(words[each] for each in body["ids"])]


def tei_similarity(body: Body) -> Any:
    inputs = body["inputs"]
    first, *others = vectors([inputs["source_sentence"], *inputs["sentences"]])
    return [sum(a * b for a, b in zip(first, each, strict=True)) for each in others]


def tei_rerank(body: Body) -> Any:
    logits = scores(body.get("query"), body.get("texts"))
    values = logits if body.get("raw_scores") else [sigmoid(each) for each in logits]
    ranks = [{"index": place, "score": each} for place, each in enumerate(values)]
    if body.get("return_text"):
        ranks = [each | {"text": body["texts"][each["index"]]} for each in ranks]
    return sorted(ranks, key=lambda each: -each["score"])


def tei_predict(body: Body) -> Any:
    single = isinstance(body["inputs"], str)
    texts = [body["inputs"]] if single else [each[0] for each in body["inputs"]]
    good = [sigmoid(each) for each in scores("", texts)]  # more than one half
    rows = [[{"score": g, "label": "good"}, {"score": 1 - g, "label": "bad"}] for g in good]
    return rows[0] if single else rows


# Cohere


def cohere_embed(body: Body) -> Body:
    need(body.get("model") == "toy", 404)
    texts, kinds = body.get("texts"), set(body.get("embedding_types", ["float"]))
    need(isinstance(texts, list) and all(isinstance(each, str) for each in texts))
    need(kinds <= RIGHT_TYPES and body.get("input_type") in ("search_document", "search_query"))
    side = body.get("truncate", "END")
    need(side in ("NONE", "START", "END"))
    rows = vectors(texts_of(texts), body.get("output_dimension"), SIDES[side])
    by_type = {kind: [in_type(row, kind) for row in rows] for kind in kinds}
    meta = {"billed_units": {"input_tokens": count(texts or [])}}
    return {"id": "1", "response_type": "embeddings_by_type", "texts": texts, "meta": meta} | {
        "embeddings": by_type
    }


def cohere_rerank(body: Body) -> Body:
    need(body.get("model") == "toy", 404)
    documents, most = body.get("documents"), body.get("top_n")
    need(isinstance(documents, list) and documents)
    need(most is None or (type(most) is int and most > 0))
    texts = [each["text"] if isinstance(each, dict) else each for each in documents or []]
    values = [sigmoid(each) for each in scores(body.get("query"), texts)]
    ranks: list[Body] = [{"index": n, "relevance_score": each} for n, each in enumerate(values)]
    if body.get("return_documents"):
        ranks = [each | {"document": {"text": texts[each["index"]]}} for each in ranks]
    ranks.sort(key=lambda each: -each["relevance_score"])
    return {"id": "1", "results": ranks[:most]}


# Open Inference Protocol

OUTPUTS = {"embedding": ("FP32", [-1, WIDTH]), "lengths": ("INT32", [-1])}


def oip_metadata() -> Body:
    tensors = [{"name": name, "datatype": kind, "shape": shape}
               for name, (kind, shape) in OUTPUTS.items()]  # fmt: skip
    inputs = [{"name": "text", "datatype": "BYTES", "shape": [-1]}]
    model = {"name": "toy", "versions": ["1"], "platform": "toy"}
    return model | {"inputs": inputs, "outputs": tensors}


def oip_infer(body: Body) -> Body:
    need(len(body.get("inputs", [])) == 1)
    [tensor] = body["inputs"]
    need(tensor["datatype"] == "BYTES" and tensor["shape"] == [len(tensor["data"])])
    texts = texts_of(tensor["data"])
    data = {"embedding": [number for row in vectors(texts) for number in row]}
    data["lengths"] = [len(tokens(text)) for text in texts]
    names = [each["name"] for each in body.get("outputs") or []] or list(OUTPUTS)
    need(set(names) <= OUTPUTS.keys())
    outputs = []
    for name in names:
        kind, shape = OUTPUTS[name]
        outputs.append({"name": name, "datatype": kind, "data": data[name]})
        outputs[-1]["shape"] = [len(texts), *shape[1:]]
    made = {"model_name": "toy", "model_version": "1", "id": body.get("id", "")}
    return made | {"outputs": outputs, "raw": body.get("raw", False)}


# The server

MODEL = {"id": "toy", "object": "model", "created": 0, "owned_by": "tests"}
GETS: Body = {
    **dict.fromkeys(("/", "/health", "/v2/health/live", "/v2/health/ready")),
    "/v2/models/toy/ready": None,
    "/v1/models": {"object": "list", "data": [MODEL]},
    "/v1/models/toy": MODEL,
    "/info": INFO,
    "/v2": {"name": "toy", "version": "1", "extensions": ["binary_tensor_data"]},
    "/v2/models/toy": oip_metadata(),
}
TEI = [tei_embed, tei_embed_all, tei_embed_sparse, tei_tokenize, tei_decode, tei_similarity]
TEI += [tei_rerank, tei_predict]
POSTS: dict[str, Callable[[Body], Any]] = {
    "/v1/embeddings": openai_embeddings,
    "/": tei_embed,
    **{f"/{each.__name__.removeprefix('tei_')}": each for each in TEI},
    "/v2/embed": cohere_embed,
    "/v1/rerank": cohere_rerank,
    "/v2/rerank": cohere_rerank,
    "/v2/models/toy/infer": oip_infer,
}
COHERE = ("/v2/embed", "/v2/rerank", "/v1/rerank")


def right(request: Request) -> Reply:
    """Return the reply of a server that keeps every promise."""
    try:
        if request.path not in ("/", "/health") or request.method == "POST":
            need(request.token == TOKEN, 401)
        if request.method == "GET":
            need(request.path not in POSTS or request.path in GETS, 405)
            need(request.path in GETS, 404)
            return Reply(200, GETS[request.path])
        need(isinstance(request.body, dict))
        need(request.path in POSTS, 404)
        reply = POSTS[request.path](request.body)
        return reply if isinstance(reply, Reply) else Reply(200, reply)
    except Refusal as refusal:
        return refused(request.path, refusal)


def refused(path: str, refusal: Refusal) -> Reply:
    """Return a refusal in the form of the path's dialect."""
    message, status = str(refusal), refusal.status or 400
    if path in COHERE:
        return Reply(status, {"message": message})
    if path.startswith("/v2"):
        return Reply(status, {"error": message})
    if path.startswith("/v1"):
        fields = {"message": message, "type": "invalid", "param": None, "code": None}
        return Reply(status, {"error": fields})
    return Reply(refusal.status or 422, {"error": message, "error_type": refusal.kind})


def keep_promises(right: Right, request: Request) -> Reply:
    """The absence of a fault."""
    return right(request)


def read_body(data: bytes, head: str) -> Any:
    """Return the body of a request over HTTP; `head`: the length of JSON before raw bytes."""
    try:
        body = json.loads(data[: int(head)] if head else data)
    except ValueError:
        return None
    if head:
        body["inputs"][0]["data"] = unpack("BYTES", data[int(head) :])
        body["raw"] = body.pop("parameters")["binary_data_output"]
    return body


def write_body(reply: Reply) -> tuple[bytes, dict[str, str]]:
    """Return the body and the headers of a reply over HTTP."""
    if not (isinstance(reply.body, dict) and reply.body.pop("raw", False)):
        return b"" if reply.body is None else json.dumps(reply.body).encode(), reply.headers
    tensors = []
    for each in reply.body["outputs"]:
        tensors.append(pack(each["datatype"], each.pop("data")))
        each["parameters"] = {"binary_data_size": len(tensors[-1])}
    head = json.dumps(reply.body).encode()
    return head + b"".join(tensors), {HEADER: str(len(head))}


@contextmanager
def served(fault: Fault = keep_promises) -> Iterator[str]:
    """Serve over HTTP on a free port; yield host:port."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None: ...

        def _reply(self) -> None:
            data = self.rfile.read(int(self.headers.get("content-length", 0)))
            token = self.headers.get("authorization", "").removeprefix("Bearer ")
            body = read_body(data, self.headers.get(HEADER, ""))
            reply = fault(right, Request(self.command, self.path, token, body))
            content, headers = write_body(reply)
            try:
                self.send_response(reply.status)
                for name, value in {**headers, "Content-Length": str(len(content))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)
            except OSError:
                self.close_connection = True  # the client has left

        do_GET = do_POST = _reply

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


GRPC_PATHS = {
    "ServerLive": "/v2/health/live",
    "ServerReady": "/v2/health/ready",
    "ServerMetadata": "/v2",
    "ModelMetadata": "/v2/models/{0.name}",
    "ModelReady": "/v2/models/{0.name}/ready",
}


class GrpcMethods(grpc.GenericRpcHandler):  # type: ignore[type-arg]  # no type at run time
    """The Open Inference Protocol over gRPC, by the paths of REST."""

    def __init__(self, fault: Fault) -> None:
        self._fault, self._type = fault, message_types()

    def service(self, details: Any) -> Any:
        name = details.method.removeprefix(SERVICE)
        request = "ModelInfer" if name == "ModelStreamInfer" else name
        types = (self._type(f"{request}Request"), self._type(f"{name}Response"))
        codecs = (types[0].FromString, types[1].SerializeToString)
        if name == "ModelStreamInfer":
            return grpc.stream_stream_rpc_method_handler(self._stream, *codecs)

        def get(message: Any, context: Any) -> Any:
            reply = self._reply("GET", GRPC_PATHS[name].format(message), None, context)
            flag = "ready" if name.endswith("Ready") else "live"
            return types[1](**(reply.body if reply.body is not None else {flag: True}))

        handler = self._infer if name == "ModelInfer" else get
        return grpc.unary_unary_rpc_method_handler(handler, *codecs)

    def _reply(self, method: str, path: str, body: Any, context: Any) -> Reply:
        metadata = dict(context.invocation_metadata())
        token = metadata.get("authorization", "").removeprefix("Bearer ")
        reply = self._fault(right, Request(method, path, token, body))
        if reply.status != 200:
            code = getattr(grpc.StatusCode, GRPC_CODES.get(reply.status, "INTERNAL"))
            context.abort(code, reply.body.get("error", ""))
        return reply

    def _infer(self, message: Any, context: Any) -> Any:
        body = plain(message)
        tensors, version = body.pop("raw_input_contents"), body["model_version"]
        for place, each in enumerate(body["inputs"]):
            values = each["contents"][CONTENTS[each["datatype"]]]
            values = [value.decode() if isinstance(value, bytes) else value for value in values]
            each["data"] = unpack(each["datatype"], tensors[place]) if tensors else values
        path = f"/v2/models/{message.model_name}" + (f"/versions/{version}" if version else "")
        request = {"inputs": body["inputs"], "outputs": body["outputs"], "id": body["id"]}
        request["raw"] = bool(tensors)
        reply = self._reply("POST", f"{path}/infer", request, context).body
        raw, blobs = reply.pop("raw", False), []
        for each in reply["outputs"]:
            kind, values = each["datatype"], each.pop("data")
            if raw:
                blobs.append(pack(kind, values))
            else:
                each["contents"] = {CONTENTS[kind]: values}
        return self._type("ModelInferResponse")(**reply, raw_output_contents=blobs)

    def _stream(self, requests: Iterator[Any], context: Any) -> Iterator[Any]:
        for each in requests:
            answer = self._infer(each, context)
            yield self._type("ModelStreamInferResponse")(infer_response=answer)


@contextmanager
def served_grpc(fault: Fault = keep_promises) -> Iterator[str]:
    """Serve the Open Inference Protocol over gRPC on a free port; yield host:port."""
    with ThreadPoolExecutor(16) as pool:
        server = grpc.server(pool)
        server.add_generic_rpc_handlers((GrpcMethods(fault),))
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        try:
            yield f"127.0.0.1:{port}"
        finally:
            server.stop(0).wait()
