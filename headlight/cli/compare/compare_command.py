"""`headlight compare`: its options, and passages with their evidence as text, JSON or a page."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from headlight.cli.attention.attend_command import add_page, write_page
from headlight.cli.compare.comparison_output import (
    RankedContrast,
    comparison_json,
    comparison_text,
)
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
from headlight.command_parser import positive
from headlight.comparison import Comparison, EvidenceSpec
from headlight.evidence_methods import EVIDENCE_METHODS, METHODS, EvidenceMethod
from headlight.spec import Priority, ScoreOutput
from headlight.web.comparison_page import comparison_page

PASSAGES, BEST = 10, 3
NOTES = """\
Passages are lines of files or of standard input. The most similar come first,
with the parts that matched. This is for a list of passages; to search many
texts, keep their vectors of `headlight embed` in a vector database.
A model that reranks reads the query and each passage as a pair: the score is
the pair's logit, and parts of the query are marked as well."""
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
            "span: how similar each part is to the query, the best to find an answer; "
            "contributions: its part of the score; both of a model that pools by mean. "
            "late-interaction (default): what the query's tokens match; occlusion (default of a "
            "model that reranks): how far the score falls without a part, an encoding for each; "
            "attention: what the vector reads from, or the query's tokens of a pair, which is no "
            "explanation; terms (default of a sparse encoder): what each shared term adds to the "
            "score. Several times for several, in json and --html"
        ),
    )
    group.add_argument(
        "--per-token",
        action="store_true",
        help="divide weights that are sums by the tokens of the part: not of span and terms",
    )
    group.add_argument(
        "--distinct",
        action="store_true",
        help="weigh down what the passages share: of late-interaction and contributions",
    )
    group.add_argument(
        "--max-encodings",
        type=positive,
        metavar="N",
        help=(
            "of occlusion: hide at most N parts of each passage, sentences first, then the words "
            "or tokens of the best"
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
    group.add_argument(
        "--contrast",
        type=positive,
        metavar="N",
        help=(
            "also show which parts of the query lift the best passage above the N-th, by the "
            "first method that weighs them; of a model that reranks by occlusion"
        ),
    )


def run_compare(arguments: argparse.Namespace) -> None:
    """Run `headlight compare`."""
    named = named_methods(arguments)
    passages = passages_of(arguments)
    with connect(arguments) as client:
        output = client.model().score_output
        methods = methods_of(arguments, named, output)
        comparison, passages = most_similar(client, arguments, methods, passages, output)
    contrast = contrast_of(comparison, arguments.contrast, contrasting(methods, output))
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
                comparison,
                *texts,
                arguments.unit,
                arguments.best,
                *screen(arguments.out),
                contrast=contrast,
            ),
            json=lambda: comparison_json(
                comparison, *texts, arguments.unit, arguments.best, contrast=contrast
            ),
        )


def named_methods(arguments: argparse.Namespace) -> list[EvidenceMethod]:
    """Return the methods that the command names. Raises UsageError: text shows one method."""
    named: list[Any] = [each.replace("-", "_") for each in arguments.method or ()]
    methods: list[EvidenceMethod] = list(dict.fromkeys(named))
    if arguments.max_encodings is not None and arguments.unit == "sentence":
        raise UsageError("--max-encodings: is of --unit word or token; leave it out for sentences")
    if arguments.per_token and methods and not any(METHODS[each].sums for each in methods):
        raise UsageError("--per-token: is of methods whose weights are sums; leave it out of span")
    if len(methods) > 1 and not draws_alone(arguments) and arguments.format != "json":
        raise UsageError("--method: text shows one method; use --format json or --html for several")
    return methods


