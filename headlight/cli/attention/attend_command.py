"""`headlight attend`: its options, and attention as text, numbers, a picture or a page."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import importlib.util
import tempfile
import webbrowser
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from headlight.analysis.plot import plot_attention
from headlight.archive import attention_arrays
from headlight.cli.files import UsageError, read_whole, say, screen, writing
from headlight.cli.output_files import count_text, draws_alone, say_written, write_result
from headlight.cli.result_output import attention_json, attention_text
from headlight.cli.shared_options import (
    add_connection,
    add_output,
    add_reading,
    command,
    connect,
    reading,
)
from headlight.extras import remedy
from headlight.results import Attention
from headlight.web.page import attention_page

EXAMPLES = (
    'headlight attend "for line in open(path): print(line)" --open',
    'headlight attend "join two paths" --layer 2 --head 0',
    "headlight attend --file text.txt --out attention.npz --html heads.html",
)


def add_attend(commands: Any) -> None:
    """Add the command and its options."""
    made = command(
        commands,
        "attend",
        run_attend,
        "attention weights of one text",
        arguments="[TEXT]",
        examples=EXAMPLES,
    )
    given = made.add_argument_group("input")
    given.add_argument(
        "text", nargs="?", metavar="TEXT", help="none, and no --file: all of standard input"
    )
    given.add_argument("--file", metavar="FILE", help="the text is all of a file")
    chosen = made.add_argument_group("heads")
    chosen.add_argument(
        "--layer",
        type=int,
        metavar="L",
        help="from 0, or negative from the last; without it an overview of all",
    )
    chosen.add_argument(
        "--head",
        type=int,
        metavar="H",
        help="from 0, or negative from the last; without it their mean is drawn",
    )
    add_reading(made, several=False)
    output = add_output(made, ("text", "json", "npz"))
    add_page(output, "to explore all heads in")
    output.add_argument("--png", metavar="F.png", help="draw a picture (needs the extra [plot])")
    add_connection(made)


def add_page(output: Any, purpose: str) -> None:
    """Add options for a page."""
    output.add_argument(
        "--html",
        metavar="F.html",
        help=f"write a page {purpose}, with any browser, offline",
    )
    output.add_argument(
        "--open",
        action="store_true",
        help="open that page in the browser; without --html it is a temporary file",
    )


def run_attend(arguments: argparse.Namespace) -> None:
    """Run `headlight attend`: a picture, a page, or both; else, or on request, numbers or a map."""
    if arguments.png is not None and importlib.util.find_spec("matplotlib") is None:
        raise UsageError(f"--png needs matplotlib: {remedy('plot')}")
    text, head = read_whole(arguments.text, arguments.file), arguments.head
    paged = arguments.open or arguments.html is not None
    layers = None if arguments.layer is None else [arguments.layer]
    if layers is None and head is not None and not paged:
        layers = [-1]
    with connect(arguments) as client:
        attention = client.attend(text, layers, **reading(arguments))
    if head is not None:
        with refusing("--head"):
            attention.head_number(head)  # the number of heads is known only now
    if paged:
        with refusing("--html"):
            page = attention_page(attention, text, head=head)
        write_page(page, arguments.html, arguments.open, size_of(attention, None))
    if head is not None and arguments.layer is None:
        # The page has all layers. All other outputs have the last one.
        attention = dataclasses.replace(
            attention, weights=attention.weights[-1:], layers=attention.layers[-1:]
        )
    if arguments.png:
        with refusing("--png"), writing(arguments.png):
            plot_attention(attention, arguments.png, head=head, text=text)
        say_written(arguments.png, size_of(attention, head))
    if not draws_alone(arguments):
        write_result(
            arguments,
            what=size_of(attention, head),
            text=lambda: attention_text(attention, text, head, *screen(arguments.out)),
            json=lambda: attention_json(attention, head),
            arrays=lambda: attention_arrays(attention, head),
        )


def write_page(page: str, name: str | None, opens: bool, what: str) -> None:
    """Write a page, to a temporary file if no name is given, and perhaps open it."""
    if name is None:
        # Readable by this user alone: it holds the text.
        with (
            writing("temporary page"),
            tempfile.NamedTemporaryFile(
                "w", encoding="utf-8", prefix="headlight-", suffix=".html", delete=False
            ) as file,
        ):
            file.write(page)
        name = file.name
    else:
        with writing(name):
            Path(name).write_text(page, encoding="utf-8")
    say_written(name, what)
    if opens and not opened_in_browser(name):
        say(f"no browser could be opened here; open {name} in one")


def opened_in_browser(name: str) -> bool:
    """Open a page in the browser of this user, and return whether there is one."""
    try:
        return webbrowser.open(Path(name).resolve().as_uri())
    except webbrowser.Error:
        return False


def size_of(attention: Attention, head: int | None) -> str:
    """Return layers, heads and tokens, as "4 layers of 8 heads, 14 tokens"."""
    layers = count_text(len(attention.layers), "layer")
    heads = count_text(attention.heads if head is None else 1, "head")
    return f"{layers} of {heads}, {count_text(len(attention.tokens), 'token')}"


@contextlib.contextmanager
def refusing(option: str) -> Iterator[None]:
    """Raise UsageError in the name of an option if the block refuses a value."""
    try:
        yield
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from None
