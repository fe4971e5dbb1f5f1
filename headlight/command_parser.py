"""Argument parser of all commands: errors name the nearest option, command or choice."""

from __future__ import annotations

import argparse
import difflib
import shutil
import sys
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

WIDEST_HELP = 100  # columns


def did_you_mean(word: str, names: Iterable[str]) -> str:
    """Return " (did you mean NAME?)" for the nearest of some names; "" if none is near."""
    # Their dashes are no likeness.
    bare = {name.lstrip("-"): name for name in names}
    near = difflib.get_close_matches(word.lstrip("-"), bare, n=1)
    return f" (did you mean {bare[near[0]]}?)" if near else ""


def examples_text(examples: Iterable[str]) -> str:
    """Return the end of a help: command lines, each of which a test runs."""
    return "\n".join(("examples:", *(f"  {example}" for example in examples)))


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Help of at most 100 columns, whose description and examples keep their lines."""

    def __init__(self, prog: str) -> None:
        columns = shutil.get_terminal_size().columns - 2
        super().__init__(prog, max_help_position=28, width=min(columns, WIDEST_HELP))


class CommandParser(argparse.ArgumentParser):
    """Parser whose errors are those of its own command, even if a parser above it was called."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **{"formatter_class": HelpFormatter, **options})

    def parse_known_args(  # type: ignore[override]  # of two overloads
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """Parse, and refuse what is not known: argparse would leave that to the parser above."""
        known, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(self._unknown(unknown))
        return known, []

    def error(self, message: str) -> NoReturn:
        """Show the usage and one line, and exit with 2."""
        self.print_usage(sys.stderr)
        problem = message.removeprefix("argument ")
        more = "" if problem.endswith("?)") else f"; see {self.prog} --help"
        self.exit(2, f"{self.prog}: {problem}{more}\n")

    def _unknown(self, words: Sequence[str]) -> str:
        options = [word.partition("=")[0] for word in words if word.startswith("-")]
        if options:
            return f"there is no option {options[0]}{did_you_mean(options[0], self._flags())}"
        if not self._get_positional_actions():
            return f"takes no arguments, and {words[0]!r} was given"
        # argparse takes the arguments from one place; those behind an option are too many.
        return f"unexpected {words[0]!r}; arguments stand together, one with spaces in quotes"

    def _flags(self) -> list[str]:
        return [flag for action in self._actions for flag in action.option_strings]

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Refuse a choice that does not exist, in the words of all versions of Python."""
        if action.choices is None or value in action.choices:
            return
        choices = [str(choice) for choice in action.choices]
        hint = did_you_mean(str(value), choices)
        if isinstance(action, argparse._SubParsersAction):
            raise argparse.ArgumentError(None, f"there is no command {value!r}{hint}")
        *others, last = choices
        either = f"{', '.join(others)} or {last}" if others else last
        raise argparse.ArgumentError(action, f"is {value!r}; choose {either}{hint}")


def positive(text: str) -> int:
    """Parse a whole number from 1."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be a whole number from 1")
    return number
