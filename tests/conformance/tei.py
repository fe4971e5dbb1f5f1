"""Checks of text-embeddings-inference's HTTP; the URL is the server's root."""

from __future__ import annotations

import json
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
    norm,
    refused,
    require,
    same,
    unit,
)
from tests.conformance.http_client import Answer, HttpServer

ROUTER = "TEI, router/src/http/server.rs"
TYPES = "TEI, router/src/http/types.rs"
ERRORS = "TEI, router/src/lib.rs: ErrorResponse"
TOKENS = "TEI, core/src/tokenization.rs"
INFO = "TEI, router/src/lib.rs: Info"
HUB = "huggingface_hub, InferenceClient"
EMPTY, WRONG = (400,), (400, 413, 415, 422)
OTHER_KIND = (424, *MISSING)  # 424: the model is of another kind
KINDS = {"Unhealthy", "Backend", "Overloaded", "Validation", "Tokenizer", "Empty"}
QUERY, DOCUMENTS = "read the day", ["join two paths", "parse a date", "close a file", "read a day"]


class Tei(Dialect):
    """A server as TEI's clients see it."""

    def __init__(self, server: HttpServer, options: Options) -> None:
        self.server, self.options = server, options

    def post(self, path: str, **fields: Any) -> Answer:
        return self.server.post(path, fields)

    def answer(self, path: str, **fields: Any) -> Any:
        """Return the body of an answer with status 200."""
        answer = self.post(path, **fields)
        if answer.status in OTHER_KIND:
            raise NotOffered(f"POST {path} is {answer.summary()}")
        require(answer.status == 200, f"a right request to {path} is {answer.summary()}")
        return answer.json()

    def vectors(self, texts: Sequence[str], **fields: Any) -> list[Vector]:
        rows: list[Vector] = self.answer("/embed", inputs=list(texts), **fields)
        return rows

    def attempt(self, text: str) -> Answer:
        return self.post("/embed", inputs=text)

    def abandon(self, texts: Sequence[str]) -> None:
        self.server.abandon("/embed", {"inputs": list(texts)})

    def assert_overloaded(self, answer: Answer) -> None:
        require(answer.status == 429, f"a refusal for load is {answer.summary()}")
        require(error_type(answer) == "Overloaded", f"a refusal for load is {answer.summary()}")

    def info(self) -> dict[str, Any]:
        """Return the body of GET /info."""
        answer = self.server.get("/info")
        if answer.status in MISSING:
            raise NotOffered(f"GET /info is {answer.summary()}")
        body: dict[str, Any] = answer.json()
        return body

    def ranks(self, texts: Sequence[str] = DOCUMENTS, **fields: Any) -> list[dict[str, Any]]:
        """Return what /rerank answers."""
        ranks: list[dict[str, Any]] = self.answer(
            "/rerank", query=QUERY, texts=list(texts), **fields
        )
        return ranks


def error_type(answer: Answer) -> str:
    """Return the kind of an error; raise Failed if the body is not TEI's."""
    try:
        body = answer.json()
        message, kind = body["error"], body["error_type"]
    except (ValueError, KeyError, TypeError) as broken:
        raise Failed(f"a refusal is {answer.summary()}: no error and error_type") from broken
    require(isinstance(message, str) and message, f"a refusal is {answer.summary()}")
    require(kind in KINDS, f"error_type is {kind!r}, not one of {sorted(KINDS)}")
    return str(kind)


TEI: Suite[Tei] = Suite()


@TEI.check("info", INFO)
def info(api: Tei) -> str:
    body = api.info()
    kinds: dict[str, type] = {
        "model_id": str,
        "model_dtype": str,
        "model_type": dict,
        "version": str,
    }
    kinds |= dict.fromkeys(("max_concurrent_requests", "max_input_length", "max_batch_tokens"), int)
    kinds |= {"max_client_batch_size": int, "tokenization_workers": int}
    for name, kind in kinds.items():
        require(isinstance(body.get(name), kind), f"{name} is {body.get(name)!r}")
    require(set(body["model_type"]) <= {"embedding", "classifier", "reranker"}, "model_type")
    return f"{body['model_id']}, {body['model_type']}, at most {body['max_input_length']} tokens"


