"""Checks of Cohere's embed and rerank; the URL is the client's `base_url`, without a path."""

from __future__ import annotations

import base64
import json
import struct
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
    unit,
)
from tests.conformance.http_client import Answer, HttpServer

EMBED = "Cohere API reference, v2 Embed"
RERANK = "Cohere API reference, v2 Rerank"
RESPONSE = "cohere-python, types/embed_by_type_response.py"
RANKS = "cohere-python, v2/types/v2rerank_response.py"
CLIENT = "cohere-python, v2/raw_client.py"
ERRORS = "Cohere, Errors: 400, 401, 404, 422, 429"
V1 = "Cohere API reference, v1 Rerank"
WRONG = (400, 422)
QUERY, DOCUMENTS = "read the day", ["join two paths", "parse a date", "close a file", "read a day"]


class Cohere(Dialect):
    """A server as Cohere's clients see it."""

    def __init__(self, server: HttpServer, options: Options) -> None:
        self.server, self.options = server, options
        self.model = options.model
        self.rerank_model = options.rerank_model or options.model
        if not self.rerank_model:
            raise ValueError("Cohere has no list of models: name one by --model")

    def post(self, **fields: Any) -> Answer:
        """Return the answer to an embed request, whatever its status."""
        return self.server.post("/v2/embed", self.body(**fields))

    def body(self, **fields: Any) -> dict[str, Any]:
        """Return an embed request."""
        if not self.model:
            raise NotApplicable("--model names a model for vectors")
        types = {"input_type": "search_document", "embedding_types": ["float"]}
        return {"model": self.model} | types | fields

    def answer(self, **fields: Any) -> dict[str, Any]:
        """Return the body of an answer with status 200 to an embed request."""
        return self._read("/v2/embed", self.post(**fields))

    def _read(self, path: str, answer: Answer) -> dict[str, Any]:
        if answer.status in MISSING:
            raise NotOffered(f"POST {path} is {answer.summary()}")
        require(answer.status == 200, f"a right request to {path} is {answer.summary()}")
        body: dict[str, Any] = answer.json()
        return body

    def typed(self, kind: str) -> list[Any]:
        """Return vectors of one type; raise NotOffered if it is refused."""
        api_answer = self.post(texts=TEXTS, embedding_types=[kind])
        if api_answer.status in WRONG:
            raise NotOffered(api_answer.summary())
        rows: list[Any] = self._read("/v2/embed", api_answer)["embeddings"][kind]
        return rows

    def vectors(self, texts: Sequence[str], **fields: Any) -> list[Vector]:
        rows: list[Vector] = self.answer(texts=list(texts), **fields)["embeddings"]["float"]
        return rows

    def attempt(self, text: str) -> Answer:
        return self.post(texts=[text])

    def abandon(self, texts: Sequence[str]) -> None:
        self.server.abandon("/v2/embed", self.body(texts=list(texts)))

    def assert_overloaded(self, answer: Answer) -> None:
        require(answer.status == 429, f"a refusal for load is {answer.summary()}")
        assert_error(answer)
        require("retry-after" in answer.headers, "429 without retry-after")

    def post_rerank(self, path: str = "/v2/rerank", **fields: Any) -> Answer:
        """Return the answer to a rerank request, whatever its status."""
        body = {"model": self.rerank_model, "query": QUERY, "documents": DOCUMENTS} | fields
        return self.server.post(path, body)

    def ranks(self, path: str = "/v2/rerank", **fields: Any) -> list[dict[str, Any]]:
        """Return the results of a rerank request."""
        answer = self.post_rerank(path, **fields)
        ranks: list[dict[str, Any]] = self._read(path, answer)["results"]
        return ranks


def assert_error(answer: Answer) -> None:
    """Raise Failed if the body of a refusal is not Cohere's."""
    try:
        message = answer.json()["message"]
    except (ValueError, KeyError, TypeError) as broken:
        raise Failed(f"a refusal is {answer.summary()}: no message") from broken
    require(isinstance(message, str) and message, f"a refusal is {answer.summary()}")


COHERE: Suite[Cohere] = Suite()


@COHERE.check("embed-form", RESPONSE)
def embed_form(api: Cohere) -> str:
    body = api.answer(texts=TEXTS)
    require(isinstance(body["id"], str) and body["id"], f"id is {body['id']!r}")
    rows = body["embeddings"]["float"]
    require(len(rows) == len(TEXTS), f"{len(TEXTS)} texts give {len(rows)} vectors")
    require(body.get("texts", TEXTS) == TEXTS, "texts are not those of the request")
    kind = body.get("response_type", "embeddings_by_type")
    require(kind == "embeddings_by_type", f"response_type is {kind!r}")
    return f"{len(rows[0])} numbers a text"


