"""Checks of text-embeddings-inference's HTTP; the URL is the server's root."""

from __future__ import annotations

import math
import operator
from typing import Any

from tests.conformance import checks
from tests.conformance.checks import (
    ABSENT,
    DOCUMENTS,
    MISSING,
    QUERY,
    TEXTS,
    Body,
    Check,
    HttpDialect,
    NotApplicable,
    Vector,
    refusals,
    refused,
    require,
    same,
    unit,
)
from tests.conformance.http_client import Answer

ROUTER = "TEI, router/src/http/server.rs"
TYPES = "TEI, router/src/http/types.rs"
ERRORS = "TEI, router/src/lib.rs: ErrorResponse"
TOKENS = "TEI, core/src/tokenization.rs"
INFO = "TEI, router/src/lib.rs: Info"
HUB = "huggingface_hub, InferenceClient"
TOO_LONG = (413, 422)
KINDS = {"Unhealthy", "Backend", "Overloaded", "Validation", "Tokenizer", "Empty"}
KIND_OF = {400: "Empty", 422: "Validation", 429: "Overloaded"}  # of an error, by its status
INFO_FIELDS: dict[type, str] = {
    str: "model_id model_dtype version",
    dict: "model_type",
    int: "max_concurrent_requests max_input_length max_batch_tokens max_client_batch_size"
    " tokenization_workers",
}


class Tei(HttpDialect):
    """A server as TEI's clients see it."""

    path, field = "/embed", "inputs"
    rerank_path, documents, score = "/rerank", "texts", "score"
    missing = (424, *MISSING)  # 424: the model is of another kind
    requests = {  # noqa: RUF012 - read only
        "/embed": {"inputs": "a"},
        "/rerank": {"query": QUERY, "texts": DOCUMENTS},
    }

    def rows(self, answer: Answer) -> list[Vector]:
        rows: list[Vector] = answer.json()
        return rows

    def is_error(self, body: Any, status: int) -> bool:
        kind = body["error_type"]
        message = isinstance(body["error"], str) and body["error"]
        return bool(message) and kind in KINDS and KIND_OF.get(status, kind) == kind

    def info(self) -> Body:
        """Return the body of GET /info."""
        body: Body = self.accepted(self.server.get("/info")).json()
        return body

    def tokens(self, inputs: Any, **fields: Any) -> list[list[Body]]:
        """Return the tokens of texts."""
        tokens: list[list[Body]] = self.answer("/tokenize", inputs=inputs, **fields)
        return tokens


def info(api: Tei) -> str:
    body = api.info()
    for kind, names in INFO_FIELDS.items():
        for name in names.split():
            require(isinstance(body.get(name), kind), f"{name} is {body.get(name)!r}")
    require(set(body["model_type"]) <= {"embedding", "classifier", "reranker"}, "model_type")
    return f"{body['model_id']}, {body['model_type']}, at most {body['max_input_length']} tokens"


def health(api: Tei) -> str:
    answer = api.server.get("/health")
    require(answer.status == 200, f"GET /health is {answer.summary()}")
    return "200"


def embed_form(api: Tei) -> str:
    for inputs, count in ((TEXTS[0], 1), (TEXTS, len(TEXTS))):
        rows = api.answer(inputs=inputs)
        require(len(rows) == count, f"{count} texts give {len(rows)} rows")
        require(all(type(each) is float for each in rows[0]), "a row is not a list of numbers")
    return f"a list of rows of {len(rows[0])}, for one text too"


def root(api: Tei) -> str:
    return same(api, api.answer("/", inputs=TEXTS), api.vectors(TEXTS), "/ and /embed")


def openai_path(api: Tei) -> str:
    data = api.answer("/v1/embeddings", input=TEXTS)["data"]
    rows = [each["embedding"] for each in data]
    return same(api, rows, api.vectors(TEXTS), "/v1/embeddings and /embed")


def normalize_false(api: Tei) -> str:
    raw = api.vectors(TEXTS, normalize=False)
    lengths = [math.hypot(*each) for each in raw]
    require(max(abs(each - 1) for each in lengths) > 1e-3, "normalize false gives length 1")
    return same(api, [unit(each) for each in raw], api.vectors(TEXTS), "directions")


def truncate_false(api: Tei) -> str:
    answer = checks.long_text(api, truncate=False)
    return refused({f"{api.options.words} words": answer}, TOO_LONG)


def truncation_declared(api: Tei) -> str:
    answer, declared = checks.long_text(api), api.info().get("auto_truncate")
    if answer.status != 200:
        require(declared is not True, "auto_truncate is true, and a long text is refused")
        return refused({"without truncate, a long text": answer}, TOO_LONG)
    require(declared is True, f"a long text is cut, and auto_truncate is {declared!r}")
    return "cut, as auto_truncate says"


