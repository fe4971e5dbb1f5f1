"""Named checks, their results, and the checks that dialects share."""

from __future__ import annotations

import copy
import enum
import math
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar

from tests.conformance.http_client import Answer, HttpServer, NoAnswer

Vector = list[float]
Body = dict[str, Any]
Run = Callable[[Any], str]

TEXTS = [
    "join two paths",
    "parse a date",
    "Zürich liegt an der Limmat \N{GRINNING FACE}",
    "a",
    "read a file line by line, and count its words",
]
QUERY, DOCUMENTS = "read the day", ["join two paths", "parse a date", "close a file", "read a day"]
WRONG = (400, 422)  # statuses of a request that is wrong
TOO_LARGE = (*WRONG, 413)
MISSING = (404, 405, 501)  # statuses of a path that the server does not have
MALFORMED = {"half of JSON": b'{"model": "a", "inp', "a list": b"[]", "no UTF-8": b'"\xff"'}
ABSENT = object()  # value of a field that is left out of a request


class Outcome(enum.StrEnum):
    PASS = "pass"
    FAIL = "fail"
    NOT_OFFERED = "not offered"
    NOT_APPLICABLE = "not applicable"


class Ended(Exception):
    """The end of a check other than a pass; its text is the reason."""

    outcome = Outcome.FAIL


class Failed(Ended):
    """The server breaks what a client relies on."""


class NotOffered(Ended):
    """The server refuses an optional part of the dialect."""

    outcome = Outcome.NOT_OFFERED


class NotApplicable(Ended):
    """The check needs an option of the command line, or a limit that the server does not have."""

    outcome = Outcome.NOT_APPLICABLE


@dataclass(frozen=True)
class Options:
    """What the command line sets.

    Attributes:
        tolerance: largest difference of two numbers that should be equal.
        words: length of a text that is too long for most models.
        seconds: time in which the server must answer.
        overload: requests that `overload` may send at once; 0: the check is left out.
    """

    model: str = ""
    rerank_model: str = ""
    tolerance: float = 1e-4
    words: int = 10_000
    seconds: float = 120
    overload: int = 0


@dataclass(frozen=True)
class Result:
    name: str
    outcome: Outcome
    reason: str
    source: str


@dataclass(frozen=True)
class Check:
    """A check, which returns the reason of its pass, or raises Ended.

    Attributes:
        source: where the dialect or its client states what is checked.
    """

    name: str
    source: str
    run: Run

    def result(self, api: Dialect) -> Result:
        """Run the check."""
        outcome = Outcome.PASS
        try:
            reason = self.run(api)
        except Ended as error:
            outcome, reason = error.outcome, str(error)
        except NoAnswer as error:
            outcome, reason = Outcome.FAIL, str(error)
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            outcome = Outcome.FAIL
            reason = f"the answer has another form: {type(error).__name__} {error}"
        return Result(self.name, outcome, " ".join(reason.split())[:240], self.source)


class Dialect(ABC):
    """A server as a client of one dialect sees it.

    Attributes:
        transports: by the scheme of a URL, the client of such a server.
        missing: statuses of a part that the server does not have.
        overloaded: statuses of a refusal for load.
        waits: headers, one of which a refusal for load has.
    """

    transports: ClassVar[Mapping[str, Callable[[str, str, float], Any]]]
    server: Any
    missing: tuple[int, ...] = MISSING
    overloaded: tuple[int, ...] = (429,)
    waits: tuple[str, ...] = ()

    def __init__(self, server: Any, options: Options) -> None:
        self.server, self.options = server, options

    @abstractmethod
    def post(self, path: str = "", **fields: Any) -> Answer:
        """Return the answer to a right request in which these fields are others."""

    @abstractmethod
    def embed(self, texts: Any, **fields: Any) -> Answer:
        """Return the answer to a request for vectors, whatever its status."""

    @abstractmethod
    def rows(self, answer: Answer) -> list[Vector]:
        """Return the vectors of an answer."""

    @abstractmethod
    def abandon(self, texts: Sequence[str]) -> None:
        """Send a request for vectors, and disconnect before its answer."""

    @abstractmethod
    def send(self, body: bytes) -> Answer:
        """Return the answer to these bytes in place of a request for vectors."""

    @abstractmethod
    def is_error(self, body: Any, status: int) -> bool:
        """Return whether the body of a refusal is the dialect's; a missing field may raise."""

    def accepted(self, answer: Answer) -> Answer:
        """Return an answer with status 200; raise NotOffered or Failed if it has another."""
        if answer.status in self.missing:
            raise NotOffered(answer.summary())
        require(answer.status == 200, f"a right request is {answer.summary()}")
        return answer

    def optional(self, answer: Answer) -> Answer:
        """Do the same with a request that the server may refuse."""
        if answer.status in WRONG:
            raise NotOffered(answer.summary())
        return self.accepted(answer)

    def vectors(self, texts: Sequence[str], **fields: Any) -> list[Vector]:
        """Return a vector for each text; raise NotOffered or Failed if there is none."""
        return self.rows(self.accepted(self.embed(list(texts), **fields)))

    def assert_error(self, answer: Answer) -> None:
        """Raise Failed if the body of a refusal is not the dialect's."""
        reason = f"the body of a refusal is {answer.summary()}"
        try:
            right = self.is_error(answer.json(), answer.status)
        except (ValueError, KeyError, TypeError) as error:
            raise Failed(f"{reason}: {type(error).__name__} {error}") from error
        require(right, reason)