@TEI.check("health", f"{ROUTER}: /health")
def health(api: Tei) -> str:
    answer = api.server.get("/health")
    require(answer.status == 200, f"GET /health is {answer.summary()}")
    return "200"


@TEI.check("embed-form", f"{TYPES}: EmbedResponse; {HUB}.feature_extraction")
def embed_form(api: Tei) -> str:
    for inputs, count in ((TEXTS[0], 1), (TEXTS, len(TEXTS))):
        rows = api.answer("/embed", inputs=inputs)
        require(len(rows) == count, f"{count} texts give {len(rows)} rows")
        require(all(type(each) is float for each in rows[0]), "a row is not a list of numbers")
    return f"a list of rows of {len(rows[0])}, for one text too"


@TEI.check("root", f"{ROUTER}: /; {HUB}.feature_extraction sends to the URL itself")
def root(api: Tei) -> str:
    rows = api.answer("/", inputs=TEXTS)
    return f"the same as /embed; within {same(api, rows, api.vectors(TEXTS), '/ and /embed'):.2g}"


TEI.add("order", f"{TYPES}: EmbedResponse", checks.order_kept)


@TEI.check("single-list", f"{TYPES}: Input")
def single_list(api: Tei) -> str:
    alone: list[Vector] = api.answer("/embed", inputs=TEXTS[0])
    same(api, alone, api.vectors(TEXTS[:1]), "a text and a list of it")
    return checks.single_equals_list(api)


TEI.add("concurrent-callers", f"{HUB}, AsyncInferenceClient", checks.concurrent_callers)
TEI.add("unit-length", f"{TYPES}: normalize is true by default", checks.unit_length)


@TEI.check("normalize-false", f"{TYPES}: normalize")
def normalize_false(api: Tei) -> str:
    raw = api.vectors(TEXTS, normalize=False)
    units = [unit(each) for each in raw]
    same(api, units, api.vectors(TEXTS), "normalised, and with normalize false")
    apart = max(abs(norm(each) - 1) for each in raw)
    require(apart > 1e-3, "normalize false gives vectors of length 1")
    return f"the same directions, lengths as {norm(raw[0]):.3g}"


@TEI.check("dimensions", f"{TYPES}: dimensions")
def dimensions(api: Tei) -> str:
    full = api.vectors(TEXTS)
    count = len(full[0]) // 2
    answer = api.post("/embed", inputs=TEXTS, dimensions=count)
    if answer.status in WRONG:
        raise NotOffered(answer.summary())
    cut = answer.json()
    require(len(cut[0]) == count, f"dimensions {count} gives {len(cut[0])} numbers")
    largest = same(api, cut, [unit(each[:count]) for each in full], "cut, and the first numbers")
    return f"{count} of {len(full[0])}, of length 1; within {largest:.2g}"


@TEI.check("dimensions-invalid", f"{ROUTER}: 422")
def dimensions_invalid(api: Tei) -> str:
    width = len(api.vectors(["a"])[0])
    values = (0, -1, width + 1, "many")
    sent = [(f"dimensions {each!r}", api.post("/embed", inputs="a", dimensions=each))
            for each in values]  # fmt: skip
    return all_refused(sent, WRONG)


@TEI.check("truncate-false", f"{TYPES}: truncate; {ERRORS}: Validation")
def truncate_false(api: Tei) -> str:
    one, other = (api.post("/embed", inputs=text, truncate=False) for text in long_texts(api))
    if one.status == 200 and distance(one.json()[0], other.json()[0]) > api.options.tolerance:
        raise NotApplicable(f"a text of {api.options.words} words is not too long")
    return refused(one, (413, 422), f"{api.options.words} words")


