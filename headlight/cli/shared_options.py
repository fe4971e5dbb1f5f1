"""Options that the commands share."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from headlight.bulk.signals import undisturbed
from headlight.cli.doctor.default_ports import wait_for_start
from headlight.cli.files import UsageError
from headlight.cli.output_files import SUFFIXES
from headlight.client.channel import DEFAULT_TARGET, READY_SECONDS, default_target
from headlight.client.sync_client import Client
from headlight.command_parser import CommandParser, examples_text
from headlight.interface.arguments import Reading
from headlight.spec import EMPTY_TEXTS, INPUT_ROLES, PRIORITIES, SPECIAL_TOKENS, TRUNCATE, Priority


def command(
    commands: Any,
    name: str,
    run: Callable[[argparse.Namespace], int | None],
    summary: str,
    *,
    arguments: str = "",
    notes: str = "",
    examples: Sequence[str],
) -> CommandParser:
    """Add a command.

    Args:
        commands: of the parser above it.
        name: of the command.
        run: called with the parsed arguments; returns the exit code, None: 0.
        summary: its line in the help of `headlight`.
        arguments: those that are no options, for the line of usage.
        notes: text below the summary in its own help, with its line ends.
        examples: command lines at the end of the help; a test runs each.
    """
    usage = " ".join(filter(None, ("headlight", name, arguments, "[OPTION]...")))
    made: CommandParser = commands.add_parser(
        name,
        help=summary,
        usage=usage,
        description=f"{summary[0].upper()}{summary[1:]}.{notes and chr(10) + chr(10)}{notes}",
        epilog=examples_text(examples),
    )
    made.set_defaults(run=run)
    return made


def add_output(made: argparse.ArgumentParser, formats: Sequence[str]) -> Any:
    """Add options for the form and the place of the result, and return their group.

    Args:
        made: the command.
        formats: that it has, the default first.
    """
    group = made.add_argument_group("output")
    endings = [ending for ending, form in SUFFIXES.items() if form in formats]
    group.add_argument(
        "--out",
        metavar="FILE",
        help=f"write to a file, in the format of its ending: {' '.join(endings)}",
    )
    group.add_argument(
        "--format", choices=formats, help=f"default: as --out ends, else {formats[0]}"
    )
    made.set_defaults(formats=formats)
    return group


def add_connection(made: argparse.ArgumentParser, *, model: bool = True) -> Any:
    """Add options for the service to ask, and return their group.

    Args:
        made: the command.
        model: whether it asks one model, which an option names.
    """
    group = made.add_argument_group("connection")
    group.add_argument(
        "--target",
        default=default_target(),
        metavar="HOST:PORT",
        help=f"service to ask; default: HEADLIGHT_TARGET, else {DEFAULT_TARGET}",
    )
    if model:
        group.add_argument(
            "--model",
            metavar="NAME",
            help=(
                "where the server has several: a name, or name@version; see `headlight models`; "
                "default: the server's"
            ),
        )
    made.set_defaults(model="")
    add_access(group)
    return group


def add_access(group: Any) -> None:
    """Add the options of a connection besides the address: its time, TLS and a token."""
    group.add_argument(
        "--timeout", type=float, metavar="SECONDS", help="give up after so long; default: never"
    )
    group.add_argument(
        "--tls", action="store_true", help="encrypt the connection; implied by the other --tls-..."
    )
    for option, metavar, purpose in (
        ("--tls-ca", "FILE", "trust these authorities, PEM; default: gRPC's"),
        ("--tls-cert", "FILE", "certificate to show, PEM; with --tls-key"),
        ("--tls-key", "FILE", "its key, PEM"),
        ("--tls-server-name", "NAME", "the server's certificate is for this, not for its address"),
        (
            "--token-file",
            "FILE",
            "token to send; default: HEADLIGHT_TOKEN_FILE, else the token in HEADLIGHT_TOKEN",
        ),
    ):
        group.add_argument(option, metavar=metavar, help=purpose)


def seconds(text: str) -> float:
    """Parse a span of seconds, which may be infinite."""
    value = float(text)
    if not value >= 0:
        raise argparse.ArgumentTypeError("must be a number of seconds from 0")
    return value


def add_texts(made: argparse.ArgumentParser) -> Any:
    """Add options for several texts, as arguments or lines, and return their group."""
    group = made.add_argument_group("input")
    group.add_argument(
        "texts",
        nargs="*",
        metavar="TEXT",
        help="none, and no --file: standard input, a text a line",
    )
    group.add_argument(
        "--file",
        metavar="FILE",
        help=(
            "texts from a file, one a line; from .jsonl or .ndjson, a JSON object a line; "
            "-: standard input"
        ),
    )
    add_text_field(group)
    return group


def add_text_field(group: Any) -> None:
    """Add the option for lines of JSON."""
    group.add_argument(
        "--text-field",
        metavar="NAME",
        help=(
            "lines are JSON objects, with their texts in this field; "
            "default of .jsonl and .ndjson: text"
        ),
    )


def add_reading(made: argparse.ArgumentParser, *, several: bool) -> None:
    """Add options for empty and long texts, roles, prompts and priority."""
    group = add_prompt(made)
    add_role(group)
    add_long_texts(group, several=several)
    group.add_argument(
        "--empty-texts",
        choices=EMPTY_TEXTS,
        help=(
            "refuse an empty text, or encode its prompt and special tokens; default: as the "
            "service does; for lines of a file and rows of a table: refuse"
        ),
    )


def add_long_texts(group: Any, *, several: bool) -> None:
    """Add options for truncation and priority."""
    long = "texts too long" if several else "a text too long"
    group.add_argument(
        "--truncate",
        choices=TRUNCATE,
        help=f"cut off this side of {long}, or refuse; default: as the service does, see info",
    )
    add_priority(group, several=several)


def add_priority(group: Any, *, several: bool) -> None:
    """Add the option for priority."""
    usual = (
        "bulk for texts from a file or standard input, else interactive"
        if several
        else "interactive"
    )
    group.add_argument(
        "--priority",
        choices=PRIORITIES,
        help=f"bulk lets everybody else's requests go first; default: {usual}",
    )


def add_prompt(made: argparse.ArgumentParser, what: str = "each text") -> Any:
    """Add options for prompts before `what` and special tokens, and return their group."""
    group = made.add_argument_group("reading")
    either = group.add_mutually_exclusive_group()
    either.add_argument(
        "--prompt-name", metavar="NAME", help=f"put a prompt of the model before {what}: see info"
    )
    either.add_argument(
        "--prompt",
        metavar="TEXT",
        help=f"put this before {what}; '' for nothing, not even the model's default",
    )
    add_special_tokens(group)
    return group


def add_role(group: Any) -> None:
    """Add the option for what texts are to a search."""
    group.add_argument(
        "--role",
        choices=INPUT_ROLES,
        help=(
            "what the texts are to a search: chooses the model's prompt, and how a model of many "
            "vectors reads them"
        ),
    )


def add_special_tokens(group: Any) -> None:
    """Add the option for special tokens in texts."""
    group.add_argument(
        "--special-tokens",
        choices=SPECIAL_TOKENS,
        help=(
            "special tokens that a text spells out, as [SEP]: parse them, or read plain text; "
            "default: as the service does"
        ),
    )


def reading(arguments: argparse.Namespace) -> Reading:
    """Return the values of the `add_reading` options; texts that are not arguments are bulk.

    Not all commands have all of these options.
    """
    listed = "texts" in arguments and not arguments.texts
    priority: Priority | None = arguments.priority or ("bulk" if listed else None)
    return Reading(
        truncate=arguments.truncate,
        prompt=arguments.prompt,
        prompt_name=arguments.prompt_name,
        special_tokens=arguments.special_tokens,
        empty_texts=getattr(arguments, "empty_texts", None),
        role=getattr(arguments, "role", None),
        priority=priority,
    )


class Undisturbed(Client):
    """Client that closes even if a second Ctrl-C is pressed, and whose arguments are options."""

    _spelling = staticmethod(lambda name: f"--{name.replace('_', '-')}")
    # No such retries: `embed` keeps its vectors, reports that it waits, and obeys --retry-for.
    _outlasts = None

    def close(self) -> None:
        with undisturbed():
            super().close()


ClientT = TypeVar("ClientT", bound=Undisturbed)


def connect(
    arguments: argparse.Namespace, concurrency: int = 4, wait_for_ready: float = READY_SECONDS
) -> Client:
    """Return a client for the common options, with up to `concurrency` calls at once.

    Raises:
        UsageError: an option cannot be used; for target and timeout, InvalidInput.
        DeadlineExceeded: a service on this machine takes longer to start than --timeout.
    """
    return connect_as(Undisturbed, arguments, concurrency, wait_for_ready)


def connect_as(
    kind: type[ClientT],
    arguments: argparse.Namespace,
    concurrency: int = 4,
    wait_for_ready: float = READY_SECONDS,
) -> ClientT:
    """Return a client of a kind; the rest is as for `connect`."""
    # A token is not an option: every user of a machine sees all command lines.
    token_file = arguments.token_file or os.environ.get("HEADLIGHT_TOKEN_FILE") or None
    token = None if token_file else os.environ.get("HEADLIGHT_TOKEN") or None
    wait_for_start(arguments.target, arguments.timeout)
    try:
        return kind(
            arguments.target,
            model=arguments.model,
            timeout=arguments.timeout,
            tls=arguments.tls,
            tls_ca=arguments.tls_ca,
            tls_cert=arguments.tls_cert,
            tls_key=arguments.tls_key,
            tls_server_name=arguments.tls_server_name,
            token=token,
            token_file=token_file,
            concurrency=concurrency,
            wait_for_ready=wait_for_ready,
        )
    except ValueError as error:
        raise UsageError(f"cannot connect: {error}") from None