class HttpDialect(Dialect):
    """A dialect of JSON over HTTP.

    Attributes:
        path, field: of requests for vectors, and of their texts.
        rerank_path, documents, score: the same of requests to rank, and the name of a score.
        requests: right requests by their path.
    """

    transports: ClassVar = {"http": HttpServer, "https": HttpServer}
    server: HttpServer
    path: str
    field: str
    rerank_path: str
    documents: str
    score: str
    requests: Mapping[str, Body]

    def body(self, path: str, **fields: Any) -> Body:
        """Return a right request, in which these fields are others."""
        body = {**self.requests.get(path, {}), **fields}
        return {name: value for name, value in body.items() if value is not ABSENT}

    def post(self, path: str = "", **fields: Any) -> Answer:
        path = path or self.path
        return self.server.post(path, self.body(path, **fields))

    def answer(self, path: str = "", **fields: Any) -> Any:
        """Return the body of an answer with status 200."""
        return self.accepted(self.post(path, **fields)).json()

    def embed(self, texts: Any, **fields: Any) -> Answer:
        return self.post(**{self.field: texts}, **fields)

    def abandon(self, texts: Sequence[str]) -> None:
        self.server.abandon(self.path, self.body(self.path, **{self.field: texts}))

    def send(self, body: bytes) -> Answer:
        return self.server.request("POST", self.path, body)

    def ranks(self, path: str = "", **fields: Any) -> list[Body]:
        """Return the ranks of DOCUMENTS for QUERY."""
        body = self.answer(path or self.rerank_path, **fields)
        ranks: list[Body] = body["results"] if isinstance(body, dict) else body
        return ranks


def require(condition: object, reason: str) -> None:
    """Raise Failed if a condition does not hold."""
    if not condition:
        raise Failed(reason)


def distance(one: Sequence[float], other: Sequence[float]) -> float:
    """Return the largest difference of two vectors' entries."""
    require(len(one) == len(other), f"one vector has {len(one)} entries, the other {len(other)}")
    return max((abs(a - b) for a, b in zip(one, other, strict=True)), default=0.0)


def unit(vector: Sequence[float]) -> Vector:
    """Return a vector of the same direction with length 1."""
    length = math.hypot(*vector)
    require(length > 0, "a vector is zero")
    return [each / length for each in vector]


def same(api: Dialect, one: Sequence[Vector], other: Sequence[Vector], what: str) -> str:
    """Return the largest difference of two lists of vectors; raise Failed above the tolerance."""
    require(len(one) == len(other), f"{what}: {len(one)} vectors and {len(other)}")
    largest = max(distance(a, b) for a, b in zip(one, other, strict=True))
    require(largest <= api.options.tolerance, f"{what}: they differ by {largest:.2g}")
    return f"{what}: within {largest:.2g}"


def refused(answers: Mapping[str, Answer], statuses: Collection[int]) -> str:
    """Return the statuses of refusals; raise Failed if one is another, naming all of those."""
    wrong = {what: each for what, each in answers.items() if each.status not in statuses}
    reasons = "; ".join(f"{what}: {each.summary()}" for what, each in wrong.items())
    require(not wrong, f"{reasons}; not {' or '.join(map(str, sorted(statuses)))}")
    return ", ".join(f"{what}: {each.status}" for what, each in answers.items())


def long_texts(api: Dialect) -> list[str]:
    """Return two long texts that are equal in their first half."""
    half = api.options.words // 2
    return ["word " * half + "path " * half, "word " * half + "date " * half]


def differ(api: Dialect, vectors: Sequence[Vector]) -> bool:
    return distance(vectors[0], vectors[1]) > api.options.tolerance


def long_text(api: Dialect, **fields: Any) -> Answer:
    """Return the answer to a long text; raise NotApplicable if all of its words are read."""
    answers = [api.embed([text], **fields) for text in long_texts(api)]
    if answers[0].status == 200 and differ(api, [api.rows(each)[0] for each in answers]):
        raise NotApplicable(f"a text of {api.options.words} words is not too long")
    return answers[0]


