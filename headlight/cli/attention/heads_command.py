"""`headlight heads`: its options, and the requests."""

from __future__ import annotations

import argparse
from typing import Any

from headlight.analysis.head_analysis import analyse
from headlight.cli.attention.heads_output import heads_arrays, heads_json, heads_text
from headlight.cli.files import terminal_width
from headlight.cli.input_lines import texts_of
from headlight.cli.output_files import count_text, write_result
from headlight.cli.shared_options import (
    add_connection,
    add_output,
    add_reading,
    add_texts,
    command,
    connect,
    reading,
)

EXAMPLES = (
    'headlight heads "for line in open(path): print(line)"',
    "headlight heads --file texts.txt --importance",
    "headlight heads --file texts.txt --patterns",
    "headlight heads --file texts.txt --out heads.npz",
)


def add_heads(commands: Any) -> None:
    """Add the command and its options."""
    made = command(
        commands,
        "heads",
        run_heads,
        "what each attention head does",
        arguments="[TEXT]...",
        examples=EXAMPLES,
    )
    add_texts(made)
    add_reading(made, several=True)
    add_output(made, ("text", "json", "npz"))
    made.add_argument(
        "--importance",
        action="store_true",
        help="also how far vectors move without each head: encodes the texts once more for each",
    )
    made.add_argument(
        "--patterns",
        action="store_true",
        help=(
            "also heads for the same token, matching brackets, punctuation and rare tokens: "
            "requests all weights"
        ),
    )
    add_connection(made)


def run_heads(arguments: argparse.Namespace) -> None:
    """Run `headlight heads`."""
    texts = texts_of(arguments)
    with connect(arguments) as client:
        analysis = analyse(
            client,
            texts,
            ablate=arguments.importance,
            patterns=arguments.patterns,
            **reading(arguments),
        )
    write_result(
        arguments,
        what=f"{count_text(len(analysis.heads), 'head')} over {count_text(len(texts), 'text')}",
        text=lambda: heads_text(analysis, terminal_width(arguments.out)),
        json=lambda: heads_json(analysis),
        arrays=lambda: heads_arrays(analysis),
    )