@TEI.check("truncate-true", f"{TYPES}: truncate, truncation_direction")
def truncate_true(api: Tei) -> str:
    texts = list(long_texts(api))
    right = [api.vectors([text], truncate=True)[0] for text in texts]
    left = [api.vectors([text], truncate=True, truncation_direction="Left")[0] for text in texts]
    if distance(*right) > api.options.tolerance:
        raise NotApplicable(f"a text of {api.options.words} words is not too long")
    require(distance(*left) > api.options.tolerance, "truncation_direction Left keeps the start")
    return "the end is cut, and with direction Left the start"


@TEI.check("truncation-declared", f"{INFO}: auto_truncate")
def truncation_declared(api: Tei) -> str:
    one, other = (api.post("/embed", inputs=text) for text in long_texts(api))
    declared = api.info().get("auto_truncate")
    if one.status != 200:
        require(declared is not True, "auto_truncate is true, and a long text is refused")
        return refused(one, (413, 422), "without truncate, a long text")
    if distance(one.json()[0], other.json()[0]) > api.options.tolerance:
        raise NotApplicable(f"a text of {api.options.words} words is not too long")
    require(declared is True, f"a long text is cut, and auto_truncate is {declared!r}")
    return "cut, as auto_truncate says"


@TEI.check("tokenize", f"{TYPES}: SimpleToken; {TOKENS}: offsets count bytes")
def tokenize(api: Tei) -> str:
    text = TEXTS[2]
    [tokens] = api.answer("/tokenize", inputs=text)
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
    lists = api.answer("/tokenize", inputs=TEXTS)
    require(lists[2] == tokens, "a text alone and in a list has different tokens")
    [bare] = api.answer("/tokenize", inputs=text, add_special_tokens=False)
    ids = [[each["id"] for each in some] for some in (plain, bare)]
    require(ids[0] == ids[1], "add_special_tokens false gives other tokens")
    return f"{len(plain)} tokens and {len(tokens) - len(plain)} special ones"


@TEI.check("token-counts", f"{ROUTER}: x-compute-tokens")
def token_counts(api: Tei) -> str:
    answer = api.post("/embed", inputs=TEXTS)
    counted = answer.headers.get("x-compute-tokens", "")
    require(counted.isdigit(), f"the header x-compute-tokens is {counted!r}")
    lengths = [len(tokens) for tokens in api.answer("/tokenize", inputs=TEXTS)]
    require(int(counted) == sum(lengths), f"{lengths} tokens, and x-compute-tokens {counted}")
    return f"{' + '.join(map(str, lengths))} = {counted}"


@TEI.check("decode", f"{ROUTER}: /decode")
def decode(api: Tei) -> str:
    [tokens] = api.answer("/tokenize", inputs=TEXTS[0], add_special_tokens=False)
    [text] = api.answer("/decode", ids=[each["id"] for each in tokens])
    require(text.strip() == TEXTS[0], f"ids of {TEXTS[0]!r} are decoded as {text!r}")
    return "ids give the text again"


@TEI.check("embed-all", f"{ROUTER}: /embed_all")
def embed_all(api: Tei) -> str:
    rows = api.answer("/embed_all", inputs=TEXTS)
    lengths = [len(tokens) for tokens in api.answer("/tokenize", inputs=TEXTS)]
    require([len(each) for each in rows] == lengths, f"{lengths} tokens, other numbers of vectors")
    return f"{' + '.join(map(str, lengths))} vectors of {len(rows[0][0])}"


@TEI.check("embed-sparse", f"{ROUTER}: /embed_sparse")
def embed_sparse(api: Tei) -> str:
    rows = api.answer("/embed_sparse", inputs=TEXTS)
    require(len(rows) == len(TEXTS), f"{len(TEXTS)} texts give {len(rows)} rows")
    for row in rows:
        indices = [each["index"] for each in row]
        require(len(set(indices)) == len(indices), "an index comes twice")
        require(all(each["value"] != 0 for each in row), "a value is zero")
    return f"{[len(row) for row in rows]} terms"