# Checks of vectors


def order(api: Dialect) -> str:
    """Vectors come in the order of their texts."""
    vectors = api.vectors(TEXTS)
    require(len(vectors) == len(TEXTS), f"{len(TEXTS)} texts, {len(vectors)} vectors")
    for place, vector in enumerate(vectors):
        for other in vectors[:place]:
            require(differ(api, [vector, other]), "two different texts have one vector")
    return same(api, vectors, api.vectors(TEXTS[::-1])[::-1], "a list and the same list backwards")


def single_equals_list(api: Dialect) -> str:
    """A text has the same vector alone and in a list."""
    alone = [api.vectors([text])[0] for text in TEXTS]
    return same(api, alone, api.vectors(TEXTS), "texts alone and in a list")


def text_equals_list(api: Dialect) -> str:
    """The same, where a text may come without a list."""
    alone = api.rows(api.accepted(api.embed(TEXTS[0])))
    same(api, alone, api.vectors(TEXTS[:1]), "a text and a list of it")
    return single_equals_list(api)


def concurrent_callers(api: Dialect) -> str:
    """Concurrent callers get the vectors of their own texts."""
    texts = [f"text number {number} of many" for number in range(24)]
    with ThreadPoolExecutor(8) as pool:
        together = [each[0] for each in pool.map(lambda text: api.vectors([text]), texts)]
    return same(api, together, api.vectors(texts), "24 requests of eight callers, and one list")


def unit_length(api: Dialect) -> str:
    """Vectors have length 1."""
    lengths = [math.hypot(*vector) for vector in api.vectors(TEXTS)]
    worst = max(abs(length - 1) for length in lengths)
    require(worst <= 1e-3, f"lengths are {min(lengths):.4g} to {max(lengths):.4g}")
    return f"1 within {worst:.2g}"


def dimensions(field: str, normalised: bool = True) -> Run:
    """Return a check that a vector is cut to its first numbers; `normalised`: to length 1."""

    def run(api: Dialect) -> str:
        full = api.vectors(TEXTS)
        count = len(full[0]) // 2
        rows = api.rows(api.optional(api.embed(TEXTS, **{field: count})))
        require(len(rows[0]) == count, f"{field} {count} gives {len(rows[0])} numbers")
        rows = rows if normalised else [unit(each) for each in rows]
        return same(api, rows, [unit(each[:count]) for each in full], f"{count} first numbers")

    return run


def dimensions_invalid(api: Dialect) -> str:
    """A number of dimensions that a vector does not have is refused."""
    values = (0, -1, len(api.vectors(["a"])[0]) + 1, "many")
    return refused({f"dimensions {each!r}": api.post(dimensions=each) for each in values}, WRONG)


def counts(count: Callable[[Any, list[str]], int]) -> Run:
    """Return a check that the tokens of texts, as `count` returns them, add up."""

    def run(api: Dialect) -> str:
        each, together = [count(api, [text]) for text in TEXTS], count(api, TEXTS)
        require(min(each) > 0, f"a text has {min(each)} tokens")
        require(together == sum(each), f"texts have {each} tokens, and together {together}")
        short, long = count(api, ["a path"]), count(api, ["a path a path a path"])
        require(short < long <= 3 * short, f"a text has {short} tokens, and three times {long}")
        return f"{' + '.join(map(str, each))} = {together}"

    return run


def truncation(ends: Sequence[Body], start: Body) -> Run:
    """Return a check that each of `ends` cuts the end of a long text, and `start` the start."""

    def run(api: Dialect) -> str:
        def pair(fields: Body) -> list[Vector]:
            return [api.vectors([text], **fields)[0] for text in long_texts(api)]

        first, *others = (pair(fields) for fields in ends)
        if differ(api, first):
            raise NotApplicable(f"a text of {api.options.words} words is not too long")
        for each in others:
            same(api, first, each, f"with each of {ends}")
        require(differ(api, pair(start)), f"{start} keeps the start")
        return "each cuts its side"

    return run


# Checks of refusals


def refusals(cases: Mapping[str, Body], statuses: Collection[int] = WRONG, path: str = "") -> Run:
    """Return a check that these requests are refused; the same one without a fault is not."""

    def run(api: Dialect) -> str:
        api.accepted(api.post(path))
        return refused({what: api.post(path, **each) for what, each in cases.items()}, statuses)

    return run


def malformed_body(api: Dialect) -> str:
    """Bytes that are no JSON object are refused."""
    api.vectors(["a"])
    return refused({what: api.send(each) for what, each in MALFORMED.items()}, WRONG)


