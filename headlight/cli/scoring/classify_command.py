"""`headlight classify`: its options, and labels of texts as text or JSON."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Sequence
from typing import Any

from headlight.cli.embed.embed_options import add_local, encoder_of
from headlight.cli.files import UsageError
from headlight.cli.input_lines import texts_of
from headlight.cli.output_files import count_text, write_result
from headlight.cli.scoring.rerank_command import CALLS_AT_ONCE, score_json, score_text
from headlight.cli.shared_options import (
    add_connection,
    add_long_texts,
    add_output,
    add_prompt,
    add_texts,
    command,
    reading,
    seconds,
)
from headlight.cli.tables.loading import table_command
from headlight.cli.tables.table_options import add_tables, is_table
from headlight.client.channel import READY_SECONDS
from headlight.command_parser import positive
from headlight.printable import escaped
from headlight.results import LabelScore, ModelRef

RETRY_SECONDS = 60.0  # of tables
EXAMPLES = (
    'headlight classify "join two paths" "parse a date"',
    "headlight classify --file texts.txt --top-n 1 --out labels.json",
    "headlight classify docs.parquet --text-column body --id-column id --out labels.parquet",
)


def add_classify(commands: Any) -> None:
    """Add the command and its options."""
    made = command(
        commands,
        "classify",
        run_classify,
        "labels of texts, the likeliest first",
        arguments="[TEXT]...",
        examples=EXAMPLES,
    )
    add_texts(made).add_argument(
        "--top-n", type=positive, metavar="N", help="show the N likeliest; default: all labels"
    )
    add_long_texts(add_prompt(made), several=True)
    add_output(made, ("text", "json", "parquet"))
    group = add_tables(made)
    group.add_argument(
        "--pair-column",
        metavar="NAME",
        help=(
            "texts of this column are the second ones of pairs, as documents for queries; "
            "also for models that rerank"
        ),
    )
    group.add_argument(
        "--progress",
        action=argparse.BooleanOptionalAction,
        help="tell on standard error how many rows are done; default: in a terminal",
    )
    group.add_argument(
        "--retry-for",
        type=seconds,
        metavar="SECONDS",
        help=(
            "wait so long for a service that is away or overloaded, since it last answered; "
            f"default: {RETRY_SECONDS:g}"
        ),
    )
    add_local(made)
    add_connection(made)


def run_classify(arguments: argparse.Namespace) -> int:
    """Run `headlight classify`. Return the exit code."""
    if is_table(arguments):
        if arguments.top_n is not None:
            raise UsageError("--top-n: a table has all labels; leave it out")
        return int(table_command("classify").classify_table(arguments, RETRY_SECONDS))
    texts = texts_of(arguments)
    with encoder_of(arguments, CALLS_AT_ONCE, READY_SECONDS) as encoder:
        scores = encoder.classify(texts, **reading(arguments))
        ref = encoder.model().ref
    labels = [each[: arguments.top_n] for each in scores]
    write_result(
        arguments,
        what=f"labels of {count_text(len(texts), 'text')}",
        text=lambda: labels_text(texts, labels),
        json=lambda: labels_json(texts, labels, ref),
    )
    return 0


def labels_text(texts: Sequence[str], labels: Sequence[Sequence[LabelScore]]) -> str:
    """Return each text with a line for each of its labels."""
    return "\n\n".join(
        "\n".join(
            [
                " ".join(escaped(text).split()),
                *(f"{score_text(each.score)}  {escaped(each.label)}" for each in scored),
            ]
        )
        for text, scored in zip(texts, labels, strict=True)
    )


def labels_json(
    texts: Sequence[str], labels: Sequence[Sequence[LabelScore]], ref: ModelRef
) -> dict[str, object]:
    """Return the labels of each text."""
    results = [
        {"text": text, "labels": [{"label": each.label, **score_json(each)} for each in scored]}
        for text, scored in zip(texts, labels, strict=True)
    ]
    return {"model": dataclasses.asdict(ref), "results": results}
