"""Names of files, classes and functions: the words of the field."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
# Words that no name may contain, and the field's words for them.
FORBIDDEN = {
    **dict.fromkeys(("outlook", "overrun"), "estimate, drain rate"),
    **dict.fromkeys(("pace", "effort"), "batch size, CPU time, rate"),
    **dict.fromkeys(("patience", "sending", "arriving"), "timeout, retry policy"),
    **dict.fromkeys(("stuck", "still", "heart"), "stalled, heartbeat, watchdog"),
    **dict.fromkeys(("bunch", "turns"), "batch, queue, interleaved"),
    **dict.fromkeys(("kept", "spent"), "checkpoint, resume, used"),
    "wide": "exclusive",
    "wish": "requested outputs, spec",
    "gate": "authentication, parity check, window",
    "renewing": "reloading",
}
# Words that are no names by themselves; in longer names they may mean something else.
TOO_SHORT = {
    **dict.fromkeys(("left", "cut"), "remaining, disconnected, truncate"),
    **dict.fromkeys(("group", "slot"), "pending request, queue item"),
    "answers": "decode",
    "line": "channel generation",
}
# Conversion of weights and graphs is the exporter's subject; a message is decoded or encoded.
CONVERTERS = ("export/", "tests/export/")


def faults(name: str) -> list[str]:
    """Return the forbidden words of a name, with their replacements."""
    words = [word.lower() for word in WORD.findall(name)]
    found = [f"{word}: {FORBIDDEN[word]}" for word in words if word in FORBIDDEN]
    if len(words) == 1 and words[0] in TOO_SHORT:
        found.append(f"{words[0]}: {TOO_SHORT[words[0]]}")
    return found


def python_files() -> list[Path]:
    """Return the committed Python files, without generated ones."""
    listed = subprocess.run(
        ["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [ROOT / name for name in listed.stdout.split() if "/pb/" not in name]


def names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield line and name of each class and function; tests are sentences, so they are left out."""
    for node in ast.walk(tree):
        match node:
            case (
                ast.ClassDef(name=name)
                | ast.FunctionDef(name=name)
                | ast.AsyncFunctionDef(name=name)
            ) if not name.startswith("test_"):
                yield node.lineno, name


def test_names_use_the_words_of_the_field() -> None:
    wrong = []
    for path in python_files():
        name = str(path.relative_to(ROOT))
        wrong += [f"{name}: {fault}" for fault in faults(path.stem)]
        for row, found in names(ast.parse(path.read_text(encoding="utf-8"))):
            wrong += [f"{name}:{row} {found}: {fault}" for fault in faults(found)]
            if "convert" in WORD.findall(found.lower()) and not name.startswith(CONVERTERS):
                wrong.append(f"{name}:{row} {found}: decode, encode")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", ["AnswerGate", "still_seconds", "_Wish", "Line", "_left", "Pace"])
def test_a_forbidden_word_is_found(name: str) -> None:
    assert faults(name)


@pytest.mark.parametrize("name", ["LeftPadding", "text_lines", "cut_end", "Heartbeat", "streams"])
def test_plain_words_are_allowed(name: str) -> None:
    assert not faults(name)
