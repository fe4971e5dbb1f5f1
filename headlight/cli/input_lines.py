"""Inputs of the command line: arguments, or lines (perhaps JSON) of a file or standard input."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import re
from typing import Any

from headlight.cli.files import UsageError, source, split_lines
from headlight.interface.arguments import Input

JSON_LINES = (".jsonl", ".ndjson")
# Files whose lines are no texts, and how to give their texts.
TO_TABLE = (
    "convert it to Parquet, and give that to `headlight embed` with --text-column NAME; for its "
    "lines as they are, give its contents on standard input"
)
NO_LINES = {
    **dict.fromkeys((".csv", ".tsv"), f"is a table: {TO_TABLE}"),
    **dict.fromkeys(
        (".parquet", ".pq", ".arrow", ".feather"),
        "is a table: give it to `headlight embed` as an argument, with --text-column NAME",
    ),
    ".json": (
        "is one JSON value: write an object a line to a file that ends in .jsonl; if each line is "
        "an object already, name the field of its text by --text-field"
    ),
}
LONGEST_ID = 1000  # characters: a NumPy array reserves the longest length for every row
NUMBER = re.compile(r"-?[0-9]{1,100}")
HIGHEST_ID = 2**63 - 1  # a request can hold no higher one


@dataclasses.dataclass(frozen=True)
class InputLines:
    """Inputs of a command, each at the place of its line.

    Attributes:
        texts: texts or token ids of the lines; a line without an input is left as it is.
        problems: reasons, by place, of the lines without an input.
        name: name of the source; None: arguments.
        ids: ids of the lines, empty for a line without a text; None: not requested.
    """

    texts: list[Input]
    problems: dict[int, str]
    name: str | None
    ids: list[str] | None = None

    def describe(self, place: int, problem: str) -> str:
        """Return a problem with the input at a place, on one line."""
        where = f"text {place + 1}" if self.name is None else f"{self.name}, line {place + 1}"
        return f"{where}: {' '.join(problem.split())}"


def read_inputs(arguments: argparse.Namespace) -> InputLines:
    """Read the inputs that the options of `headlight.cli.shared_options.add_texts` name.

    Raises:
        UsageError: they cannot be read, or a line holds no input and may not be skipped. (Without
            it, the numbers of later answers and lines would differ.)
    """
    name, id_field = source(arguments), getattr(arguments, "id_field", None)
    numbers, skip_bad = getattr(arguments, "token_ids", False), getattr(arguments, "skip_bad", None)
    empty = getattr(arguments, "empty_texts", None) == "encode"
    fields = arguments.text_field is not None or id_field is not None
    lines: list[Any] = list(arguments.texts)
    check_files(arguments, fields)
    if name is not None:
        name, lines = split_lines(bool(lines), arguments.file)
        fields = fields or name.lower().endswith(JSON_LINES)
    elif fields:
        raise UsageError(
            "--text-field and --id-field are of lines of JSON; "
            "give them by --file or on standard input"
        )
    if fields and numbers:
        raise UsageError(
            "--token-ids: expects lines of whole numbers, and the file is JSON; "
            "write them as plain lines"
        )
    ids = [""] * len(lines)
    inputs = InputLines(lines, {}, name, None if id_field is None else ids)
    for place, line in enumerate(lines):
        # Inputs replace their lines, so that memory does not hold both.
        try:
            if fields:
                entry = parsed(line)
                lines[place] = text_of(entry, arguments.text_field or "text", empty=empty)
                if id_field is not None:
                    ids[place] = id_of(entry, id_field)
            elif numbers:
                lines[place] = ids_of(line)
            elif not line and name is not None and not empty:
                raise UsageError("is empty; remove it, or put a text there")
        except UsageError as problem:
            if not skip_bad:
                remedy = "" if skip_bad is None else ", or leave such lines out by --skip-bad"
                raise UsageError(inputs.describe(place, str(problem)) + remedy) from None
            inputs.problems[place] = str(problem)
    return inputs


def check_files(arguments: argparse.Namespace, fields: bool) -> None:
    """Raise UsageError for names of files that are given as texts, and files without lines.

    Args:
        arguments: of the command.
        fields: whether lines are JSON objects.
    """
    for text in arguments.texts:
        if os.path.isfile(text):
            problem = _no_lines(text) or (
                f"is a file, and this would read its name; for its lines, give --file {text}"
            )
            raise UsageError(f"{text}: {problem}; for the name, give it on standard input")
    file = arguments.file or ""
    table = _no_lines(file)
    if table is not None and not (fields and file.lower().endswith(".json")):
        raise UsageError(f"{file}: {table}")


def _no_lines(file: str) -> str | None:
    """Return why the lines of a file are no texts, and the remedy; None: they may be."""
    return NO_LINES.get(os.path.splitext(file)[1].lower())


def ids_of(line: str) -> list[int]:
    """Return the token ids of a line. Raises UsageError if it holds anything else, or none."""
    numbers = line.replace(",", " ").split()
    if not numbers or not all(NUMBER.fullmatch(number) for number in numbers):
        raise UsageError(
            "is not a list of token ids; give whole numbers, with those of special tokens"
        )
    ids = [int(number) for number in numbers]
    if not 0 <= min(ids) <= max(ids) <= HIGHEST_ID:
        beyond = min(ids) if min(ids) < 0 else max(ids)
        raise UsageError(
            f"holds {beyond}, which is not a token id; give whole numbers from 0 to {HIGHEST_ID}"
        )
    return ids


def parsed(line: str) -> dict[str, Any]:
    """Return the JSON object of a line. Raises UsageError if it has none."""
    if not line.strip():
        raise UsageError("is empty; remove it, or put a JSON object there")
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError) as error:
        at = f" (column {error.colno})" if isinstance(error, json.JSONDecodeError) else ""
        raise UsageError(f"is not JSON{at}; mend it") from None
    if not isinstance(entry, dict):
        raise UsageError("is not a JSON object; write one object a line")
    return entry


def text_of(entry: dict[str, Any], field: str, *, empty: bool) -> str:
    """Return the text in a field of a line, which may be empty if `empty`.

    Raises UsageError if there is none.
    """
    if field not in entry:
        raise UsageError(f"has no field {field!r}; name the one with the text by --text-field")
    text = entry[field]
    if not isinstance(text, str) or not (text or empty):
        raise UsageError(f"has no text in the field {field!r}; put one there")
    return text


def id_of(entry: dict[str, Any], field: str) -> str:
    """Return the id of a line.

    Raises UsageError if it is neither a text nor a whole number, or NumPy could not store it.
    """
    value = entry.get(field)
    if not isinstance(value, str | int) or isinstance(value, bool):
        raise UsageError(
            f"has neither a text nor a whole number in the field {field!r}, which --id-field names"
        )
    text = str(value)
    for wrong, problem in (
        (
            len(text) > LONGEST_ID,
            f"has more than {LONGEST_ID} characters in the field {field!r}, which --id-field names",
        ),
        ("\0" in text, f"holds a NUL in the field {field!r}, which an id may not"),
        (
            any(0xD800 <= ord(char) < 0xE000 for char in text),
            f"holds a lone surrogate in the field {field!r}, which UTF-8 cannot express",
        ),
    ):
        if wrong:
            raise UsageError(problem)
    return text


def texts_of(arguments: argparse.Namespace) -> list[str]:
    """Return the texts of `read_inputs`, for commands that take only texts."""
    return [text for text in read_inputs(arguments).texts if isinstance(text, str)]
