"""Checks of Cohere's embed and rerank; the URL is the client's `base_url`, without a path."""

from __future__ import annotations

from typing import Any

from tests.conformance import checks
from tests.conformance.checks import (
    ABSENT,
    DOCUMENTS,
    MISSING,
    QUERY,
    TEXTS,
    TOO_LARGE,
    Body,
    Check,
    HttpDialect,
    NotApplicable,
    Options,
    Run,
    Vector,
    refusals,
    refused,
    require,
    same,
)
from tests.conformance.http_client import Answer, HttpServer
from tests.conformance.openai import from_base64

EMBED = "Cohere API reference, v2 Embed"
RERANK = "Cohere API reference, v2 Rerank"
RESPONSE = "cohere-python, types/embed_by_type_response.py"
RANKS = "cohere-python, v2/types/v2rerank_response.py"
CLIENT = "cohere-python, v2/raw_client.py"
ERRORS = "Cohere, Errors: 400, 401, 404, 422, 429"
V1 = "Cohere API reference, v1 Rerank"


class Cohere(HttpDialect):
    """A server as Cohere's clients see it."""

    path, field, waits = "/v2/embed", "texts", ("retry-after",)
    rerank_path, documents, score = "/v2/rerank", "documents", "relevance_score"

    def __init__(self, server: HttpServer, options: Options) -> None:
        super().__init__(server, options)
        reranker = options.rerank_model or options.model
        if not reranker:
            raise ValueError("Cohere has no list of models: name one by --model")
        types = {"input_type": "search_document", "embedding_types": ["float"]}
        ranks = {"model": reranker, "query": QUERY, "documents": DOCUMENTS}
        self.requests = {"/v2/rerank": ranks, "/v1/rerank": ranks}
        self.requests[self.path] = {"model": options.model, "texts": ["a"], **types}

    def body(self, path: str, **fields: Any) -> Body:
        if path == self.path and not self.options.model:
            raise NotApplicable("--model names a model for vectors")
        return super().body(path, **fields)

    def typed(self, *kinds: str) -> dict[str, list[Any]]:
        """Return vectors of TEXTS by their type; raise NotOffered if a type is refused."""
        answer = self.optional(self.post(texts=TEXTS, embedding_types=list(kinds)))
        rows: dict[str, list[Any]] = answer.json()["embeddings"]
        return rows

    def rows(self, answer: Answer) -> list[Vector]:
        rows: list[Vector] = answer.json()["embeddings"]["float"]
        return rows

    def is_error(self, body: Any, status: int) -> bool:
        return isinstance(body["message"], str) and bool(body["message"])


def embed_form(api: Cohere) -> str:
    body = api.answer(texts=TEXTS)
    require(isinstance(body["id"], str) and body["id"], f"id is {body['id']!r}")
    rows = body["embeddings"]["float"]
    require(len(rows) == len(TEXTS), f"{len(TEXTS)} texts give {len(rows)} vectors")
    require(body.get("texts", TEXTS) == TEXTS, "texts are not those of the request")
    kind = body.get("response_type", "embeddings_by_type")
    require(kind == "embeddings_by_type", f"response_type is {kind!r}")
    return f"{len(rows[0])} numbers a text"


def input_tokens(api: Cohere, texts: list[str]) -> int:
    return int(api.answer(texts=texts)["meta"]["billed_units"]["input_tokens"])


def base64_equals_floats(api: Cohere) -> str:
    rows = from_base64(api.typed("base64")["base64"])
    return same(api, rows, api.vectors(TEXTS), "base64 and float")


def whole_numbers(kind: str, least: int) -> Run:
    """Return a check that whole numbers rise with the floats, entry by entry."""

    def run(api: Cohere) -> str:
        rows, floats = api.typed(kind)[kind], api.vectors(TEXTS)
        for row in rows:
            require(len(row) == len(floats[0]), f"{len(row)} numbers for {len(floats[0])}")
            right = all(type(each) is int and least <= each < least + 256 for each in row)
            require(right, f"not whole numbers in {least}..{least + 255}")
        for column, wholes in zip(zip(*floats, strict=True), zip(*rows, strict=True), strict=True):
            values = [whole for _, whole in sorted(zip(column, wholes, strict=True))]
            require(values == sorted(values), "whole numbers do not rise with the floats")
        return f"within {least}..{least + 255}, rising with the floats"

    return run


