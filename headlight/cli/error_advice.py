"""Error messages of the command line: one line, in terms of its options, with a remedy."""

from __future__ import annotations

import argparse
import re

from headlight.cli.files import OutputError, ReadError, UsageError, source
from headlight.errors import (
    DeadlineExceeded,
    HeadlightError,
    InvalidInput,
    Overloaded,
    Unauthenticated,
)
from headlight.spec import HOW_TO_TRUNCATE
from headlight.wire.status_errors import FIELD, TOO_LATE

LESS = "choose a layer by --layer, or give fewer or shorter texts"
FEWER = "give fewer or shorter texts"
ANOTHER = "name another service by --target"
TOKEN = "give one by --token-file, HEADLIGHT_TOKEN_FILE or HEADLIGHT_TOKEN"
# Fields of a request or arguments of the client, in the words of a command line.
FIELDS = {
    "evidence": "--method",
    "evidence.method": "--method",
    "evidence.unit": "--unit",
    "model": "--model",
    "outputs.attention.layers": "--layer",
    "outputs.pooled.dimensions": "--dimensions",
    "outputs.pooled.dtypes": "--dtype",
    "outputs.pooled.normalize": "--normalize",
    "priority": "--priority",
    "prompt": "--prompt",
    "prompt_name": "--prompt-name",
    "passage_prompt": "--passage-prompt",
    "passage_prompt_name": "--passage-prompt-name",
    "passage_prompt_text": "--passage-prompt",
    "query_prompt": "--query-prompt",
    "query_prompt_name": "--query-prompt-name",
    "query_prompt_text": "--query-prompt",
    "empty_texts": "--empty-texts",
    "special_tokens": "--special-tokens",
    "target": "--target",
    "timeout": "--timeout",
    "truncate": "--truncate",
    "truncation": "--truncate",
    # No option asks for these by name.
    "inputs": "the texts",
    "passages": "the passages",
    "query": "the query",
    "texts": "the texts",
    "outputs": "the request",
    "outputs.attention": "attention",
    "outputs.pooled": "the vectors",
    "outputs.token_info": "the tokens",
    "outputs.spans": "--spans",
    "outputs.spans.beyond_max_length": "--beyond-max-length",
    "outputs.spans.dimensions": "--dimensions",
    "outputs.spans.dtype": "--dtype",
    "outputs.spans.pooling": "--spans",
    "outputs.spans.sentences": "--spans sentences",
    "outputs.spans.windows": "--spans",
    "outputs.spans.windows.overlap": "--spans OVERLAP",
    "outputs.spans.windows.size": "--spans N",
    "head_mask": "--importance",
}
CUT_IT = "shorten it, or cut it by --truncate end"
# Remedies in the words of the wire or of the library, and those of a command line.
PHRASES = {
    f"shorten it or ask for truncation, {HOW_TO_TRUNCATE}": CUT_IT,
    "shorten it or ask for truncation": CUT_IT,
    HOW_TO_TRUNCATE: "by --truncate end",
    "ask for fewer layers or inputs, reduce attention, or use EncodeStream": LESS,
    "ask for fewer layers or inputs per request, or reduce attention": LESS,
    "send fewer or shorter inputs": FEWER,
    "send fewer inputs per request": FEWER,
    "split the request": FEWER,
    "send or ask for less at once": FEWER,
    "see the contract, or leave the field out": "leave the option out",
    "GetModel lists the outputs": "`headlight info` lists what it gives",
    "and prompt_name must be texts": "and --prompt-name must be texts",
    "choose none, or use prompt": "it has none; use --prompt",
    "use prompt_text": "use --prompt",
    "use prompt": "use --prompt",
    "leave normalize out": "leave out --normalize and --no-normalize",
    "send it as metadata or a header, `authorization: Bearer TOKEN`": TOKEN,
    "this server's; was it replaced?": "this server's",
    "is the client built from this server's .proto?": "are both of one version?",
    "it is older than the client": "it is older than this command",
    "inputs would fit": "texts would fit",
    "is it older than the contract of the client?": "is it older than this command?",
    "close idle streams, or try another replica": ANOTHER,
    "this replica": "the service",
    "wait, or ask another replica": f"wait, or {ANOTHER}",
    "try again soon, or another replica": f"try again soon, or {ANOTHER}",
    "try another replica": ANOTHER,
    "try another, or this one later": f"try again later, or {ANOTHER}",
    "send again, on a new stream, what is unanswered": "run the command again",
    "send ": "give ",
}
# The kind of input that a model takes, and how this command line gives it.
KINDS = {
    "this model takes ids": "this model takes token ids, as of `headlight embed --token-ids`",
    "this model takes text": "this model takes text; leave out --token-ids",
}
INDEX = re.compile(r"\[(\d+)\]")
OF_PROMPT = "a prompt is"


def advice(
    error: UsageError | ReadError | OutputError | HeadlightError, arguments: argparse.Namespace
) -> str:
    """Return an error on one line."""
    message = str(error)
    if isinstance(error, HeadlightError):
        message = in_options(error, arguments)
    message = " ".join(message.split())
    return "; ".join([message, *remedy(error, message, arguments)])


def remedy(error: Exception, message: str, arguments: argparse.Namespace) -> list[str]:
    """Return the remedy for an error other than a failed connection, if its message has none."""
    if isinstance(error, Unauthenticated):
        return [] if TOKEN in message else [TOKEN]
    if isinstance(error, DeadlineExceeded):
        return ["give more time by --timeout"]
    if not isinstance(error, Overloaded):
        return []
    # The queue may be full of this command's own requests.
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


def in_options(error: HeadlightError, arguments: argparse.Namespace) -> str:
    """Return the problem in terms of an option, a text, a line of a file, or a whole file."""
    found = FIELD.fullmatch(error.message)
    field, problem = (found["field"], found["problem"]) if found else ("", error.message)
    if isinstance(error, InvalidInput):
        field, problem = error.field, error.problem
    problem, index = in_words(problem), INDEX.search(field)
    if field.startswith("inputs[") and index:
        if problem.startswith(OF_PROMPT):
            named = "--prompt" if arguments.prompt_name is None else "--prompt-name"
            return problem.replace(OF_PROMPT, f"{named}: is")
        if getattr(arguments, "skip_bad", None) is False and source(arguments) is not None:
            problem += ", or leave such lines out by --skip-bad"
        return f"{input_text(int(index[1]), arguments)}: {problem}"
    field = field.removesuffix(".text")
    if field.startswith("passages[") and index and "places" in arguments:
        return f"{arguments.places[int(index[1])]}: {problem}"
    place = FIELDS.get(INDEX.sub("", field), field)
    return f"{place}: {problem}" if place else problem


def in_words(problem: str) -> str:
    """Return a problem with its remedy in the words of a command line."""
    for words, ours in PHRASES.items():
        problem = problem.replace(words, ours)
    return KINDS.get(problem, problem)


def input_text(index: int, arguments: argparse.Namespace) -> str:
    """Return the place of an input, as "texts.txt, line 3", "text 3" or "the text"."""
    name = source(arguments)
    if name is not None:
        return f"{name}, line {index + 1}" if "texts" in arguments else name
    several = len(getattr(arguments, "texts", ())) > 1
    return f"text {index + 1}" if several else "the text"