def tokenize(api: Tei) -> str:
    text = TEXTS[2]
    [tokens] = api.tokens(text)
    plain = [each for each in tokens if not each["special"]]
    require(plain, "there is no token")
    raw, after = text.encode(), 0
    for each in plain:
        start, stop = each["start"], each["stop"]
        require(after <= start < stop <= len(raw), f"offsets {start}:{stop} after {after}")
        after = start
        piece = raw[start:stop].decode("utf-8", "replace")
        require(each["text"] == piece, f"text {each['text']!r} is not {piece!r} at {start}:{stop}")
    require(all(type(each["id"]) is int for each in tokens), "id is not a whole number")
    require(api.tokens(TEXTS)[2] == tokens, "a text alone and in a list has different tokens")
    [bare] = api.tokens(text, add_special_tokens=False)
    ids = [[each["id"] for each in some] for some in (plain, bare)]
    require(ids[0] == ids[1], "add_special_tokens false gives other tokens")
    return f"{len(plain)} tokens and {len(tokens) - len(plain)} special ones"


def token_counts(api: Tei) -> str:
    counted = api.post(inputs=TEXTS).headers.get("x-compute-tokens", "")
    require(counted.isdigit(), f"the header x-compute-tokens is {counted!r}")
    lengths = [len(tokens) for tokens in api.tokens(TEXTS)]
    require(int(counted) == sum(lengths), f"{lengths} tokens, and x-compute-tokens {counted}")
    return f"{' + '.join(map(str, lengths))} = {counted}"


def decode(api: Tei) -> str:
    [tokens] = api.tokens(TEXTS[0], add_special_tokens=False)
    [text] = api.answer("/decode", ids=[each["id"] for each in tokens])
    require(text.strip() == TEXTS[0], f"ids of {TEXTS[0]!r} are decoded as {text!r}")
    return "ids give the text again"


def embed_all(api: Tei) -> str:
    rows = api.answer("/embed_all", inputs=TEXTS)
    lengths = [len(tokens) for tokens in api.tokens(TEXTS)]
    require([len(each) for each in rows] == lengths, f"{lengths} tokens, other numbers of vectors")
    return f"{' + '.join(map(str, lengths))} vectors of {len(rows[0][0])}"


def embed_sparse(api: Tei) -> str:
    rows = api.answer("/embed_sparse", inputs=TEXTS)
    require(len(rows) == len(TEXTS), f"{len(TEXTS)} texts give {len(rows)} rows")
    for row in rows:
        require(len(set(checks.indices(row))) == len(row), "an index comes twice")
        require(all(each["value"] != 0 for each in row), "a value is zero")
    return f"{[len(row) for row in rows]} terms"


def similarity(api: Tei) -> str:
    scores = api.answer("/similarity", inputs={"source_sentence": TEXTS[0], "sentences": TEXTS[1:]})
    first, *others = api.vectors(TEXTS)
    cosines = [sum(map(operator.mul, first, each)) for each in others]
    return same(api, [scores], [cosines], "/similarity and the cosines of /embed")


def rerank_return_text(api: Tei) -> str:
    for each in api.ranks(return_text=True):
        expected = DOCUMENTS[each["index"]]
        require(each["text"] == expected, f"text of {each['index']} is {each['text']!r}")
    return "the text of each index"


def rerank_raw_scores(api: Tei) -> str:
    orders = [checks.indices(api.ranks(raw_scores=raw)) for raw in (ABSENT, True)]
    require(orders[0] == orders[1], "another order")
    return "the same order"


def predict(api: Tei) -> str:
    one = api.answer("/predict", inputs=TEXTS[0])
    several = api.answer("/predict", inputs=[[text] for text in TEXTS[:3]])
    scores = [each["score"] for each in one]
    require(scores == sorted(scores, reverse=True), f"scores are not in order: {scores}")
    require(all(isinstance(each["label"], str) for each in one), "a label is not a text")
    require(len(several) == 3, f"three texts give {len(several)} lists")
    alone, listed = ({each["label"]: each["score"] for each in some} for some in (one, several[0]))
    require(alone.keys() == listed.keys(), "alone and in a list, labels differ")
    rows = [[some[label] for label in sorted(alone)] for some in (alone, listed)]
    return same(api, rows[:1], rows[1:], f"{len(one)} labels, alone and in a list")


def long_list(api: Tei) -> str:
    limit = api.info()["max_client_batch_size"]
    if limit > 10_000:
        raise NotApplicable(f"max_client_batch_size is {limit}")
    return refused({f"{limit + 1} texts": api.post(inputs=["a"] * (limit + 1))}, TOO_LONG)


