"""Options that the commands share."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from headlight.cli.files import STANDARD_INPUT, UsageError, check_writable, is_same_file, source
from headlight.cli.signals import undisturbed
from headlight.client.channel import READY_SECONDS, default_target
from headlight.client.sync_client import Client
from headlight.interface.arguments import Reading
from headlight.spec import PRIORITIES, SPECIAL_TOKENS, VECTOR_BITS, Priority, VectorType

WRITTEN = ("--out", "--png", "--html")
READ = ("--file", "--token-file", "--tls-ca", "--tls-cert", "--tls-key")


def command(
    commands: Any,
    name: str,
    run: Callable[[argparse.Namespace], None],
    summary: str,
    formats: Sequence[str],
) -> argparse.ArgumentParser:
    """Add a command with the common options."""
    made: argparse.ArgumentParser = commands.add_parser(
        name, help=summary, description=summary[0].upper() + summary[1:]
    )
    made.set_defaults(run=run)
    made.add_argument(
        "--target",
        default=default_target(),
        metavar="HOST:PORT",
        help="default: HEADLIGHT_TARGET, else %(default)s",
    )
    made.add_argument("--model", default="", metavar="NAME", help="where the server has several")
    made.add_argument(
        "--tls", action="store_true", help="encrypt the connection; implied by the other --tls-..."
    )
    for option, metavar, purpose in (
        ("--tls-ca", "F", "trust these authorities, PEM; default: gRPC's"),
        ("--tls-cert", "F", "certificate to show, PEM; with --tls-key"),
        ("--tls-key", "F", "its key, PEM"),
        ("--tls-server-name", "NAME", "the server's certificate is for this, not for --target"),
        (
            "--token-file",
            "F",
            "token to send; default: HEADLIGHT_TOKEN_FILE, else the token in HEADLIGHT_TOKEN",
        ),
    ):
        made.add_argument(option, metavar=metavar, help=purpose)
    made.add_argument(
        "--timeout", type=float, metavar="SECONDS", help="give up after so long; default: never"
    )
    made.add_argument("--format", choices=formats, help="default: text")
    made.add_argument("--out", metavar="F", help="write to a file instead of standard output")
    return made


def seconds(text: str) -> float:
    """Parse a span of seconds, which may be infinite."""
    value = float(text)
    if not value >= 0:
        raise argparse.ArgumentTypeError("must be a number of seconds from 0")
    return value


def add_texts(made: argparse.ArgumentParser) -> None:
    """Add options for several texts: arguments, or lines."""
    made.add_argument(
        "texts",
        nargs="*",
        metavar="TEXT",
        help="none, and no --file: standard input, a text a line",
    )
    made.add_argument(
        "--file",
        metavar="F",
        help="texts from a file, one a line; from F.jsonl or F.ndjson, a JSON object a line",
    )
    made.add_argument(
        "--text-field",
        metavar="NAME",
        help=(
            "lines are JSON objects, with their texts in this field; "
            "default of F.jsonl and F.ndjson: text"
        ),
    )


def add_reading(made: argparse.ArgumentParser, *, several: bool) -> None:
    """Add options for truncation, prompts and priority."""
    long = "texts too long, instead of refusing them" if several else "a text too long"
    made.add_argument("--truncate", choices=("end", "start"), help=f"cut off this side of {long}")
    add_prompt(made)
    usual = (
        "bulk for texts from a file or standard input, else interactive"
        if several
        else "interactive"
    )
    made.add_argument(
        "--priority",
        choices=PRIORITIES,
        help=f"bulk lets everybody else's requests go first; default: {usual}",
    )


def add_prompt(made: argparse.ArgumentParser) -> None:
    """Add options for prompts and special tokens."""
    either = made.add_mutually_exclusive_group()
    either.add_argument(
        "--prompt-name", metavar="NAME", help="put a prompt of the model before each text: see info"
    )
    either.add_argument(
        "--prompt",
        metavar="TEXT",
        help="put this before each text; '' for nothing, not even the model's default",
    )
    made.add_argument(
        "--special-tokens",
        choices=SPECIAL_TOKENS,
        help=(
            "special tokens that a text spells out, as [SEP]: parse them, or read plain text; "
            "default: as the service does"
        ),
    )


def reading(arguments: argparse.Namespace) -> Reading:
    """Return the reading of the options of `add_reading`; a list that is not typed is bulk."""
    listed = "texts" in arguments and not arguments.texts
    priority: Priority | None = arguments.priority or ("bulk" if listed else None)
    return Reading(
        truncate=arguments.truncate,
        prompt=arguments.prompt,
        prompt_name=arguments.prompt_name,
        special_tokens=arguments.special_tokens,
        priority=priority,
    )


def add_vectors(made: argparse.ArgumentParser) -> None:
    """Add options for the form of vectors."""
    made.add_argument("--dimensions", type=int, metavar="D", help="keep this many, from the first")
    made.add_argument(
        "--normalize",
        action=argparse.BooleanOptionalAction,
        help="make vectors have unit length, or not; default: as the model does",
    )
    made.add_argument(
        "--dtype",
        action="append",
        choices=tuple(VECTOR_BITS),
        help=(
            "type of the numbers, default float32; several times for several, "
            "with --format json or npz"
        ),
    )


def vector_types(arguments: argparse.Namespace) -> Sequence[VectorType]:
    """Return the types of the options of `add_vectors`.

    Raises UsageError if the format cannot show them.
    """
    dtypes: Sequence[VectorType] = arguments.dtype or ("float32",)
    if len(dtypes) > 1 and arguments.format not in ("json", "npz"):
        raise UsageError(
            "--dtype: text and npy hold one type; use --format json or npz for several"
        )
    return dtypes


class Undisturbed(Client):
    """Client whose closing no second Ctrl-C cuts short, and whose arguments are options."""

    _spelling = staticmethod(lambda name: f"--{name.replace('_', '-')}")
    _outlasts = None  # `embed` keeps its vectors, reports that it waits, and obeys --retry-for

    def close(self) -> None:
        with undisturbed():
            super().close()


def connect(
    arguments: argparse.Namespace, concurrency: int = 4, wait_for_ready: float = READY_SECONDS
) -> Client:
    """Return a client for the common options, with so many calls at once.

    Raises:
        UsageError, or InvalidInput for target and timeout: they cannot be used.
    """
    # A token is no option: every user of a machine sees all command lines.
    token_file = arguments.token_file or os.environ.get("HEADLIGHT_TOKEN_FILE") or None
    token = None if token_file else os.environ.get("HEADLIGHT_TOKEN") or None
    try:
        return Undisturbed(
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


def check_output(arguments: argparse.Namespace) -> None:
    """Raise UsageError for an output that cannot be written, before the service works for it."""
    if arguments.format in ("npz", "npy") and arguments.out is None:
        raise UsageError(f"--format {arguments.format} is binary: name a file by --out")
    others = named(arguments, READ)
    if source(arguments) == STANDARD_INPUT:
        others.append((STANDARD_INPUT, "/dev/stdin"))
    for option, name in named(arguments, WRITTEN):
        check_writable(option, name)
        for other, beside in others:
            if is_same_file(name, beside):
                raise UsageError(
                    f"{option}: {name} is the file of {other}, which it would replace; name another"
                )
        others.append((option, name))
    if arguments.out is None and sys.stdout is None and not draws_alone(arguments):
        raise UsageError("standard output: is closed; name a file by --out")


def named(arguments: argparse.Namespace, options: Sequence[str]) -> list[tuple[str, str]]:
    """Return the options that name a file, and the file."""
    names = (
        (option, getattr(arguments, option.removeprefix("--").replace("-", "_"), None))
        for option in options
    )
    return [(option, name) for option, name in names if name is not None]


def draws_alone(arguments: argparse.Namespace) -> bool:
    """Return whether only a picture or a page is requested."""
    drawn = (
        getattr(arguments, "png", None) is not None or getattr(arguments, "html", None) is not None
    )
    return drawn and arguments.format is None and arguments.out is None
