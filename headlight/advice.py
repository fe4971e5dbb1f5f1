"""What the command line says of an error: one line, in the words of its own options, with what to do about it."""

from __future__ import annotations

import argparse
import re

from headlight.errors import (
    DeadlineExceeded,
    HeadlightError,
    InvalidInput,
    MixedWeights,
    Overloaded,
    Unauthenticated,
    Unavailable,
)
from headlight.files import OutputError, UsageError, source
from headlight.status import TOO_LATE

# What a request, or the client, calls what an option says.
OPTIONS = {
    "outputs.attention.layers": "--layer",
    "outputs.pooled.dimensions": "--dimensions",
    "outputs.pooled.dtypes": "--dtype",
    "prompt": "--prompt",
    "prompt_name": "--prompt-name",
    "target": "--target",
    "timeout": "--timeout",
}
INDEX = re.compile(r"\[(\d+)\]")


def advice(error: UsageError | OutputError | HeadlightError, arguments: argparse.Namespace) -> str:
    """An error on one line."""
    message = " ".join((in_options(error, arguments) if isinstance(error, InvalidInput) else str(error)).split())
    if is_away(error):
        message = f"no answer from {arguments.target} ({message})"
    return "; ".join([message, *remedy(error, message, arguments)])


def is_away(error: Exception) -> bool:
    """Whether there was no answer. Where answers do not go together, the message says all."""
    return isinstance(error, Unavailable) and not isinstance(error, MixedWeights)


def remedy(error: Exception, message: str, arguments: argparse.Namespace) -> list[str]:
    """What to do, where the message does not say it."""
    if is_away(error):
        return ["start a service there, or name another by --target or HEADLIGHT_TARGET"]
    if isinstance(error, Unauthenticated):
        return ["give one by --token-file, HEADLIGHT_TOKEN_FILE or HEADLIGHT_TOKEN"]
    if isinstance(error, DeadlineExceeded):
        return ["give more time by --timeout"]
    if not isinstance(error, Overloaded):
        return []
    # What waits in the queue may be this very command's.
    late = ["give more time by --timeout"] if arguments.timeout is not None and TOO_LATE in message else []
    again = [] if error.retry_after_seconds is None else [f"try again in {error.retry_after_seconds:g} s"]
    return [", or ".join([*late, *again])] if late or again else []


def in_options(error: InvalidInput, arguments: argparse.Namespace) -> str:
    """What is wrong with an input: with an option, a line of a file, or what stands there whole."""
    field, problem = INDEX.sub("", error.field), error.problem
    if field == "prompt_name":
        problem = problem.replace("use prompt", "use --prompt")
    if field in OPTIONS:
        return f"{OPTIONS[field]}: {problem}"
    index, read = INDEX.search(error.field), source(arguments)
    if field.startswith("inputs") and index and read is not None:
        if getattr(arguments, "skip_bad", None) is False:
            problem += ", or leave such lines out by --skip-bad"
        return f"{read}: line {int(index[1]) + 1}: {problem}" if "texts" in arguments else f"{read}: {problem}"
    return str(error)
