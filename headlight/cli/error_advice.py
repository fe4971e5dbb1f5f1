"""Error messages of the command line: one line, in terms of its options, with a remedy."""

from __future__ import annotations

import argparse

from headlight.cli.files import OutputError, ReadError, UsageError, source
from headlight.errors import (
    DeadlineExceeded,
    HeadlightError,
    Overloaded,
    Phrase,
    Reason,
    Unauthenticated,
)
from headlight.refusals import Edge, place_of

LESS = "choose a layer by --layer, or give fewer or shorter texts"
FEWER = "give fewer or shorter texts"
# The queue, or the work, may outlast the deadline.
LATE = (Reason.WAIT_BEYOND_DEADLINE, Reason.ALONE_BEYOND_DEADLINE)
ANOTHER = "name another service by --target"
TOKEN = "give one by --token-file, HEADLIGHT_TOKEN_FILE or HEADLIGHT_TOKEN"
# Fields of a request or arguments of the client, in the words of a command line.
FIELDS = {
    "evidence": "--method",
    "evidence[*].max_encodings": "--max-encodings",
    "evidence[*].method": "--method",
    "evidence[*].unit": "--unit",
    "model": "--model",
    "outputs.attention.layers": "--layer",
    "outputs.pooled.dimensions": "--dimensions",
    "outputs.pooled.dtypes": "--dtype",
    "outputs.pooled.normalize": "--normalize",
    "outputs.multi_vector": "--multi-vector",
    "outputs.multi_vector.dtype": "--dtype",
    "outputs.sparse": "--sparse",
    "outputs.sparse.min_weight": "--min-weight",
    "outputs.sparse.pieces": "--pieces",
    "outputs.sparse.top_k": "--top-k",
    "priority": "--priority",
    "role": "--role",
    "prompt": "--prompt",
    "prompt_name": "--prompt-name",
    "prompt_text": "--prompt",
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
    "top_n": "--top-n",
    "truncate": "--truncate",
    "truncation": "--truncate",
    # No option asks for these by name.
    "inputs": "the texts",
    "documents": "the documents",
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
    "inputs[*].head_mask": "--importance",
}
# Remedies and sentences that the contract words otherwise.
SENTENCES: dict[Reason | Phrase, str] = {
    Reason.CLASSIFIES_TOKENS: "has labels of each token, and none of a text",
    Reason.NO_RERANKER: (
        "gives {labels} scores, and reranking takes one; see `headlight classify`"
    ),
    Reason.NO_PROMPT_FOR: "is put before a text, but {what} are used unchanged; leave it out",
    Reason.NOT_TAKEN: "this model takes {names}; leave out --token-ids",
    Reason.PROMPT_NOT_UTF8: "and --prompt-name must be texts that UTF-8 can express",
    Reason.TAKES_IDS: "this model takes token ids, as of `headlight embed --token-ids`",
    Phrase.CLOSE_OR_ANOTHER: ANOTHER,
    Phrase.FEWER_INPUTS: FEWER,
    Phrase.FEWER_OR_SHORTER: FEWER,
    Phrase.INPUTS_FIT: "; the first {fitting} of these {among} texts would fit",
    Phrase.LEAVE_FIELD: "leave the option out",
    Phrase.LEAVE_NORMALIZE: "leave out --normalize and --no-normalize",
    Phrase.LESS_AT_ONCE: FEWER,
    Phrase.LESS_OF_A_REQUEST: LESS,
    Phrase.LESS_OF_ONE_MESSAGE: LESS,
    Phrase.LESS_OR_SLOWER: "give less at once, or ask for a longer --stall-seconds",
    Phrase.OLDER_THAN_CLIENT: "it is older than this command",
    Phrase.OLDER_THAN_CONTRACT: "is it older than this command?",
    Phrase.ONE_VERSION: "are both of one version?",
    Phrase.RESEND: "run the command again",
    Phrase.SEE_OUTPUTS: "`headlight info` lists what it gives",
    Phrase.SEND_TOKEN: TOKEN,
    Phrase.SHORTEN_OR_CUT: "shorten it, or cut it by --truncate end",
    Phrase.SPLIT: FEWER,
    Phrase.THIS_REPLICA: "the service",
    Phrase.TOKEN_REPLACED: TOKEN,
    Phrase.TRY_LATER: f"try again later, or {ANOTHER}",
    Phrase.TRY_SOON: f"try again soon, or {ANOTHER}",
    Phrase.USE_PROMPT: "use --prompt",
    Phrase.WAIT_OR_ANOTHER: f"wait, or {ANOTHER}",
}
PLACED = ("passages", "documents")  # read from several files
COMMAND_LINE = Edge(SENTENCES, FIELDS)


def advice(
    error: UsageError | ReadError | OutputError | HeadlightError, arguments: argparse.Namespace
) -> str:
    """Return an error on one line."""
    message = str(error)
    if isinstance(error, HeadlightError):
        message = named_by_option(error, arguments)
    message = " ".join(message.split())
    return "; ".join([message, *remedy(error, arguments)])


def remedy(error: Exception, arguments: argparse.Namespace) -> list[str]:
    """Return the remedy for an error other than a failed connection, if its message has none."""
    if isinstance(error, DeadlineExceeded):
        return ["give more time by --timeout"]
    if not isinstance(error, HeadlightError):
        return []
    reason = error.refusal.reason
    if isinstance(error, Unauthenticated):
        return [] if reason in (Reason.NO_TOKEN, Reason.WRONG_TOKEN) else [TOKEN]
    if not isinstance(error, Overloaded):
        return []
    # The queue may be full of this command's own requests.
    late = (
        ["give more time by --timeout"] if arguments.timeout is not None and reason in LATE else []
    )
    again = (
        []
        if error.retry_after_seconds is None
        else [f"try again in {error.retry_after_seconds:g} s"]
    )
    return [", or ".join([*late, *again])] if late or again else []


def named_by_option(error: HeadlightError, arguments: argparse.Namespace) -> str:
    """Return the problem in terms of an option, a text, a line of a file, or a whole file."""
    path, place = error.refusal.path, place_of(error.refusal.path)
    if place is None or path[0] not in ("inputs", *PLACED) or "head_mask" in path:
        return COMMAND_LINE.message(error.refusal)
    problem = reworded(error)
    if path[0] in PLACED:
        named = arguments.places[place] if "places" in arguments else COMMAND_LINE.name(path)
        return f"{named}: {problem}"
    if error.refusal.reason is Reason.NO_PROMPT_FOR:
        return f"{'--prompt' if arguments.prompt_name is None else '--prompt-name'}: {problem}"
    if getattr(arguments, "skip_bad", None) is False and source(arguments) is not None:
        problem += ", or leave such lines out by --skip-bad"
    return f"{input_text(place, arguments)}: {problem}"


def reworded(error: HeadlightError) -> str:
    """Return a problem with its remedy in the words of a command line."""
    return COMMAND_LINE.problem(error.refusal)


def input_text(index: int, arguments: argparse.Namespace) -> str:
    """Return the place of an input, as "texts.txt, line 3", "text 3" or "the text"."""
    name = source(arguments)
    if name is not None:
        return f"{name}, line {index + 1}" if "texts" in arguments else name
    several = len(getattr(arguments, "texts", ())) > 1
    return f"text {index + 1}" if several else "the text"
