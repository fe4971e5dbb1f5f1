"""`headlight compare`: its options, and passages with their evidence as text, JSON or a page."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, NamedTuple

from headlight.cli.attention.attend_command import add_page, write_page
from headlight.cli.compare.comparison_output import comparison_json, comparison_text
from headlight.cli.files import UsageError, screen
from headlight.cli.input_lines import read_inputs
from headlight.cli.output_files import count_text, draws_alone, write_result
from headlight.cli.shared_options import (
    add_connection,
    add_long_texts,
    add_output,
    add_special_tokens,
    add_text_field,
    command,
    connect,
)
from headlight.client.sync_client import Client
from headlight.comparison import EVIDENCE_METHODS, Comparison, EvidenceMethod, EvidenceSpec
from headlight.spec import Priority
from headlight.web.comparison_page import comparison_page

PASSAGES, BEST = 10, 3
NOTES = """\
Passages are lines of files or of standard input. The most similar come first,
with the parts that matched. This is for a list of passages; to search many
texts, keep their vectors of `headlight embed` in a vector database."""
EXAMPLES = (
    'headlight compare "join two paths" texts.txt',
    'headlight compare "join two paths" texts.txt --method occlusion --unit word',
    'headlight compare "join two paths" texts.txt --html compared.html',
)


class Passages(NamedTuple):
    """Passages of a command, and the place of each: "texts.txt, line 3"."""

    texts: list[str]
    places: list[str]

    def chosen(self, indices: Sequence[int]) -> Passages:
        """Return some of them, in this order."""
        return Passages([self.texts[at] for at in indices], [self.places[at] for at in indices])


def add_compare(commands: Any) -> None:
    """Add the command and its options."""
    made = command(
        commands,
        "compare",
        run_compare,
        "passages by similarity to a query, and why",
        arguments="QUERY [FILE]...",
        notes=NOTES,
        examples=EXAMPLES,
    )
    group = made.add_argument_group("input")
    group.add_argument("query", metavar="QUERY", help="the text to compare with")
    group.add_argument(
        "files",
        nargs="*",
        metavar="FILE",
        help=(
            "passages, one a line; from .jsonl or .ndjson, a JSON object a line; "
            "none: standard input"
        ),
    )
    add_text_field(group)
    add_evidence(made)
    group = made.add_argument_group("reading")
    for side in ("query", "passage"):
        either = group.add_mutually_exclusive_group()
        either.add_argument(
            f"--{side}-prompt-name",
            metavar="NAME",
            help=f"put a prompt of the model before each {side}; default: that for it, see info",
        )
        either.add_argument(
            f"--{side}-prompt",
            metavar="TEXT",
            help=f"put this before each {side}; '' for nothing, not even the model's default",
        )
    add_special_tokens(group)
    add_long_texts(group, several=True)
    add_page(add_output(made, ("text", "json")), "with all of this to explore")
    add_connection(made)


def add_evidence(made: argparse.ArgumentParser) -> None:
    """Add options for what is shown of the passages."""
    group = made.add_argument_group("evidence")
    group.add_argument(
        "--method",
        action="append",
        choices=[method.replace("_", "-") for method in EVIDENCE_METHODS],
        help=(
            "late-interaction (default): what the query's tokens match; occlusion: how far the "
            "score falls without a part, an encoding for each; attention: what the vector reads "
            "from, which is no explanation. Several times for several, in json and --html"
        ),
    )
    group.add_argument(
        "--unit", choices=("token", "word", "sentence"), default="word", help="parts; default: word"
    )
    group.add_argument(
        "--top",
        type=positive,
        default=PASSAGES,
        metavar="N",
        help=f"show the N most similar passages; default: {PASSAGES}",
    )
    group.add_argument(
        "--best",
        type=positive,
        default=BEST,
        metavar="K",
        help=f"mark the K parts of each passage with the largest weights; default: {BEST}",
    )


def positive(text: str) -> int:
    """Parse a whole number from 1."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be a whole number from 1")
    return number


def run_compare(arguments: argparse.Namespace) -> None:
    """Run `headlight compare`."""
    methods = methods_of(arguments)
    passages = passages_of(arguments)
    with connect(arguments) as client:
        comparison, passages = most_similar(client, arguments, methods, passages)
    texts = arguments.query, passages.texts, passages.places
    what = f"{count_text(len(passages.texts), 'passage')} beside a query"
    if is_paged(arguments):
        page = comparison_page(comparison, *texts, best=arguments.best)
        write_page(page, arguments.html, arguments.open, what)
    if not draws_alone(arguments):
        write_result(
            arguments,
            what=what,
            text=lambda: comparison_text(
                comparison, *texts, arguments.unit, arguments.best, *screen(arguments.out)
            ),
            json=lambda: comparison_json(comparison, *texts, arguments.unit, arguments.best),
        )


def methods_of(arguments: argparse.Namespace) -> list[EvidenceMethod]:
    """Return the methods to request; a page always shows what the query's tokens match.

    Raises UsageError: text shows one method.
    """
    named: list[Any] = [each.replace("-", "_") for each in arguments.method or ()]
    methods: list[EvidenceMethod] = list(dict.fromkeys(named)) or ["late_interaction"]
    if len(methods) > 1 and not draws_alone(arguments) and arguments.format != "json":
        raise UsageError("--method: text shows one method; use --format json or --html for several")
    if is_paged(arguments) and "late_interaction" not in methods:
        methods.append("late_interaction")
    return methods


def is_paged(arguments: argparse.Namespace) -> bool:
    """Return whether a page is requested."""
    return arguments.open or arguments.html is not None


def passages_of(arguments: argparse.Namespace) -> Passages:
    """Read the passages. Raises UsageError if there is none, or a file cannot be read."""
    passages = Passages([], [])
    for name in arguments.files or [None]:
        lines = read_inputs(
            argparse.Namespace(
                texts=[], file=name, text_field=arguments.text_field, token_ids=False
            )
        )
        passages.texts.extend(text for text in lines.texts if isinstance(text, str))
        passages.places.extend(f"{lines.name}, line {at + 1}" for at in range(len(lines.texts)))
    if not passages.texts:
        where = ", ".join(arguments.files) or "standard input"
        raise UsageError(f"{where}: holds no passages; give at least one, a line each")
    return passages


def most_similar(
    client: Client,
    arguments: argparse.Namespace,
    methods: Sequence[EvidenceMethod],
    passages: Passages,
) -> tuple[Comparison, Passages]:
    """Return the comparison with the passages to show, the most similar first.

    If there are more than that, all are compared without evidence first: evidence of passages that
    are not shown would cost as much.
    """
    top = arguments.top
    evidence = [EvidenceSpec(method=method, unit=arguments.unit) for method in methods]

    def compare(some: Passages, **outputs: Any) -> Comparison:
        arguments.places = some.places  # of errors
        return client.compare(
            arguments.query, some.texts, sort=True, **outputs, **reading_of(arguments)
        )

    if len(passages.texts) > top:
        ranked = [passage.index for passage in compare(passages)]
        passages = passages.chosen(ranked[:top])
    comparison = compare(passages, late_interaction=True, evidence=evidence)
    return comparison, passages


def reading_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return how to read the texts; passages of lines are bulk."""
    priority: Priority = arguments.priority or "bulk"
    return {
        "query_prompt_name": arguments.query_prompt_name,
        "query_prompt": arguments.query_prompt,
        "passage_prompt_name": arguments.passage_prompt_name,
        "passage_prompt": arguments.passage_prompt,
        "special_tokens": arguments.special_tokens,
        "truncate": arguments.truncate,
        "priority": priority,
    }
