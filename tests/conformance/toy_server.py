"""A server of all dialects around a toy model, which keeps every promise until a fault is set.

A fault gets the right server and a request, and returns an answer of its own.
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
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import grpc

from tests.conformance.http_client import Answer
from tests.conformance.protobuf import decode, encode
from tests.conformance.transports import CONTENTS, HEADER, SERVICE, STATUSES, pack, unpack

WIDTH, LIMIT, MOST, TOKEN = 16, 512, 2048, "secret"
SPECIALS = {"id": 1, "text": "<s>", "special": True, "start": None, "stop": None}
NAMES = {number: name for name, number in reversed(STATUSES.items())}
Body = dict[str, Any]


@dataclass(frozen=True)
class Request:
    """A request; `json` is its body, or None."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        size = int(self.headers.get(HEADER.lower(), len(self.body)))
        return json.loads(self.body[:size]) if self.body else None

    def with_json(self, body: Any) -> Request:
        """Return the request with another body."""
        return replace(self, body=json.dumps(body).encode())


Right = Callable[[Request], Answer]
Fault = Callable[[Right, Request], Answer]


class Refusal(Exception):
    """A request that is refused; each dialect gives it its own body."""

    def __init__(self, status: int, kind: str = "Validation") -> None:
        super().__init__(f"refused, {status}")
        self.status, self.kind = status, kind


def need(condition: object, status: int = 400, kind: str = "Validation") -> None:
    if not condition:
        raise Refusal(status, kind)


def tokens(text: str) -> list[Body]:
    """Return the words of a text, with offsets in bytes."""
    found, place, raw = [], 0, text.encode()
    for word in raw.split():
        place = raw.index(word, place)
        token = {"id": zlib.crc32(word) % 1000 + 10, "text": word.decode(), "special": False}
        found.append(token | {"start": place, "stop": place + len(word)})
        place += len(word)
    return found


def text_of(value: Any) -> str:
    """Return an input as a text; ids become one of the same length."""
    if isinstance(value, list):
        need(value and all(type(each) is int for each in value))
        return " ".join(f"id{each}" for each in value)
    need(isinstance(value, str))
    need(value, 400, "Empty")
    need(all(not "\ud800" <= each <= "\udfff" for each in value))
    return str(value)


def vector(text: str, cut: str | None = None, kept: int = LIMIT) -> list[float]:
    """Return a vector that depends on each word and its place; `cut`: None, "end" or "start"."""
    words = [each["id"] for each in tokens(text)]
    need(len(words) <= LIMIT or cut, 422)
    words = words[-kept:] if cut == "start" else words[:kept]
    total = [1e-3] * WIDTH
    for place, word in enumerate(words):
        for entry in range(WIDTH):
            total[entry] += math.sin(word * (entry + 1) * 0.7) * (1 + 0.1 * math.cos(place))
    return total


def single(number: float) -> float:
    """Return the float32 next to a number."""
    (value,) = struct.unpack("<f", struct.pack("<f", number))
    return float(value)


def unit(values: list[float]) -> list[float]:
    length = math.sqrt(sum(each * each for each in values))
    return [single(each / length) for each in values]


def cut(values: list[float], dimensions: Any) -> list[float]:
    if dimensions is None:
        return unit(values)
    need(type(dimensions) is int and 0 < dimensions <= WIDTH)
    return unit(values[:dimensions])


def score(query: str, text: str) -> float:
    """Return a logit of a text for a query."""
    same = {each["id"] for each in tokens(query)} & {each["id"] for each in tokens(text)}
    return len(same) + float(sum(each["id"] for each in tokens(text)) % 97) / 100


def sigmoid(number: float) -> float:
    return 1 / (1 + math.exp(-number))


def ok(body: Any, **headers: str) -> Answer:
    return Answer(200, headers, json.dumps(body).encode())


