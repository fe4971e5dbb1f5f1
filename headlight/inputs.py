"""What the command line reads many inputs from: arguments, lines of a file or of standard input."""

from __future__ import annotations

import argparse
import dataclasses

from headlight.files import UsageError, source, split_lines

EMPTY = "is empty; remove it, or put a text there"


@dataclasses.dataclass(frozen=True)
class Given:
    """Inputs, each in the place of its line.

    Attributes:
        texts: a line that holds none stands for itself.
        problems: by place, why a line holds none.
        name: of what was read; None: they were arguments.
    """

    texts: list[str]
    problems: dict[int, str]
    name: str | None

    def line(self, place: int, problem: str) -> str:
        """A problem with the input in one place, on one line."""
        where = f"argument {place + 1}" if self.name is None else f"{self.name}: line {place + 1}"
        return f"{where} {' '.join(problem.split())}"


def given(arguments: argparse.Namespace) -> Given:
    """What the options of `headlight.options.add_texts` name. Raises UsageError where it cannot be read."""
    texts, name = arguments.texts, source(arguments)
    if name is not None:
        name, texts = split_lines(bool(texts), arguments.file)
    problems = {place: EMPTY for place, text in enumerate(texts) if not text}
    return Given(list(texts), problems if name is not None else {}, name)


def all_good(arguments: argparse.Namespace) -> Given:
    """The same, of lines that all hold a text.

    Raises:
        UsageError: as `given`, or a line holds none. (Leaving it out would shift the answers against the lines.)
    """
    found = given(arguments)
    for place, problem in found.problems.items():
        remedy = ", or leave such lines out by --skip-bad" if "skip_bad" in arguments else ""
        raise UsageError(found.line(place, problem) + remedy)
    return found
