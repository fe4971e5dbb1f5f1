"""Named checks, their results, and what the checks of all dialects share."""

from __future__ import annotations

import enum
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from tests.conformance.http_client import Answer, NoAnswer

Vector = list[float]

TEXTS = [
    "join two paths",
    "parse a date",
    "Zürich liegt an der Limmat \N{GRINNING FACE}",
    "a",
    "read a file line by line, and count its words",
]
MISSING = (404, 405, 501)  # statuses of a path that the server does not have


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


class Dialect(ABC):
    """A server as a client of one dialect sees it."""

    options: Options

    @abstractmethod
    def vectors(self, texts: Sequence[str], **fields: Any) -> list[Vector]:
        """Return a vector for each text; raise NotOffered or Failed if there is none."""

    @abstractmethod
    def attempt(self, text: str) -> Answer:
        """Return the answer to a request of this text, whatever its status."""

    @abstractmethod
    def abandon(self, texts: Sequence[str]) -> None:
        """Send a request of these texts, and disconnect before its answer."""

    @abstractmethod
    def assert_overloaded(self, answer: Answer) -> None:
        """Raise Failed if a refusal for load is not in the dialect's form."""


D = TypeVar("D", bound=Dialect)


@dataclass(frozen=True)
class Check(Generic[D]):
    """A check, which returns the reason of its pass, or raises Ended.

    Attributes:
        source: where the dialect or its client states what is checked.
    """

    name: str
    source: str
    run: Callable[[D], str]

    def result(self, api: D) -> Result:
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


@dataclass
class Suite(Generic[D]):
    """The checks of one dialect, in their order."""

    checks: list[Check[D]] = field(default_factory=list)

    def check(self, name: str, source: str) -> Callable[[Callable[[D], str]], Callable[[D], str]]:
        """Return a decorator that adds a check."""

        def added(run: Callable[[D], str]) -> Callable[[D], str]:
            self.add(name, source, run)
            return run

        return added

    def add(self, name: str, source: str, run: Callable[[D], str]) -> None:
        """Add a check."""
        self.checks.append(Check(name, source, run))


def require(condition: object, reason: str) -> None:
    """Raise Failed if a condition does not hold."""
    if not condition:
        raise Failed(reason)


def distance(one: Sequence[float], other: Sequence[float]) -> float:
    """Return the largest difference of two vectors' entries."""
    require(len(one) == len(other), f"one vector has {len(one)} entries, the other {len(other)}")
    return max((abs(a - b) for a, b in zip(one, other, strict=True)), default=0.0)


def norm(vector: Sequence[float]) -> float:
    """Return the length of a vector."""
    return math.sqrt(sum(each * each for each in vector))


def unit(vector: Sequence[float]) -> Vector:
    """Return a vector of the same direction with length 1."""
    length = norm(vector)
    require(length > 0, "a vector is zero")
    return [each / length for each in vector]


def same(api: Dialect, one: Sequence[Vector], other: Sequence[Vector], what: str) -> float:
    """Return the largest difference of two lists of vectors; raise Failed above the tolerance."""
    require(len(one) == len(other), f"{what}: {len(one)} vectors and {len(other)}")
    largest = max(distance(a, b) for a, b in zip(one, other, strict=True))
    require(largest <= api.options.tolerance, f"{what}: they differ by {largest:.2g}")
    return largest


def refused(answer: Answer, statuses: Collection[int], what: str) -> str:
    """Return the status of a refusal; raise Failed if it is another one, or no refusal."""
    allowed = " or ".join(map(str, sorted(statuses)))
    require(answer.status in statuses, f"{what}: {answer.summary()}, not {allowed}")
    return f"{what}: {answer.status}"


def all_refused(answers: Sequence[tuple[str, Answer]], statuses: Collection[int]) -> str:
    """Return the statuses of refusals; raise Failed if one is another, naming all of those."""
    allowed = " or ".join(map(str, sorted(statuses)))
    wrong = [f"{what}: {each.summary()}" for what, each in answers if each.status not in statuses]
    require(not wrong, f"{'; '.join(wrong)}; not {allowed}")
    return ", ".join(f"{what}: {each.status}" for what, each in answers)


def long_texts(api: Dialect) -> tuple[str, str]:
    """Return two long texts that are equal in their first half."""
    half = api.options.words // 2
    return "word " * half + "path " * half, "word " * half + "date " * half


# Checks of every dialect


def order_kept(api: Dialect) -> str:
    """Vectors come in the order of their texts."""
    vectors = api.vectors(TEXTS)
    require(len(vectors) == len(TEXTS), f"{len(TEXTS)} texts, {len(vectors)} vectors")
    for place, vector in enumerate(vectors):
        for other in vectors[:place]:
            apart = distance(vector, other)
            require(apart > api.options.tolerance, "two different texts have one vector")
    backwards = api.vectors(TEXTS[::-1])[::-1]
    largest = same(api, vectors, backwards, "a list and the same list backwards")
    return f"{len(TEXTS)} texts, also backwards; within {largest:.2g}"


def single_equals_list(api: Dialect) -> str:
    """A text has the same vector alone and in a list."""
    alone = [api.vectors([text])[0] for text in TEXTS]
    largest = same(api, alone, api.vectors(TEXTS), "texts alone and in a list")
    return f"within {largest:.2g}"


def concurrent_callers(api: Dialect) -> str:
    """Concurrent callers get the vectors of their own texts."""
    texts = [f"text number {number} of many" for number in range(24)]
    with ThreadPoolExecutor(8) as pool:
        together = [each[0] for each in pool.map(lambda text: api.vectors([text]), texts)]
    largest = same(api, together, api.vectors(texts), "eight callers at once and one list")
    return f"24 requests of eight callers; within {largest:.2g}"


def unit_length(api: Dialect) -> str:
    """Vectors have length 1."""
    lengths = [norm(vector) for vector in api.vectors(TEXTS)]
    worst = max(abs(length - 1) for length in lengths)
    require(worst <= 1e-3, f"lengths are {min(lengths):.4g} to {max(lengths):.4g}")
    return f"1 within {worst:.2g}"


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
    statuses: dict[int, int] = {}
    with ThreadPoolExecutor(min(count, 256)) as pool:
        for answer in pool.map(lambda n: api.attempt(f"{words} {n}"), range(count)):
            statuses[answer.status] = statuses.get(answer.status, 0) + 1
            if answer.status != 200:
                api.assert_overloaded(answer)
    api.vectors(["a"])
    counts = ", ".join(f"{number} × {status}" for status, number in sorted(statuses.items()))
    if set(statuses) == {200}:
        raise NotApplicable(f"{count} requests at once were all answered")
    return counts