def error_body(*requests: tuple[str, Body], apart: Collection[int] = ()) -> Run:
    """Return a check of the bodies of refusals, apart from those with such a status."""

    def run(api: Dialect) -> str:
        refusals = []
        for path, fields in requests:
            with suppress(NotApplicable):
                refusals.append(api.post(path, **fields))
        refusals = [each for each in refusals if each.status >= 400 and each.status not in apart]
        if not refusals:
            raise NotApplicable("the server refuses nothing")
        for each in refusals:
            api.assert_error(each)
        return f"{len(refusals)} refusals, {sorted({each.status for each in refusals})}"

    return run


def empty_string(api: Dialect) -> str:
    """An empty text has a vector or is refused."""
    api.vectors(["a"])
    answer = api.embed(["a", ""])
    if answer.status != 200:
        return refused({"an empty text": answer}, WRONG)
    require(len(api.rows(answer)) == 2, "two texts, one of them empty, have not two vectors")
    return "an empty text has a vector"


def long_list(count: int) -> Run:
    """Return a check that a list beyond the dialect's limit is refused, or answered in order."""

    def run(api: Dialect) -> str:
        answer = api.embed([f"text {number}" for number in range(count)])
        if answer.status in TOO_LARGE:
            return f"{count} texts: {answer.status}"
        rows = api.rows(api.accepted(answer))
        require(len(rows) == count, f"{count} texts give {len(rows)} vectors")
        last = api.vectors([f"text {count - 1}"])
        return same(api, rows[-1:], last, f"the last of {count} and the same alone")

    return run


def token(statuses: Collection[int] = (401,), in_form: bool = False) -> Run:
    """Return a check that a wrong token is refused; `in_form`: in the form of other errors."""

    def run(api: Dialect) -> str:
        if not api.server.token:
            raise NotApplicable("--token names the server's token")
        api.vectors(["a"])
        stranger = copy.copy(api)
        stranger.server = api.server.with_token("a-wrong-token")
        answer = stranger.embed(["a"])
        if in_form:
            api.assert_error(answer)
        return refused({"a wrong token": answer}, statuses)

    return run


# Checks of load


def cancellation(api: Dialect) -> str:
    """A server answers after clients have disconnected in the middle of a request."""
    before = api.vectors(TEXTS)
    for _ in range(8):
        api.abandon([f"{text} {number}" for number in range(16) for text in TEXTS])
    begun = time.monotonic()
    same(api, before, api.vectors(TEXTS), "before and after")
    return f"eight clients left; the next answer took {time.monotonic() - begun:.2f} s"


def overload(api: Dialect) -> str:
    """Requests beyond the queue are refused in the dialect's form, and the rest are answered."""
    count = api.options.overload
    if not count:
        raise NotApplicable("--overload N sends up to N requests at once")
    api.vectors(["a"])
    words = "word " * 200
    statuses: Counter[int] = Counter()
    with ThreadPoolExecutor(min(count, 256)) as pool:
        for answer in pool.map(lambda n: api.embed([f"{words} {n}"]), range(count)):
            statuses[answer.status] += 1
            if answer.status != 200:
                refused({"a refusal for load": answer}, api.overloaded)
                api.assert_error(answer)
                retry = not api.waits or any(name in answer.headers for name in api.waits)
                require(retry, f"{answer.status} has no header {' or '.join(api.waits)}")
    api.vectors(["a"])
    if set(statuses) == {200}:
        raise NotApplicable(f"{count} requests at once were all answered")
    return ", ".join(f"{number} × {status}" for status, number in sorted(statuses.items()))


# Checks of ranks


def rerank(api: HttpDialect) -> str:
    """Each document has its rank, the best first."""
    ranks = api.ranks()
    indices, scores = [each["index"] for each in ranks], [each[api.score] for each in ranks]
    require(sorted(indices) == list(range(len(DOCUMENTS))), f"index has {indices}")
    require(all(type(each) is float for each in scores), f"scores are {scores}")
    require(scores == sorted(scores, reverse=True), f"scores are not in order: {scores}")
    require(all(each.get("text") is None for each in ranks), "texts come unrequested")
    return f"{len(ranks)} documents by their score"


def rerank_single_list(api: HttpDialect) -> str:
    """A document has the same score alone and in a list."""
    together = [each[api.score] for each in sorted(api.ranks(), key=lambda each: each["index"])]
    texts: list[Body] = [{api.documents: [text]} for text in DOCUMENTS]
    alone = [api.ranks(**each)[0][api.score] for each in texts]
    require(len(set(alone)) > 1, "all documents have one score")
    return same(api, [alone], [together], "documents alone and together")


def indices(ranks: Sequence[Body]) -> list[int]:
    return [each["index"] for each in ranks]
