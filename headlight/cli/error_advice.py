"""Error messages of the command line: one line, in terms of its options, with a remedy."""

from __future__ import annotations

import argparse
import re

from headlight.cli.files import OutputError, UsageError, source
from headlight.errors import (
    DeadlineExceeded,
    HeadlightError,
    InvalidInput,
    Overloaded,
    Unauthenticated,
)
from headlight.wire.status_errors import TOO_LATE

# Options for the fields of a request or the arguments of the client.
OPTIONS = {
    "model": "--model",
    "outputs.attention.layers": "--layer",
    "outputs.pooled.dimensions": "--dimensions",
    "outputs.pooled.dtypes": "--dtype",
    "prompt": "--prompt",
    "prompt_name": "--prompt-name",
    "special_tokens": "--special-tokens",
    "target": "--target",
    "timeout": "--timeout",
}
INDEX = re.compile(r"\[(\d+)\]")


def advice(error: UsageError | OutputError | HeadlightError, arguments: argparse.Namespace) -> str:
    """Return an error on one line."""
    message = " ".join(
        (in_options(error, arguments) if isinstance(error, InvalidInput) else str(error)).split()
    )
    return "; ".join([message, *remedy(error, message, arguments)])


def remedy(error: Exception, message: str, arguments: argparse.Namespace) -> list[str]:
    """Return the remedy for an answer that is an error, if the message has none."""
    if isinstance(error, Unauthenticated):
        return ["give one by --token-file, HEADLIGHT_TOKEN_FILE or HEADLIGHT_TOKEN"]
    if isinstance(error, DeadlineExceeded):
        return ["give more time by --timeout"]
    if not isinstance(error, Overloaded):
        return []
    # This very command may fill the queue.
    late = (
        ["give more time by --timeout"]
        if arguments.timeout is not None and TOO_LATE in message
        else []
    )
    again = (
        []
        if error.retry_after_seconds is None
        else [f"try again in {error.retry_after_seconds:g} s"]
    )
    return [", or ".join([*late, *again])] if late or again else []


def in_options(error: InvalidInput, arguments: argparse.Namespace) -> str:
    """Return the problem of an input in terms of an option, a line of a file, or a whole file."""
    field, problem = INDEX.sub("", error.field), error.problem
    if field == "prompt_name":
        problem = problem.replace("use prompt", "use --prompt")
    if field in OPTIONS:
        return f"{OPTIONS[field]}: {problem}"
    index, read = INDEX.search(error.field), source(arguments)
    if field.startswith("inputs") and index and read is not None:
        if getattr(arguments, "skip_bad", None) is False:
            problem += ", or leave such lines out by --skip-bad"
        return (
            f"{read}: line {int(index[1]) + 1}: {problem}"
            if "texts" in arguments
            else f"{read}: {problem}"
        )
    return str(error)