@TEI.check("similarity", f"{ROUTER}: /similarity; {HUB}.sentence_similarity")
def similarity(api: Tei) -> str:
    scores = api.answer("/similarity", inputs={"source_sentence": TEXTS[0], "sentences": TEXTS[1:]})
    first, *others = api.vectors(TEXTS)
    cosines = [sum(a * b for a, b in zip(first, each, strict=True)) for each in others]
    largest = same(api, [scores], [cosines], "/similarity and the cosines of /embed")
    return f"the cosines of /embed; within {largest:.2g}"


@TEI.check("openai-path", f"{ROUTER}: /v1/embeddings")
def openai_path(api: Tei) -> str:
    body = api.answer("/v1/embeddings", input=TEXTS)
    rows = [each["embedding"] for each in body["data"]]
    return f"the vectors of /embed; within {same(api, rows, api.vectors(TEXTS), '/v1'):.2g}"


@TEI.check("rerank", f"{TYPES}: RerankResponse")
def rerank(api: Tei) -> str:
    ranks = api.ranks()
    indices = [each["index"] for each in ranks]
    require(sorted(indices) == list(range(len(DOCUMENTS))), f"index has {indices}")
    scores = [each["score"] for each in ranks]
    require(scores == sorted(scores, reverse=True), f"scores are not in order: {scores}")
    require(all(each.get("text") is None for each in ranks), "texts come without return_text")
    return f"{len(ranks)} texts by their score"


@TEI.check("rerank-return-text", f"{TYPES}: return_text")
def rerank_return_text(api: Tei) -> str:
    for each in api.ranks(return_text=True):
        expected = DOCUMENTS[each["index"]]
        require(each["text"] == expected, f"text of {each['index']} is {each['text']!r}")
    return "the text of each index"


@TEI.check("rerank-raw-scores", f"{TYPES}: raw_scores")
def rerank_raw_scores(api: Tei) -> str:
    ranks, raw = api.ranks(), api.ranks(raw_scores=True)
    require([each["index"] for each in ranks] == [each["index"] for each in raw], "another order")
    return "the same order"


@TEI.check("rerank-single-list", f"{TYPES}: RerankRequest")
def rerank_single_list(api: Tei) -> str:
    together = {each["index"]: each["score"] for each in api.ranks()}
    alone = [api.ranks([text])[0]["score"] for text in DOCUMENTS]
    scores = [together[place] for place in range(len(DOCUMENTS))]
    largest = same(api, [alone], [scores], "texts alone and together")
    require(distance(alone[:1] * 3, alone[1:]) > 0, "all texts have one score")
    return f"within {largest:.2g}"


@TEI.check("rerank-invalid", f"{ERRORS}: Empty 400, Validation 422")
def rerank_invalid(api: Tei) -> str:
    api.ranks()
    bodies: list[tuple[str, dict[str, Any]]] = [
        ("no texts", {"query": QUERY, "texts": []}),
        ("query a number", {"query": 5, "texts": DOCUMENTS}),
        ("texts a text", {"query": QUERY, "texts": "a"}),
        ("no query", {"texts": DOCUMENTS}),
    ]
    return all_refused([(what, api.post("/rerank", **body)) for what, body in bodies], WRONG)


@TEI.check("predict", f"{ROUTER}: /predict")
def predict(api: Tei) -> str:
    one = api.answer("/predict", inputs=TEXTS[0])
    several = api.answer("/predict", inputs=[[text] for text in TEXTS[:3]])
    scores = [each["score"] for each in one]
    require(scores == sorted(scores, reverse=True), f"scores are not in order: {scores}")
    require(all(isinstance(each["label"], str) for each in one), "a label is not a text")
    require(len(several) == 3, f"three texts give {len(several)} lists")
    by_label = [{each["label"]: each["score"] for each in some} for some in (one, several[0])]
    require(by_label[0].keys() == by_label[1].keys(), "alone and in a list, labels differ")
    rows = [[some[label] for label in sorted(some)] for some in by_label]
    largest = same(api, rows[:1], rows[1:], "a text alone and in a list")
    return f"{len(one)} labels by their score; alone and in a list within {largest:.2g}"