@COHERE.check("billed-units", f"{RESPONSE}: meta.billed_units.input_tokens")
def billed_units(api: Cohere) -> str:
    def tokens(*texts: str) -> int:
        return int(api.answer(texts=list(texts))["meta"]["billed_units"]["input_tokens"])

    each, together = [tokens(text) for text in TEXTS], tokens(*TEXTS)
    require(min(each) > 0, f"a text has {min(each)} tokens")
    require(together == sum(each), f"texts have {each} tokens, and together {together}")
    short, long = tokens("a path"), tokens("a path a path a path")
    require(short < long <= 3 * short, f"a text has {short} tokens, and three times {long}")
    return f"{' + '.join(map(str, each))} = {together}"


@COHERE.check("base64", f"{EMBED}: embedding_types")
def base64_equals_floats(api: Cohere) -> str:
    rows = [base64.b64decode(each, validate=True) for each in api.typed("base64")]
    decoded = [[number for (number,) in struct.iter_unpack("<f", row)] for row in rows]
    largest = same(api, decoded, api.vectors(TEXTS), "base64 and float")
    return f"little-endian float32; within {largest:.2g}"


@COHERE.check("int8", f"{EMBED}: embedding_types")
def int8(api: Cohere) -> str:
    return whole_numbers(api, "int8", -128)


@COHERE.check("uint8", f"{EMBED}: embedding_types")
def uint8(api: Cohere) -> str:
    return whole_numbers(api, "uint8", 0)


def whole_numbers(api: Cohere, kind: str, least: int) -> str:
    """Check that whole numbers rise with the floats, entry by entry."""
    rows, floats = api.typed(kind), api.vectors(TEXTS)
    for row in rows:
        require(len(row) == len(floats[0]), f"{len(row)} numbers for {len(floats[0])}")
        require(all(type(each) is int for each in row), "a number is not whole")
        require(all(least <= each < least + 256 for each in row), f"not in {least}..{least + 255}")
    for column in zip(*floats, *rows, strict=True):
        pairs = sorted(zip(column[: len(rows)], column[len(rows) :], strict=True))
        values = [whole for _, whole in pairs]
        require(values == sorted(values), "whole numbers do not rise with the floats")
    return f"within {least}..{least + 255}, rising with the floats"


@COHERE.check("ubinary", f"{EMBED}: embedding_types")
def ubinary(api: Cohere) -> str:
    return bits(api, "ubinary", 0)


@COHERE.check("binary", f"{EMBED}: embedding_types")
def binary(api: Cohere) -> str:
    return bits(api, "binary", -128)