def bits(kind: str, least: int) -> Run:
    """Return a check that bits are the signs of the floats, the first in the highest bit."""

    def run(api: Cohere) -> str:
        rows, floats = api.typed(kind)[kind], api.vectors(TEXTS)
        for row, vector in zip(rows, floats, strict=True):
            require(len(row) * 8 == len(vector), f"{len(row)} bytes for {len(vector)} numbers")
            for place, number in enumerate(vector):
                bit = (row[place // 8] - least) >> (7 - place % 8) & 1
                right = number == 0 or bit == (number > 0)
                require(right, f"bit {place} is not the sign of {number}")
        return f"{len(rows[0])} bytes, the signs of the floats"

    return run


def several_types(api: Cohere) -> str:
    rows = api.typed("float", "ubinary")
    require(rows["float"] and rows["ubinary"], f"types are {sorted(rows)}")
    return same(api, rows["float"], api.vectors(TEXTS), "float alone, and with ubinary")


def truncate_none(api: Cohere) -> str:
    answer = checks.long_text(api, truncate="NONE")
    return refused({f"{api.options.words} words": answer}, TOO_LARGE)


def rerank_top_n(api: Cohere) -> str:
    everything, best = (checks.indices(api.ranks(top_n=n)) for n in (ABSENT, 2))
    require(best == everything[:2], f"top_n 2 gives {best} of {everything}")
    more = api.ranks(top_n=len(DOCUMENTS) + 5)
    require(len(more) == len(DOCUMENTS), f"a larger top_n gives {len(more)} documents")
    return "the best two; a larger top_n gives all"


def rerank_v1_documents(api: Cohere) -> str:
    path = "/v1/rerank"
    plain = api.ranks(path)
    require(all(each.get("document") is None for each in plain), "documents come unrequested")
    for documents in (DOCUMENTS, [{"text": text} for text in DOCUMENTS]):
        ranks = api.ranks(path, documents=documents, return_documents=True)
        require(checks.indices(ranks) == checks.indices(plain), "order")
        for each in ranks:
            text = each["document"]["text"]
            require(text == DOCUMENTS[each["index"]], f"document {each['index']} is {text!r}")
    return "the text of each index, of texts and of objects"


WRONG_EMBED: dict[str, Body] = {
    "no texts": {"texts": ABSENT},
    "an empty list": {"texts": []},
    "texts a text": {"texts": "a"},
    "a number in texts": {"texts": ["a", 5]},
    "null in texts": {"texts": ["a", None]},
    "input_type 'other'": {"input_type": "other"},
    "embedding_types ['int4']": {"embedding_types": ["int4"]},
    "truncate 'MIDDLE'": {"truncate": "MIDDLE"},
    "output_dimension 0": {"output_dimension": 0},
}
WRONG_RERANK: dict[str, Body] = {
    "no documents": {"documents": []},
    "documents a text": {"documents": "a"},
    "a number in documents": {"documents": ["a", 5]},
    "query null": {"query": None},
    "query a list": {"query": ["a"]},
    "top_n -1": {"top_n": -1},
    "top_n 'two'": {"top_n": "two"},
}
UNKNOWN = {"another name": {"model": "no-such-model"}}
END, START = {"truncate": "END"}, {"truncate": "START"}
ERROR_BODY = checks.error_body(
    ("/v2/rerank", {"documents": []}), ("", {"texts": []}), ("", {"texts": 5}), apart=MISSING
)

CHECKS = [
    Check("embed-form", RESPONSE, embed_form),
    Check(
        "billed-units",
        f"{RESPONSE}: meta.billed_units.input_tokens",
        checks.counts(input_tokens),
    ),
    Check("base64", f"{EMBED}: embedding_types", base64_equals_floats),
    Check("int8", f"{EMBED}: embedding_types", whole_numbers("int8", -128)),
    Check("uint8", f"{EMBED}: embedding_types", whole_numbers("uint8", 0)),
    Check("ubinary", f"{EMBED}: embedding_types", bits("ubinary", 0)),
    Check("binary", f"{EMBED}: embedding_types", bits("binary", -128)),
    Check("several-types", f"{EMBED}: embedding_types is a list", several_types),
    Check(
        "output-dimension",
        f"{EMBED}: output_dimension",
        checks.dimensions("output_dimension", normalised=False),
    ),
    Check("order", RESPONSE, checks.order),
    Check("single-list", f"{EMBED}: texts", checks.single_equals_list),
    Check("concurrent-callers", "cohere-python, AsyncClientV2", checks.concurrent_callers),
    Check("truncate-none", f"{EMBED}: truncate NONE returns an error", truncate_none),
    Check(
        "truncate-start-end",
        f"{EMBED}: truncate START and END, which is the default",
        checks.truncation([END, {}], START),
    ),
    Check("embed-invalid", f"{ERRORS}; {EMBED}", refusals(WRONG_EMBED)),
    Check("empty-string", f"{ERRORS}: an error or a vector, never a fault", checks.empty_string),
    Check("malformed-body", ERRORS, checks.malformed_body),
    Check("unknown-model", f"{ERRORS}: 404", refusals(UNKNOWN, (404,))),
    Check("long-list", f"{EMBED}: at most 96 texts", checks.long_list(97)),
    Check("rerank", RANKS, checks.rerank),
    Check("rerank-top-n", f"{RERANK}: top_n", rerank_top_n),
    Check("rerank-single-list", RERANK, checks.rerank_single_list),
    Check(
        "rerank-v1-documents",
        f"{V1}: return_documents, documents with text",
        rerank_v1_documents,
    ),
    Check("rerank-invalid", f"{ERRORS}; {RERANK}", refusals(WRONG_RERANK, path="/v2/rerank")),
    Check("rerank-unknown-model", f"{ERRORS}: 404", refusals(UNKNOWN, (404,), "/v2/rerank")),
    Check("error-body", f"{ERRORS}; cohere-python, core/api_error.py: body", ERROR_BODY),
    Check("token", f"{ERRORS}: 401; {CLIENT}: Authorization", checks.token()),
    Check("cancellation", "cohere-python, timeout closes the connection", checks.cancellation),
    Check(
        "overload",
        f"{ERRORS}: 429; cohere-python, core/http_client.py: retry-after",
        checks.overload,
    ),
]