@TEI.check("empty-string", f"{ERRORS}: Empty 400")
def empty_string(api: Tei) -> str:
    inputs: list[tuple[str, Any]] = [("an empty text", ""), ("one in a list", ["a", ""])]
    return all_refused([(what, api.post("/embed", inputs=each)) for what, each in inputs], EMPTY)


@TEI.check("empty-list", f"{ERRORS}: Empty 400")
def empty_list(api: Tei) -> str:
    return refused(api.post("/embed", inputs=[]), EMPTY, "an empty list")


@TEI.check("wrong-types", f"{ROUTER}: 422")
def wrong_types(api: Tei) -> str:
    inputs: list[tuple[str, Any]] = [
        ("a number", 5),
        ("null in a list", ["a", None]),
        ("an object in a list", [{"text": "a"}]),
        ("true in a list", [True]),
    ]
    answers = [(what, api.post("/embed", inputs=each)) for what, each in inputs]
    answers.append(("no inputs", api.post("/embed")))
    answers.append(("truncate 'yes'", api.post("/embed", inputs="a", truncate="yes")))
    answers.append(("direction 'Up'", api.post("/embed", inputs="a", truncation_direction="Up")))
    return all_refused(answers, WRONG)


@TEI.check("unknown-prompt", f"{ROUTER}: prompt_name, 422")
def unknown_prompt(api: Tei) -> str:
    answer = api.post("/embed", inputs="a", prompt_name="no-such-prompt")
    return refused(answer, (422,), "an unknown prompt_name")


@TEI.check("malformed-body", f"{ROUTER}: axum's Json, 400, 415 and 422")
def malformed_body(api: Tei) -> str:
    bodies = [("half of JSON", b'{"inputs": "a'), ("a list", b"[]"), ("no UTF-8", b'"\xff"')]
    sent = [(what, api.server.request("POST", "/embed", body)) for what, body in bodies]
    return all_refused(sent, WRONG)


@TEI.check("long-list", f"{INFO}: max_client_batch_size; {ERRORS}: Validation")
def long_list(api: Tei) -> str:
    limit = api.info()["max_client_batch_size"]
    if limit > 10_000:
        raise NotApplicable(f"max_client_batch_size is {limit}")
    answer = api.post("/embed", inputs=["a"] * (limit + 1))
    refused(answer, (413, 422), f"{limit + 1} texts")
    return f"{limit + 1} texts: {answer.status}"


@TEI.check("error-body", ERRORS)
def error_body(api: Tei) -> str:
    answers = [api.post("/embed", inputs=[]), api.post("/embed", inputs="a", prompt_name="none")]
    failed = [each for each in answers if each.status >= 400]
    if not failed:
        raise NotApplicable("the server refuses nothing")
    kinds = [f"{each.status} {error_type(each)}" for each in failed]
    expected = {400: "Empty", 422: "Validation"}
    for each in failed:
        kind = error_type(each)
        require(expected.get(each.status, kind) == kind, f"{each.status} has {kind}")
    return ", ".join(kinds)


@TEI.check("token", f"{ROUTER}: --api-key, 401")
def token(api: Tei) -> str:
    if not api.server.token:
        raise NotApplicable("--token names the server's token")
    body = json.dumps({"inputs": "a"}).encode()
    wrong = {"Authorization": "Bearer a-wrong-token"}
    return refused(api.server.request("POST", "/embed", body, wrong), (401,), "a wrong token")


TEI.add("cancellation", f"{HUB}: timeout closes the connection", checks.cancellation)
TEI.add("overload", f"{ERRORS}: Overloaded 429", checks.overload)
