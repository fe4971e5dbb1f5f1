"""The command line: `headlight COMMAND`, except serve, export, verify and tune.

Exit codes:

- 0: done.
- 1: the service failed, is unavailable, or does not know the token or the model; or writing the
  output failed, for example on a full disk (a retry may succeed).
- 2: wrong usage or input (the same command can never succeed).
- 4: done, but inputs that cannot be encoded were left out.
- 130: interrupted. 141: the reader closed the output. 143: ended by SIGTERM.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import importlib
import io
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import headlight
from headlight.bulk.signals import Terminated
from headlight.cli import result_output
from headlight.cli.admin_command import add_admin
from headlight.cli.attention.attend_command import add_attend
from headlight.cli.attention.heads_command import add_heads
from headlight.cli.cache_command import add_cache
from headlight.cli.compare.compare_command import add_compare
from headlight.cli.completion_command import add_completion
from headlight.cli.doctor.doctor_command import add_doctor
from headlight.cli.embed.embed_command import add_embed
from headlight.cli.error_advice import advice
from headlight.cli.files import OutputError, ReadError, UsageError, say, show, terminal_width
from headlight.cli.input_lines import texts_of
from headlight.cli.main import PARTS, RESOURCES
from headlight.cli.output_files import check_output, count_text, write_result
from headlight.cli.scoring.classify_command import add_classify
from headlight.cli.scoring.rerank_command import add_rerank
from headlight.cli.shared_options import (
    add_connection,
    add_output,
    add_prompt,
    add_role,
    add_texts,
    command,
    connect,
)
from headlight.command_parser import CommandParser, positive
from headlight.errors import HeadlightError, InvalidInput

COMMANDS = {
    "ask a service": (
        *("embed", "rerank", "classify", "compare", "attend", "heads", "tokens", "info", "models"),
    ),
    "be a service": ("serve", "export", "verify", "cache", "admin"),
    "this machine": ("doctor", "tune", "completion"),
}
FIRST = """first commands to try:
  headlight serve                                   # the shipped model
  headlight embed "join two paths" "parse a date"   # in another terminal
  headlight attend "join two paths" --open

`headlight COMMAND --help` shows options and examples of a command."""
# As a shell reports SIGINT, SIGPIPE and SIGTERM.
INTERRUPTED, READER_LEFT, TERMINATED = 128 + 2, 128 + 13, 128 + 15


def parser() -> CommandParser:
    """Return the parser of all commands."""
    top = CommandParser(
        prog="headlight",
        usage="headlight COMMAND [OPTION]...",
        description="Embeddings and attention: ask a Headlight service, or be one.",
        epilog=FIRST,
    )
    top.add_argument("--version", action="version", version=f"headlight {headlight.__version__}")
    commands = top.add_subparsers(
        required=True, prog="headlight", metavar="COMMAND", help=argparse.SUPPRESS
    )
    add_embed(commands)
    add_rerank(commands)
    add_classify(commands)
    add_compare(commands)
    add_attend(commands)
    add_heads(commands)
    add_tokens(commands)
    add_info(commands)
    add_models(commands)
    for name, part in PARTS.items():
        commands.add_parser(name, help=part.summary)  # `headlight.cli.main` runs them
    add_cache(commands)
    add_admin(commands)
    add_doctor(commands)
    add_completion(commands, top)
    summaries = {each.dest: each.help or "" for each in commands._choices_actions}
    top.description = f"{top.description}\n\n{command_table(summaries)}"
    return top


def command_table(summaries: Mapping[str, str]) -> str:
    """Return the commands with a line each, below what they are for."""
    width = max(map(len, summaries))
    parts = [
        "\n".join((f"{title}:", *(f"  {name:<{width}}  {summaries[name]}" for name in names)))
        for title, names in COMMANDS.items()
    ]
    return "\n\n".join(parts)


def add_tokens(commands: Any) -> None:
    """Add `headlight tokens` and its options."""
    made = command(
        commands,
        "tokens",
        run_tokens,
        "how texts fall into tokens",
        arguments="[TEXT]...",
        examples=(
            'headlight tokens "join two paths"',
            "headlight tokens --file texts.txt --out tokens.json",
        ),
    )
    add_texts(made)
    add_role(add_prompt(made))
    add_output(made, ("text", "json"))
    add_connection(made)


def add_info(commands: Any) -> None:
    """Add `headlight info` and its options."""
    made = command(
        commands,
        "info",
        run_info,
        "the model, its limits, its distance from PyTorch",
        examples=(
            "headlight info",
            "headlight info --out model.json",
            "headlight info --cpus 2 --resources --bundle minilm --attention off",
        ),
    )
    add_output(made, ("text", "json"))
    group = made.add_argument_group("resources")
    group.add_argument(
        "--resources",
        nargs=argparse.REMAINDER,
        metavar="OPTION",
        help=(
            "ask no service; print CPUs and memory, in YAML, of a container for `headlight serve "
            "OPTION...`, which exports a model first; all that follows is for `headlight serve`"
        ),
    )
    group.add_argument(
        "--cpus",
        type=positive,
        metavar="N",
        help="CPUs of the container; default: those of this machine",
    )
    add_connection(made)


def add_models(commands: Any) -> None:
    """Add `headlight models` and its options."""
    made = command(
        commands,
        "models",
        run_models,
        "the models of a service, and their names",
        examples=("headlight models", "headlight models --out models.json"),
    )
    add_output(made, ("text", "json"))
    add_connection(made, model=False)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code. Every error is one line on standard error."""
    arguments = argparse.Namespace()
    try:
        parse(argv, arguments)
        check_output(arguments)
        code: int | None = arguments.run(arguments)
    except (UsageError, ReadError, OutputError, HeadlightError) as error:
        say(advice(error, arguments))
        return 2 if isinstance(error, UsageError | InvalidInput) else 1
    except BrokenPipeError:
        return READER_LEFT
    except KeyboardInterrupt as interrupt:
        return TERMINATED if isinstance(interrupt, Terminated) else INTERRUPTED
    return code or 0