def encoded(values: list[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(values)}f", *values)).decode()


class ToyServer:
    """The right server: `answer` of a request."""

    def answer(self, request: Request) -> Answer:
        dialect = self._dialect(request.path)
        try:
            if request.path not in ("/", "/health") or request.method == "POST":
                token = request.headers.get("authorization")
                need(token == f"Bearer {TOKEN}", 401)
            return self._answered(request)
        except Refusal as refusal:
            body = json.dumps(error(dialect, refusal)).encode()
            invalid = 422 if dialect == "tei" else 400
            return Answer(invalid if refusal.status == 422 else refusal.status, {}, body)

    @staticmethod
    def _dialect(path: str) -> str:
        if path.startswith("/v2/") and path not in ("/v2/embed", "/v2/rerank"):
            return "oip"
        if path.startswith(("/v2/", "/v1/rerank")):
            return "cohere"
        return "openai" if path.startswith("/v1") else "tei"

    def _answered(self, request: Request) -> Answer:
        path = request.path
        if request.method == "GET":
            return self._get(path)
        routes: dict[str, Callable[[Body], Answer]] = {
            "/v1/embeddings": self._openai,
            "/v2/embed": self._embed,
            "/v1/rerank": self._rerank,
            "/v2/rerank": self._rerank,
        }
        routes |= {f"/{name}": getattr(self, f"_tei_{name}") for name in TEI_PATHS}
        routes["/"] = self._tei_embed
        try:
            body = request.json
        except (ValueError, UnicodeDecodeError):
            raise Refusal(422) from None
        need(isinstance(body, dict), 422)
        if path.endswith("/infer"):
            return self._infer(request, body)
        need(path in routes, 404)
        return routes[path](body)

    def _get(self, path: str) -> Answer:
        if path in ("/", "/health", "/v2/health/live", "/v2/health/ready", "/v2/models/toy/ready"):
            return Answer(200, {}, b"")
        model = {"id": "toy", "object": "model", "created": 0, "owned_by": "tests"}
        tensors = [{"name": "text", "datatype": "BYTES", "shape": [-1]}]
        vectors = [{"name": "embedding", "datatype": "FP32", "shape": [-1, WIDTH]}]
        counts = [{"name": "lengths", "datatype": "INT32", "shape": [-1]}]
        bodies: Body = {
            "/v1/models": {"object": "list", "data": [model]},
            "/v1/models/toy": model,
            "/info": INFO,
            "/v2": {"name": "toy", "version": "1", "extensions": ["binary_tensor_data"]},
            "/v2/models/toy": {
                "name": "toy",
                "versions": ["1"],
                "platform": "toy",
                "inputs": tensors,
                "outputs": vectors + counts,
            },
        }
        need(path != "/v1/embeddings", 405)
        need(path in bodies, 404)
        return ok(bodies[path])

    # OpenAI

    def _openai(self, body: Body) -> Answer:
        need(body.get("model", "toy") == "toy", 404)
        given = body.get("input")
        ids = isinstance(given, list) and given and type(given[0]) is int
        inputs = [given] if isinstance(given, str) or ids else given
        need(isinstance(inputs, list) and 0 < len(inputs) <= MOST)
        assert isinstance(inputs, list)
        texts = [text_of(each) for each in inputs]
        form = body.get("encoding_format", "float")
        need(form in ("float", "base64"))
        rows = [cut(vector(text), body.get("dimensions")) for text in texts]
        shown = rows if form == "float" else [encoded(row) for row in rows]
        data = [{"object": "embedding", "index": n, "embedding": v} for n, v in enumerate(shown)]
        count = sum(len(tokens(text)) + 2 for text in texts)
        usage = {"prompt_tokens": count, "total_tokens": count}
        return ok({"object": "list", "data": data, "model": "toy", "usage": usage})

    # text-embeddings-inference

    @staticmethod
    def _inputs(body: Body) -> list[str]:
        given = body.get("inputs")
        need(isinstance(given, str | list), 422)
        need(given, 400, "Empty")
        ids = isinstance(given, list) and type(given[0]) is int
        inputs: Any = [given] if isinstance(given, str) or ids else given
        need(all(isinstance(each, str | list) for each in inputs), 422)
        need(len(inputs) <= INFO["max_client_batch_size"], 422)
        need(body.get("prompt_name") is None, 422)
        return [text_of(each) for each in inputs]

    @staticmethod
    def _cut(body: Body) -> str | None:
        truncate, side = body.get("truncate"), body.get("truncation_direction", "Right")
        need(truncate is None or isinstance(truncate, bool), 422)
        need(side in ("Left", "Right"), 422)
        return {"Left": "start", "Right": "end"}[side] if truncate else None

    def _tei_embed(self, body: Body) -> Answer:
        texts, side, count = self._inputs(body), self._cut(body), body.get("dimensions")
        need(count is None or (type(count) is int and 0 < count <= WIDTH), 422)
        rows = [vector(text, side) for text in texts]
        if body.get("normalize", True):
            rows = [cut(row, count) for row in rows]
        lengths = sum(len(tokens(text)) + 2 for text in texts)
        return ok(rows, **{"x-compute-tokens": str(lengths)})

    def _tei_embed_all(self, body: Body) -> Answer:
        return ok([[[1.0] * WIDTH for _ in range(len(tokens(t)) + 2)] for t in self._inputs(body)])

    def _tei_embed_sparse(self, body: Body) -> Answer:
        rows = [{each["id"] for each in tokens(text)} for text in self._inputs(body)]
        return ok([[{"index": each, "value": 1.5} for each in sorted(row)] for row in rows])

    def _tei_tokenize(self, body: Body) -> Answer:
        rows = [tokens(text) for text in self._inputs(body)]
        if body.get("add_special_tokens", True):
            rows = [[SPECIALS, *row, SPECIALS | {"id": 2, "text": "</s>"}] for row in rows]
        return ok(rows)

    def _tei_decode(self, body: Body) -> Answer:
        words = {each["id"]: each["text"] for each in tokens("join two paths parse a date")}
        return ok([" ".join(words[each] for each in body["ids"])])

    def _tei_similarity(self, body: Body) -> Answer:
        given = body["inputs"]
        first, *others = (unit(vector(t)) for t in (given["source_sentence"], *given["sentences"]))
        return ok([sum(a * b for a, b in zip(first, each, strict=True)) for each in others])

    def _tei_rerank(self, body: Body) -> Answer:
        query, texts = body.get("query"), body.get("texts")
        need(isinstance(query, str) and isinstance(texts, list), 422)
        assert isinstance(query, str) and isinstance(texts, list)  # noqa: PT018 - for mypy
        need(texts, 400, "Empty")
        scores = [score(query, text) for text in texts]
        if not body.get("raw_scores"):
            scores = [sigmoid(each) for each in scores]
        ranks: list[Body] = [{"index": n, "score": each} for n, each in enumerate(scores)]
        if body.get("return_text"):
            ranks = [each | {"text": texts[each["index"]]} for each in ranks]
        return ok(sorted(ranks, key=lambda each: -each["score"]))

    def _tei_predict(self, body: Body) -> Answer:
        given = body["inputs"]
        texts = [given] if isinstance(given, str) else [each[0] for each in given]
        rows = []
        for text in texts:
            good = sigmoid(score("", text))
            labels = [{"score": good, "label": "good"}, {"score": 1 - good, "label": "bad"}]
            rows.append(sorted(labels, key=lambda each: -float(str(each["score"]))))
        return ok(rows[0] if isinstance(given, str) else rows)

    # Cohere

    def _embed(self, body: Body) -> Answer:
        need(body.get("model") == "toy", 404)
        texts, side = body.get("texts"), body.get("truncate", "END")
        need(isinstance(texts, list) and texts)
        assert isinstance(texts, list)
        need(all(isinstance(each, str) and each for each in texts))
        kinds = body.get("embedding_types", ["float"])
        need(set(kinds) <= {"float", "int8", "uint8", "binary", "ubinary", "base64"})
        need(body.get("input_type") in ("search_document", "search_query"))
        need(side in ("NONE", "START", "END"))
        sides = {"NONE": None, "START": "start", "END": "end"}
        rows = [cut(vector(t, sides[side]), body.get("output_dimension")) for t in texts]
        given: Body = {kind: [typed(row, kind) for row in rows] for kind in kinds}
        count = sum(len(tokens(text)) + 2 for text in texts)
        meta = {"api_version": {"version": "2"}, "billed_units": {"input_tokens": count}}
        shown = {"id": "1", "response_type": "embeddings_by_type", "texts": texts, "meta": meta}
        return ok(shown | {"embeddings": given})

    def _rerank(self, body: Body) -> Answer:
        need(body.get("model") == "toy", 404)
        documents, query, most = body.get("documents"), body.get("query"), body.get("top_n")
        need(isinstance(query, str) and isinstance(documents, list) and documents)
        assert isinstance(query, str) and isinstance(documents, list)  # noqa: PT018 - for mypy
        texts = [each["text"] if isinstance(each, dict) else each for each in documents]
        need(all(isinstance(each, str) for each in texts))
        need(most is None or (type(most) is int and most > 0))
        scores = [sigmoid(score(query, text)) for text in texts]
        ranks: list[Body] = [{"index": n, "relevance_score": s} for n, s in enumerate(scores)]
        if body.get("return_documents"):
            ranks = [each | {"document": {"text": texts[each["index"]]}} for each in ranks]
        ranks.sort(key=lambda each: -each["relevance_score"])
        return ok({"id": "1", "results": ranks[:most]})

    # Open Inference Protocol

    def _infer(self, request: Request, body: Body) -> Answer:
        need(request.path == "/v2/models/toy/infer", 404)
        need(len(body.get("inputs", [])) == 1)
        [tensor] = body["inputs"]
        need(tensor["datatype"] == "BYTES" and len(tensor["shape"]) == 1)
        size = tensor.get("parameters", {}).get("binary_data_size")
        texts = unpack("BYTES", request.body[-size:]) if size else tensor["data"]
        need(tensor["shape"] == [len(texts)] and texts)
        rows = [unit(vector(text_of(text))) for text in texts]
        flat = [number for row in rows for number in row]
        outputs: list[Body] = [
            {"name": "embedding", "datatype": "FP32", "shape": [len(rows), WIDTH], "data": flat},
            {
                "name": "lengths",
                "datatype": "INT32",
                "shape": [len(rows)],
                "data": [len(tokens(text)) for text in texts],
            },
        ]
        names = [each["name"] for each in body.get("outputs") or outputs]
        need(set(names) <= {"embedding", "lengths"})
        outputs = [each for each in outputs if each["name"] in names]
        shown = {"model_name": "toy", "model_version": "1", "id": body.get("id", "")}
        if not body.get("parameters", {}).get("binary_data_output"):
            return ok(shown | {"outputs": outputs})
        tail = b""
        for each in outputs:
            data = pack(each["datatype"], each.pop("data"))
            each["parameters"] = {"binary_data_size": len(data)}
            tail += data
        head = json.dumps(shown | {"outputs": outputs}).encode()
        return Answer(200, {HEADER: str(len(head))}, head + tail)


TEI_PATHS: tuple[str, ...] = (
    "embed",
    "embed_all",
    "embed_sparse",
    "tokenize",
    "decode",
    "similarity",
)
TEI_PATHS += ("rerank", "predict")
INFO: Body = {
    "model_id": "toy",
    "model_dtype": "float32",
    "model_type": {"embedding": {"pooling": "mean"}},
    "max_concurrent_requests": 512,
    "max_input_length": LIMIT,
    "max_batch_tokens": 16384,
    "max_client_batch_size": 32,
    "auto_truncate": False,
    "tokenization_workers": 1,
    "version": "1",
}


def typed(row: list[float], kind: str) -> Any:
    """Return a vector in one of Cohere's types."""
    if kind in ("float", "base64"):
        return row if kind == "float" else encoded(row)
    if kind.endswith("int8"):
        return [round(each * 127) + (128 if kind == "uint8" else 0) for each in row]
    signs = "".join(str(int(each > 0)) for each in row)
    values = [int(signs[place : place + 8], 2) for place in range(0, len(signs), 8)]
    return values if kind == "ubinary" else [each - 128 for each in values]


def error(dialect: str, refusal: Refusal) -> Body:
    """Return the body of a refusal."""
    if dialect == "openai":
        fields = {"message": str(refusal), "type": "invalid_request_error"}
        return {"error": fields | {"param": None, "code": None}}
    if dialect == "tei":
        return {"error": str(refusal), "error_type": refusal.kind}
    return {"message": str(refusal)} if dialect == "cohere" else {"error": str(refusal)}


def keep_promises(right: Right, request: Request) -> Answer:
    """The absence of a fault."""
    return right(request)


@contextmanager
def served(fault: Fault = keep_promises) -> Iterator[str]:
    """Serve over HTTP on a free port; yield host:port."""
    toy = ToyServer()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None: ...

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            answer = fault(toy.answer, Request(self.command, self.path, headers, body))
            try:
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(answer.body)))
                self.end_headers()
                self.wfile.write(answer.body)
            except OSError:
                self.close_connection = True  # the client has left

        do_GET = do_POST = _answer

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


