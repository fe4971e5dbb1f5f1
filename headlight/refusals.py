"""Refusals as data: what is wrong, where, and its numbers. Each edge has words of its own.

A refusal travels as a reason and numbers, and becomes a sentence only where a person reads it: over
gRPC, in a dialect of HTTP, in Python and on the command line. An edge has two tables: from reasons
to sentences, and from paths to names. Nothing reads or rewrites a sentence.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from typing import NamedTuple

from headlight.reasons import Phrase, Reason

# A field of a request: names, and the places of entries, as ("inputs", 3, "text").
Path = tuple[str | int, ...]
# A number or a name of a refusal; those in PARTS are parts of its sentence.
Argument = int | str | Phrase
ANY = -1  # any place, in a table of names
NUMBER = re.compile(r"0|-?[1-9][0-9]{0,17}")
PARTS = frozenset({"fits", "kind", "remedy"})
STEP = re.compile(r"[^.\[\]]+|\[-?\d+\]")
PATH = re.compile(r"[^.\[\]]+(?:\.[^.\[\]]+|\[-?\d+\])*")
# Lists with an entry for each input.
INPUTS: tuple[Path, ...] = (
    ("inputs", ANY),
    ("passages", ANY),
    ("documents", ANY),
    ("evidence", ANY, "spans", ANY),
    ("outputs", "spans", "given", "inputs", ANY),
)


class Code(enum.StrEnum):
    """Kind of failure, without reference to a transport."""

    INVALID_INPUT = "invalid_input"
    UNAUTHENTICATED = "unauthenticated"
    NOT_FOUND = "not_found"
    OVERLOADED = "overloaded"
    UNAVAILABLE = "unavailable"
    DEADLINE_EXCEEDED = "deadline_exceeded"
    INTERNAL = "internal"
    BUNDLE = "bundle"


class Refusal(NamedTuple):
    """Why something is not done.

    Attributes:
        code: the kind of failure.
        path: the field at fault; empty: none.
        reason: what is wrong with it.
        args: numbers and names of the reason. `input`: the place of the input that lacks what the
            field names. `more`: what else may be the cause, in words of the client.
    """

    code: Code
    path: Path
    reason: Reason
    args: Mapping[str, Argument]


def path_of(field: str | Path) -> Path:
    """Return a field as a path; text that is no path is one name."""
    if not isinstance(field, str):
        return field
    if not PATH.fullmatch(field):
        return (field,) if field else ()
    return tuple(int(step[1:-1]) if step.startswith("[") else step for step in STEP.findall(field))


def text_of(path: Path) -> str:
    """Return a path as the contract writes it: "inputs[3].text"."""
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return "".join(steps).removeprefix(".")


def moved(path: Path, moves: Mapping[Path, Path]) -> Path:
    """Return a path with its longest prefix of a table replaced."""
    for end in range(len(path), -1, -1):
        if path[:end] in moves:
            return moves[path[:end]] + path[end:]
    return path


class Edge:
    """The words of one kind of reader.

    Attributes:
        sentences: of every reason and part.
        names: of paths, by prefix: the longest one wins, and what follows it is left out. `{}` is
            a place, for which the prefix has ANY, or "[*]".
    """

    def __init__(
        self,
        sentences: Mapping[Reason | Phrase, str] | None = None,
        names: Mapping[str, str] | None = None,
    ) -> None:
        """Make an edge from what it says otherwise than the contract."""
        known: list[Reason | Phrase] = [*Reason, *Phrase]
        self.sentences: dict[Reason | Phrase, str] = {each: each.value for each in known} | dict(
            sentences or {}
        )
        self.names = {
            path_of(path.replace("[*]", f"[{ANY}]")): name for path, name in (names or {}).items()
        }

    def name(self, path: Path) -> str:
        """Return the name of a field; empty: of none."""
        shape = _shape(path)
        for end in range(len(path), 0, -1):
            if (name := self.names.get(shape[:end])) is not None:
                return name.format(*(step for step in path[:end] if isinstance(step, int)))
        return text_of(path)

    def problem(self, refusal: Refusal) -> str:
        """Return what is wrong, and the remedy. Raises KeyError: an argument is missing."""
        where = refusal.args.get("input")
        inside = "" if where is None else f"{self.name(('inputs', int(str(where))))}: "
        problem = inside + self._words(refusal.reason, refusal.args)
        more = refusal.args.get("more")
        return f"{problem}; {more}" if more else problem

    def message(self, refusal: Refusal) -> str:
        """Return the name of the field and the problem."""
        name, problem = self.name(refusal.path), self.problem(refusal)
        return f"{name}: {problem}" if name else problem

    def _words(self, reason: Reason | Phrase, args: Mapping[str, Argument]) -> str:
        """Fill a template: with arguments, and with phrases, which are worded here too."""
        parts = Phrase.__members__ | {
            name: value for name, value in args.items() if isinstance(value, Phrase)
        }
        template = self.sentences[reason]
        worded = {
            name: self._words(part, args)
            for name, part in parts.items()
            if f"{{{name}}}" in template
        }
        return template.format_map({**args, **worded})


# The reader of the contract; over gRPC, and what others say who have no words of their own.
CONTRACT = Edge()


def to_metadata(refusal: Refusal) -> dict[str, str]:
    """Return the reason and its arguments as texts, for ErrorInfo and Status."""
    args = {
        name: value.name if isinstance(value, Phrase) else str(value)
        for name, value in refusal.args.items()
    }
    return {"refusal": refusal.reason.name, **args}


def from_metadata(code: Code, path: Path, metadata: Mapping[str, str]) -> Refusal | None:
    """Return the refusal of metadata; None: of a service that has none, or other reasons."""
    try:
        args: dict[str, Argument] = {
            name: Phrase[value]
            if name in PARTS and value
            else int(value)
            if NUMBER.fullmatch(value)
            else value
            for name, value in metadata.items()
            if name not in ("refusal", "field")
        }
        refusal = Refusal(code, path, Reason[metadata["refusal"]], args)
        CONTRACT.problem(refusal)  # all its arguments are there
    except (KeyError, ValueError):
        return None
    return refusal


def place_of(path: Path) -> int | None:
    """Return the place of the input that a path names; None: it names none."""
    shape = _shape(path)
    step = next((len(each) - 1 for each in INPUTS if shape[: len(each)] == each), None)
    return None if step is None else int(path[step])


def at_place(path: Path, place: int) -> Path:
    """Return a path that names an input with the place of another input."""
    step = next(len(each) - 1 for each in INPUTS if _shape(path)[: len(each)] == each)
    return (*path[:step], place, *path[step + 1 :])


def _shape(path: Path) -> Path:
    return tuple(ANY if isinstance(step, int) else step for step in path)
