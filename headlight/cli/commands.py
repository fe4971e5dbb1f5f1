"""The command line: `headlight embed|attend|heads|tokens|info|cache|serve|export`.

Exit codes:

- 0: done.
- 1: the service failed, is unavailable, or does not know the token or the model; or writing the
  output failed, for example on a full disk (a retry may succeed).
- 2: wrong usage or input (the same command can never succeed).
- 130: interrupted. 141: the reader closed the output. 143: ended by SIGTERM.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import importlib.util
import io
from collections.abc import Iterator, Sequence
from pathlib import Path

import headlight
from headlight.analysis.plot import plot_attention
from headlight.archive import attention_arrays
from headlight.cli import result_output
from headlight.cli.cache_command import add_cache
from headlight.cli.embed.embed_command import add_embed
from headlight.cli.error_advice import advice
from headlight.cli.files import (
    OutputError,
    UsageError,
    read_whole,
    say,
    screen,
    show,
    write_result,
    writing,
)
from headlight.cli.heads_command import add_heads
from headlight.cli.input_lines import texts_of
from headlight.cli.main import PARTS
from headlight.cli.shared_options import (
    add_prompt,
    add_reading,
    add_texts,
    check_output,
    command,
    connect,
    draws_alone,
    reading,
)
from headlight.cli.signals import Terminated
from headlight.errors import HeadlightError, InvalidInput
from headlight.extras import remedy
from headlight.web.page import attention_page

# Exit codes by which a shell reports SIGINT, SIGPIPE and SIGTERM.
INTERRUPTED, READER_LEFT, TERMINATED = 128 + 2, 128 + 13, 128 + 15


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    top = argparse.ArgumentParser(
        prog="headlight",
        description="Embeddings and attention: ask a Headlight service, or be one.",
    )
    top.add_argument("--version", action="version", version=f"headlight {headlight.__version__}")
    commands = top.add_subparsers(
        required=True, metavar="embed|attend|heads|tokens|info|cache|serve|export"
    )

    add_embed(commands)

    attend = command(
        commands,
        "attend",
        run_attend,
        "attention weights of one text",
        formats=("text", "json", "npz"),
    )
    attend.add_argument(
        "text", nargs="?", metavar="TEXT", help="none, and no --file: all of standard input"
    )
    attend.add_argument("--file", metavar="F", help="the text is all of a file")
    attend.add_argument(
        "--layer",
        type=int,
        metavar="L",
        help="from 0, or negative from the last; without it an overview of all",
    )
    attend.add_argument(
        "--head",
        type=int,
        metavar="H",
        help="from 0, or negative from the last; without it their mean is drawn",
    )
    attend.add_argument("--png", metavar="F.png", help="draw a picture (needs the extra [plot])")
    attend.add_argument(
        "--html",
        metavar="F.html",
        help="write a page to explore all heads in, with any browser, offline",
    )
    add_reading(attend, several=False)

    add_heads(commands)

    tokens = command(
        commands, "tokens", run_tokens, "how texts fall into tokens", formats=("text", "json")
    )
    add_texts(tokens)
    add_prompt(tokens)

    command(
        commands,
        "info",
        run_info,
        "the model, its limits, its distance from PyTorch",
        formats=("text", "json"),
    )
    add_cache(commands)
    for name, (_, purpose) in PARTS.items():
        commands.add_parser(name, help=purpose)  # only for --help: `headlight.cli.main` runs them
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code. Every error is one line on standard error."""
    arguments = argparse.Namespace()
    try:
        parse(argv, arguments)
        check_output(arguments)
        arguments.run(arguments)
    except (UsageError, OutputError, HeadlightError) as error:
        say(advice(error, arguments))
        return 2 if isinstance(error, UsageError | InvalidInput) else 1
    except BrokenPipeError:
        return READER_LEFT
    except KeyboardInterrupt as interrupt:
        return TERMINATED if isinstance(interrupt, Terminated) else INTERRUPTED
    return 0


def parse(argv: Sequence[str] | None, arguments: argparse.Namespace) -> None:
    """Parse the arguments.

    Raises SystemExit, after its text is printed, for --help, --version and wrong usage.
    """
    said = io.StringIO()  # argparse ignores write errors; `show` raises them
    try:
        with contextlib.redirect_stdout(said):
            parser().parse_args(argv, arguments)
    except SystemExit:
        show(said.getvalue())
        raise


def run_attend(arguments: argparse.Namespace) -> None:
    """Run `headlight attend`: write a picture and a page, if requested, and numbers or a map.

    With a picture or a page, numbers or a map need --format or --out.
    """
    if arguments.png is not None and importlib.util.find_spec("matplotlib") is None:
        raise UsageError(f"--png needs matplotlib: {remedy('plot')}")
    text, head = read_whole(arguments.text, arguments.file), arguments.head
    layers = None if arguments.layer is None else [arguments.layer]
    if layers is None and head is not None and not arguments.html:
        layers = [-1]
    with connect(arguments) as client:
        attention = client.attend(text, layers, **reading(arguments))
    if head is not None:
        with refusing("--head"):
            attention.head_number(head)  # the number of heads is known only now
    if arguments.html:
        with refusing("--html"), writing(arguments.html):
            Path(arguments.html).write_text(
                attention_page(attention, text, head=head), encoding="utf-8"
            )
    if head is not None and arguments.layer is None:
        # The page has all layers. All other outputs have the last one.
        attention = dataclasses.replace(
            attention, weights=attention.weights[-1:], layers=attention.layers[-1:]
        )
    if arguments.png:
        with refusing("--png"), writing(arguments.png):
            plot_attention(attention, arguments.png, head=head, text=text)
    if not draws_alone(arguments):
        write_result(
            arguments,
            text=lambda: result_output.attention_text(
                attention, text, head, *screen(arguments.out)
            ),
            json=lambda: result_output.attention_json(attention, head),
            arrays=lambda: attention_arrays(attention, head),
        )


@contextlib.contextmanager
def refusing(option: str) -> Iterator[None]:
    """Raise UsageError that names an option if the block raises ValueError."""
    try:
        yield
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from None


def run_tokens(arguments: argparse.Namespace) -> None:
    """Run `headlight tokens`."""
    texts = texts_of(arguments)
    with connect(arguments) as client:
        lists = client.tokenize(
            texts,
            prompt=arguments.prompt,
            prompt_name=arguments.prompt_name,
            special_tokens=arguments.special_tokens,
        )
    write_result(
        arguments,
        text=lambda: "\n\n".join(map(result_output.token_table, lists, texts)),
        json=lambda: {"tokens": [dataclasses.asdict(tokens) for tokens in lists]},
    )


def run_info(arguments: argparse.Namespace) -> None:
    """Run `headlight info`."""
    with connect(arguments) as client:
        model = client.model()
    write_result(arguments, text=lambda: result_output.info_text(model), json=model.as_dict)