def bits(api: Cohere, kind: str, least: int) -> str:
    """Check that the bits are the signs of the floats, the first in the highest bit."""
    rows, floats = api.typed(kind), api.vectors(TEXTS)
    for row, vector in zip(rows, floats, strict=True):
        require(len(row) * 8 == len(vector), f"{len(row)} bytes for {len(vector)} numbers")
        for place, number in enumerate(vector):
            bit = (row[place // 8] - least) >> (7 - place % 8) & 1
            require(number == 0 or bit == (number > 0), f"bit {place} is not the sign of {number}")
    return f"{len(rows[0])} bytes, the signs of the floats"


@COHERE.check("several-types", f"{EMBED}: embedding_types is a list")
def several_types(api: Cohere) -> str:
    answer = api.post(texts=TEXTS, embedding_types=["float", "ubinary"])
    if answer.status in WRONG:
        raise NotOffered(answer.summary())
    rows = answer.json()["embeddings"]
    require(rows["float"] and rows["ubinary"], f"types are {sorted(rows)}")
    same(api, rows["float"], api.vectors(TEXTS), "float alone, and with ubinary")
    return "float and ubinary of one request"


@COHERE.check("output-dimension", f"{EMBED}: output_dimension")
def output_dimension(api: Cohere) -> str:
    full = api.vectors(TEXTS)
    count = len(full[0]) // 2
    answer = api.post(texts=TEXTS, output_dimension=count)
    if answer.status in WRONG:
        raise NotOffered(answer.summary())
    cut = answer.json()["embeddings"]["float"]
    require(len(cut[0]) == count, f"output_dimension {count} gives {len(cut[0])} numbers")
    expected = [unit(each[:count]) for each in full]
    largest = same(api, [unit(each) for each in cut], expected, "cut, and the first numbers")
    return f"{count} of {len(full[0])}; within {largest:.2g}"


@COHERE.check("order", RESPONSE)
def order(api: Cohere) -> str:
    return checks.order_kept(api)


COHERE.add("single-list", f"{EMBED}: texts", checks.single_equals_list)
COHERE.add("concurrent-callers", "cohere-python, AsyncClientV2", checks.concurrent_callers)


@COHERE.check("truncate-none", f"{EMBED}: truncate NONE returns an error")
def truncate_none(api: Cohere) -> str:
    one, other = (api.post(texts=[text], truncate="NONE") for text in long_texts(api))
    if one.status == 200:
        rows = [each.json()["embeddings"]["float"][0] for each in (one, other)]
        if distance(*rows) > api.options.tolerance:
            raise NotApplicable(f"a text of {api.options.words} words is not too long")
    return refused(one, (*WRONG, 413), f"{api.options.words} words")


@COHERE.check("truncate-start-end", f"{EMBED}: truncate START and END, which is the default")
def truncate_start_end(api: Cohere) -> str:
    texts = long_texts(api)
    ends: list[dict[str, str]] = [{}, {"truncate": "END"}, {"truncate": "START"}]
    default, end, start = ([api.vectors([text], **fields)[0] for text in texts] for fields in ends)
    if distance(*end) > api.options.tolerance:
        raise NotApplicable(f"a text of {api.options.words} words is not too long")
    same(api, default, end, "without truncate, and with END")
    require(distance(*start) > api.options.tolerance, "START keeps the start")
    return "END and the default cut the end, START the start"


@COHERE.check("embed-invalid", f"{ERRORS}; {EMBED}")
def embed_invalid(api: Cohere) -> str:
    api.vectors(["a"])
    bodies: list[tuple[str, dict[str, Any]]] = [
        ("no texts", {}),
        ("an empty list", {"texts": []}),
        ("texts a text", {"texts": "a"}),
        ("a number in texts", {"texts": ["a", 5]}),
        ("null in texts", {"texts": ["a", None]}),
        ("input_type 'other'", {"texts": ["a"], "input_type": "other"}),
        ("embedding_types ['int4']", {"texts": ["a"], "embedding_types": ["int4"]}),
        ("truncate 'MIDDLE'", {"texts": ["a"], "truncate": "MIDDLE"}),
        ("output_dimension 0", {"texts": ["a"], "output_dimension": 0}),
    ]
    return all_refused([(what, api.post(**body)) for what, body in bodies], WRONG)


@COHERE.check("empty-string", f"{ERRORS}: an error or a vector, never a fault")
def empty_string(api: Cohere) -> str:
    api.vectors(["a"])
    answer = api.post(texts=["a", ""])
    if answer.status != 200:
        return refused(answer, WRONG, "an empty text")
    rows = answer.json()["embeddings"]["float"]
    require(len(rows) == 2, f"two texts, one of them empty, give {len(rows)} vectors")
    return "an empty text has a vector"


@COHERE.check("malformed-body", ERRORS)
def malformed_body(api: Cohere) -> str:
    bodies = [("half of JSON", b'{"model": "a", "te'), ("a list", b"[]"), ("no UTF-8", b'"\xff"')]
    api.vectors(["a"])
    sent = [(what, api.server.request("POST", "/v2/embed", body)) for what, body in bodies]
    return all_refused(sent, WRONG)


@COHERE.check("unknown-model", f"{ERRORS}: 404")
def unknown_model(api: Cohere) -> str:
    api.vectors(["a"])
    return refused(api.post(texts=["a"], model="no-such-model"), (404,), "another name")


@COHERE.check("long-list", f"{EMBED}: at most 96 texts")
def long_list(api: Cohere) -> str:
    count = 97
    answer = api.post(texts=[f"text {number}" for number in range(count)])
    if answer.status in (*WRONG, 413):
        return f"{count} texts: {answer.status}"
    rows = api._read("/v2/embed", answer)["embeddings"]["float"]
    require(len(rows) == count, f"{count} texts give {len(rows)} vectors")
    same(api, rows[-1:], api.vectors([f"text {count - 1}"]), "the last of the list and alone")
    return f"{count} texts are answered, in order"


@COHERE.check("rerank", RANKS)
def rerank(api: Cohere) -> str:
    ranks = api.ranks()
    indices = [each["index"] for each in ranks]
    require(sorted(indices) == list(range(len(DOCUMENTS))), f"index has {indices}")
    scores = [each["relevance_score"] for each in ranks]
    require(all(type(each) is float for each in scores), f"scores are {scores}")
    require(scores == sorted(scores, reverse=True), f"scores are not in order: {scores}")
    return f"{len(ranks)} documents by their score"


@COHERE.check("rerank-top-n", f"{RERANK}: top_n")
def rerank_top_n(api: Cohere) -> str:
    everything = [each["index"] for each in api.ranks()]
    best = [each["index"] for each in api.ranks(top_n=2)]
    require(best == everything[:2], f"top_n 2 gives {best} of {everything}")
    more = api.ranks(top_n=len(DOCUMENTS) + 5)
    require(len(more) == len(DOCUMENTS), f"a larger top_n gives {len(more)} documents")
    return "the best two; a larger top_n gives all"


@COHERE.check("rerank-single-list", RERANK)
def rerank_single_list(api: Cohere) -> str:
    together = {each["index"]: each["relevance_score"] for each in api.ranks()}
    alone = [api.ranks(documents=[text])[0]["relevance_score"] for text in DOCUMENTS]
    scores = [together[place] for place in range(len(DOCUMENTS))]
    largest = same(api, [alone], [scores], "documents alone and together")
    require(distance(alone[:1] * 3, alone[1:]) > 0, "all documents have one score")
    return f"within {largest:.2g}"


@COHERE.check("rerank-v1-documents", f"{V1}: return_documents, documents with text")
def rerank_v1_documents(api: Cohere) -> str:
    path = "/v1/rerank"
    plain = api.ranks(path)
    require(all(each.get("document") is None for each in plain), "documents come unrequested")
    objects = [{"text": text} for text in DOCUMENTS]
    for documents in (DOCUMENTS, objects):
        ranks = api.ranks(path, documents=documents, return_documents=True)
        require([each["index"] for each in ranks] == [each["index"] for each in plain], "order")
        for each in ranks:
            text = each["document"]["text"]
            require(text == DOCUMENTS[each["index"]], f"document {each['index']} is {text!r}")
    return "the text of each index, of texts and of objects"


@COHERE.check("rerank-invalid", f"{ERRORS}; {RERANK}")
def rerank_invalid(api: Cohere) -> str:
    api.ranks()
    bodies: list[tuple[str, dict[str, Any]]] = [
        ("no documents", {"documents": []}),
        ("documents a text", {"documents": "a"}),
        ("a number in documents", {"documents": ["a", 5]}),
        ("query null", {"query": None}),
        ("query a list", {"query": ["a"]}),
        ("top_n -1", {"top_n": -1}),
        ("top_n 'two'", {"top_n": "two"}),
    ]
    return all_refused([(what, api.post_rerank(**body)) for what, body in bodies], WRONG)


@COHERE.check("rerank-unknown-model", f"{ERRORS}: 404")
def rerank_unknown_model(api: Cohere) -> str:
    api.ranks()
    return refused(api.post_rerank(model="no-such-model"), (404,), "another name")


@COHERE.check("error-body", f"{ERRORS}; cohere-python, core/api_error.py: body")
def error_body(api: Cohere) -> str:
    answers = [api.post_rerank(documents=[])]
    if api.model:
        answers += [api.post(texts=[]), api.post(texts=5)]
    failed = [each for each in answers if each.status in range(400, 500)]
    failed = [each for each in failed if each.status not in MISSING]
    if not failed:
        raise NotApplicable("the server refuses nothing")
    for each in failed:
        assert_error(each)
    return f"{len(failed)} refusals have a message"


@COHERE.check("token", f"{ERRORS}: 401; {CLIENT}: Authorization")
def token(api: Cohere) -> str:
    if not api.server.token:
        raise NotApplicable("--token names the server's token")
    body = json.dumps(api.body(texts=["a"])).encode()
    wrong = {"Authorization": "Bearer a-wrong-token"}
    return refused(api.server.request("POST", "/v2/embed", body, wrong), (401,), "a wrong token")


COHERE.add("cancellation", "cohere-python, timeout closes the connection", checks.cancellation)
COHERE.check("overload", f"{ERRORS}: 429; cohere-python, core/http_client.py: retry-after")(
    checks.overload
)