def parse(argv: Sequence[str] | None, arguments: argparse.Namespace) -> None:
    """Parse the arguments.

    Raises SystemExit, after its text is printed, for --help, --version and wrong usage.
    """
    output, words = io.StringIO(), sys.argv[1:] if argv is None else argv
    try:
        with contextlib.redirect_stdout(output):  # argparse hides write errors
            top = parser()
            if not words:
                top.print_help(sys.stderr)
                raise SystemExit(2)
            top.parse_args(words, arguments)
    except SystemExit:
        show(output.getvalue())
        raise


def run_tokens(arguments: argparse.Namespace) -> None:
    """Run `headlight tokens`."""
    texts = texts_of(arguments)
    with connect(arguments) as client:
        lists = client.tokenize(
            texts,
            prompt=arguments.prompt,
            prompt_name=arguments.prompt_name,
            special_tokens=arguments.special_tokens,
            role=arguments.role,
        )
    write_result(
        arguments,
        what=f"tokens of {count_text(len(texts), 'text')}",
        text=lambda: "\n\n".join(map(result_output.token_table, lists, texts)),
        json=lambda: {"tokens": [dataclasses.asdict(tokens) for tokens in lists]},
    )


def run_info(arguments: argparse.Namespace) -> None:
    """Run `headlight info`."""
    if arguments.resources is not None:
        run_resources(arguments)
        return
    if arguments.cpus is not None:
        raise UsageError("--cpus is for --resources; add it, or leave --cpus out")
    with connect(arguments) as client:
        model = client.model()
    write_result(
        arguments,
        what=f"description of {model.name}",
        text=lambda: result_output.info_text(model, terminal_width(arguments.out)),
        json=model.as_dict,
    )


def run_models(arguments: argparse.Namespace) -> None:
    """Run `headlight models`."""
    with connect(arguments) as client:
        models = client.list_models()
    write_result(
        arguments,
        what=count_text(len(models), "model"),
        text=lambda: result_output.models_table(models, terminal_width(arguments.out)),
        json=lambda: {"models": [dataclasses.asdict(each) for each in models]},
    )


def run_resources(arguments: argparse.Namespace) -> None:
    """Run `headlight info --resources`."""
    part = importlib.import_module(RESOURCES)
    resources, title = part.compute(arguments.resources, arguments.cpus, say)
    write_result(
        arguments,
        what="resources of a container",
        text=lambda: part.as_patch(resources, title),
        json=lambda: part.as_json(resources),
    )