def methods_of(
    arguments: argparse.Namespace, named: Sequence[EvidenceMethod], output: ScoreOutput
) -> list[EvidenceMethod]:
    """Return the methods to request; a page always shows what the query's tokens or terms match.

    Args:
        arguments: of the command.
        named: the methods that it names.
        output: the one that gives the model's score.

    Raises:
        UsageError: the model cannot have them.
    """
    if output == "scores":
        for each in named:
            if not METHODS[each].of_pairs:
                raise UsageError(
                    f"--method {each.replace('_', '-')}: this model reads the query and a passage "
                    "together; use occlusion or attention"
                )
        methods = [*named] or ["occlusion"]
        return methods if arguments.contrast is None else [*dict.fromkeys([*methods, "occlusion"])]
    usual: EvidenceMethod = "terms" if output == "sparse" else "late_interaction"
    methods = [*named] or [usual]
    if is_paged(arguments) and usual not in methods:
        methods.append(usual)
    if arguments.contrast is not None and contrasting(methods, output) is None:
        raise UsageError(
            "--contrast: attention of a passage does not depend on the query; "
            "add --method contributions or occlusion"
        )
    return methods


def contrasting(methods: Sequence[EvidenceMethod], output: ScoreOutput) -> EvidenceMethod | None:
    """Return the method whose weights of the query a contrast takes; None: there is none."""
    if output == "scores":
        return "occlusion"
    return next((each for each in methods if METHODS[each].query or each == "terms"), None)


def contrast_of(
    comparison: Comparison, rank: int | None, method: EvidenceMethod | None
) -> RankedContrast | None:
    """Return why the best passage is above the one of a rank; None: it is not requested.

    Raises UsageError: there is no such passage.
    """
    if rank is None or method is None:
        return None
    if not 2 <= rank <= len(comparison):
        raise UsageError(
            f"--contrast {rank}: compares the best passage with a later one, and "
            f"{count_text(len(comparison), 'passage')} are shown; name 2 to {len(comparison)}"
        )
    best, other = comparison.passages[0], comparison.passages[rank - 1]
    contrast = comparison.contrast(best, other, method=method)
    return RankedContrast(rank, best.score, other.score, contrast, method)


def is_paged(arguments: argparse.Namespace) -> bool:
    """Return whether a page is requested."""
    return arguments.open or arguments.html is not None


def passages_of(arguments: argparse.Namespace, what: str = "passages") -> Passages:
    """Read the passages. Raises UsageError if there is none, or a file cannot be read.

    `what`: their name in messages.
    """
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
        raise UsageError(f"{where}: holds no {what}; give at least one, a line each")
    return passages


def most_similar(
    client: Client,
    arguments: argparse.Namespace,
    methods: Sequence[EvidenceMethod],
    passages: Passages,
    output: ScoreOutput,
) -> tuple[Comparison, Passages]:
    """Return the comparison with the passages to show, the most similar first."""
    evidence = [
        EvidenceSpec(
            method=method,
            unit=arguments.unit,
            per_token=arguments.per_token and METHODS[method].sums,
            max_encodings=arguments.max_encodings if method == "occlusion" else None,
            query_units=arguments.contrast is not None and METHODS[method].query,
            distinct=arguments.distinct and METHODS[method].distinct,
        )
        for method in methods
    ]

    def compare(some: Passages, **outputs: Any) -> Comparison:
        arguments.places = some.places  # of errors
        return client.compare(
            arguments.query, some.texts, sort=True, **outputs, **reading_of(arguments)
        )

    return best_explained(
        compare,
        passages,
        arguments.top,
        late_interaction=output in ("pooled", "multi_vector"),
        evidence=evidence,
    )


def best_explained(
    compare: Callable[..., Comparison], passages: Passages, top: int | None, **outputs: Any
) -> tuple[Comparison, Passages]:
    """Return the comparison with the passages of the highest scores, and these passages.

    If there are more than `top`, all are compared without evidence first: evidence of passages that
    are not shown would cost as much.

    Args:
        compare: compares with some passages, by falling score; takes the outputs as keywords.
        passages: all of them.
        top: the number to return; None: all.
        outputs: keywords of `compare` for evidence.
    """
    if top is not None and len(passages.texts) > top:
        ranked = [passage.index for passage in compare(passages)]
        passages = passages.chosen(ranked[:top])
    return compare(passages, **outputs), passages


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