class GrpcMethods(grpc.GenericRpcHandler):  # type: ignore[type-arg]  # no type at run time
    """The Open Inference Protocol over gRPC, by requests to the same server over REST."""

    def __init__(self, fault: Fault) -> None:
        self._toy, self._fault = ToyServer(), fault

    def service(self, details: Any) -> Any:
        method = details.method.removeprefix(SERVICE)
        if method == "ModelStreamInfer":
            return grpc.stream_stream_rpc_method_handler(self._stream)
        gets = {
            "ServerLive": ("/v2/health/live", "Empty"),
            "ServerReady": ("/v2/health/ready", "Empty"),
            "ServerMetadata": ("/v2", "Empty"),
            "ModelReady": ("/v2/models/{}/ready", "ModelReadyRequest"),
            "ModelMetadata": ("/v2/models/{}", "ModelMetadataRequest"),
        }
        if method == "ModelInfer":
            return grpc.unary_unary_rpc_method_handler(self._infer)
        if method not in gets:
            return None
        path, schema = gets[method]

        def get(data: bytes, context: Any) -> bytes:
            name = decode(schema, data).get("name", "")
            answer = self._ask(Request("GET", path.format(name), {}, b""), context)
            flags = {"ServerLive": "live", "ServerReady": "ready", "ModelReady": "ready"}
            body = answer.json() if answer.body else {flags[method]: True}
            return encode(f"{method}Response", body)

        return grpc.unary_unary_rpc_method_handler(get)

    def _ask(self, request: Request, context: Any) -> Answer:
        metadata = dict(context.invocation_metadata())
        headers = {**request.headers, "authorization": metadata.get("authorization", "")}
        answer = self._fault(self._toy.answer, replace(request, headers=headers))
        if answer.status != 200:
            code = getattr(grpc.StatusCode, NAMES.get(answer.status, "INTERNAL"))
            context.abort(code, answer.json().get("error", ""))
        return answer

    def _infer(self, data: bytes, context: Any) -> bytes:
        message = decode("ModelInferRequest", data)
        inputs = []
        for place, tensor in enumerate(message["inputs"]):
            kind = tensor["datatype"]
            raw = message["raw_input_contents"]
            values = (tensor["contents"] or {}).get(CONTENTS[kind], [])
            values = [each.decode() if isinstance(each, bytes) else each for each in values]
            shown = {key: tensor[key] for key in ("name", "datatype", "shape")}
            inputs.append(shown | {"data": unpack(kind, raw[place]) if raw else values})
        body = {"inputs": inputs, "outputs": message["outputs"], "id": message["id"]}
        path = f"/v2/models/{message['model_name']}"
        version = message["model_version"]
        path += f"/versions/{version}/infer" if version else "/infer"
        request = Request("POST", path, {}, json.dumps(body).encode())
        answer = self._ask(request, context).json()
        # "typed": a fault
        outputs, blobs = [], []
        for each in answer["outputs"]:
            outputs.append({key: each[key] for key in ("name", "datatype", "shape")})
            if answer.get("typed"):
                outputs[-1]["contents"] = {CONTENTS[each["datatype"]]: each["data"]}
            else:
                blobs.append(pack(each["datatype"], each["data"]))
        shown = answer | {"outputs": outputs, "raw_output_contents": blobs}
        return encode("ModelInferResponse", shown)

    def _stream(self, requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
        for data in requests:
            message = decode("ModelInferResponse", self._infer(data, context))
            yield encode("ModelStreamInferResponse", {"infer_response": message})


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