EMPTY: dict[str, Body] = {"an empty text": {"inputs": ""}, "one in a list": {"inputs": ["a", ""]}}
WRONG_TYPES: dict[str, Body] = {
    "a number": {"inputs": 5},
    "null in a list": {"inputs": ["a", None]},
    "an object in a list": {"inputs": [{"text": "a"}]},
    "true in a list": {"inputs": [True]},
    "no inputs": {"inputs": ABSENT},
    "truncate 'yes'": {"truncate": "yes"},
    "direction 'Up'": {"truncation_direction": "Up"},
}
WRONG_RANKS: dict[str, Body] = {
    "no texts": {"texts": []},
    "query a number": {"query": 5},
    "texts a text": {"texts": "a"},
    "no query": {"query": ABSENT},
}
UNKNOWN_PROMPT = {"prompt_name": "no-such-prompt"}
END, START = {"truncate": True}, {"truncate": True, "truncation_direction": "Left"}

CHECKS = [
    Check("info", INFO, info),
    Check("health", f"{ROUTER}: /health", health),
    Check("embed-form", f"{TYPES}: EmbedResponse; {HUB}.feature_extraction", embed_form),
    Check("root", f"{ROUTER}: /; {HUB}.feature_extraction sends to the URL itself", root),
    Check("order", f"{TYPES}: EmbedResponse", checks.order),
    Check("single-list", f"{TYPES}: Input", checks.text_equals_list),
    Check("concurrent-callers", f"{HUB}, AsyncInferenceClient", checks.concurrent_callers),
    Check("unit-length", f"{TYPES}: normalize is true by default", checks.unit_length),
    Check("normalize-false", f"{TYPES}: normalize", normalize_false),
    Check("dimensions", f"{TYPES}: dimensions", checks.dimensions("dimensions")),
    Check("dimensions-invalid", f"{ROUTER}: 422", checks.dimensions_invalid),
    Check("truncate-false", f"{TYPES}: truncate; {ERRORS}: Validation", truncate_false),
    Check(
        "truncate-true",
        f"{TYPES}: truncate, truncation_direction",
        checks.truncation([END], START),
    ),
    Check("truncation-declared", f"{INFO}: auto_truncate", truncation_declared),
    Check("tokenize", f"{TYPES}: SimpleToken; {TOKENS}: offsets count bytes", tokenize),
    Check("token-counts", f"{ROUTER}: x-compute-tokens", token_counts),
    Check("decode", f"{ROUTER}: /decode", decode),
    Check("embed-all", f"{ROUTER}: /embed_all", embed_all),
    Check("embed-sparse", f"{ROUTER}: /embed_sparse", embed_sparse),
    Check("similarity", f"{ROUTER}: /similarity; {HUB}.sentence_similarity", similarity),
    Check("openai-path", f"{ROUTER}: /v1/embeddings", openai_path),
    Check("rerank", f"{TYPES}: RerankResponse", checks.rerank),
    Check("rerank-return-text", f"{TYPES}: return_text", rerank_return_text),
    Check("rerank-raw-scores", f"{TYPES}: raw_scores", rerank_raw_scores),
    Check("rerank-single-list", f"{TYPES}: RerankRequest", checks.rerank_single_list),
    Check(
        "rerank-invalid",
        f"{ERRORS}: Empty 400, Validation 422",
        refusals(WRONG_RANKS, path="/rerank"),
    ),
    Check("predict", f"{ROUTER}: /predict", predict),
    Check("empty-string", f"{ERRORS}: Empty 400", refusals(EMPTY, (400,))),
    Check("empty-list", f"{ERRORS}: Empty 400", refusals({"no text": {"inputs": []}}, (400,))),
    Check("wrong-types", f"{ROUTER}: 422", refusals(WRONG_TYPES)),
    Check(
        "unknown-prompt",
        f"{ROUTER}: prompt_name, 422",
        refusals({"an unknown prompt_name": UNKNOWN_PROMPT}, (422,)),
    ),
    Check("malformed-body", f"{ROUTER}: axum's Json, 400, 415 and 422", checks.malformed_body),
    Check("long-list", f"{INFO}: max_client_batch_size; {ERRORS}: Validation", long_list),
    Check("error-body", ERRORS, checks.error_body(("", {"inputs": []}), ("", UNKNOWN_PROMPT))),
    Check("token", f"{ROUTER}: --api-key, 401", checks.token()),
    Check("cancellation", f"{HUB}: timeout closes the connection", checks.cancellation),
    Check("overload", f"{ERRORS}: Overloaded 429", checks.overload),
]
