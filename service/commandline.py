"""The command line and the environment of the service, made from the fields of its options."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from service.parsing import Address

PREFIX = "HEADLIGHT_"


class ConfigError(ValueError):
    """An option has a value that cannot be used; the message names the option and the remedy."""


def read(
    fields: Sequence[dataclasses.Field[Any]], arguments: Sequence[str], environ: Mapping[str, str]
) -> dict[str, Any]:
    """The values of those options that are given, by name.

    Args:
        fields: with "parse" and "why" in their metadata.
        arguments: the command line, without the program; it goes before the environment.
        environ: the environment.

    Raises:
        ConfigError: naming the option (or the variable) and what it must be.
        SystemExit: after --help.
    """
    given = vars(_parser(fields).parse_args(arguments))
    values = {}
    for known in fields:
        source, text = _flag(known.name), given[known.name]
        if text is None:
            source = PREFIX + known.name.upper()
            text = environ.get(source)
        if text is None:
            continue
        try:
            values[known.name] = known.metadata["parse"](text)
        except ValueError as error:
            raise ConfigError(f"{source} is {text!r:.80}; it {error}") from None
    return values


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{message}; see --help")


def _parser(fields: Sequence[dataclasses.Field[Any]]) -> argparse.ArgumentParser:
    """Takes every option as text; None where it is not given."""
    parser = _Parser(
        prog="python -m service",
        description="Serve a bundle over gRPC.",
        epilog=f"Each option can also stand in the environment: --max-items as {PREFIX}MAX_ITEMS.",
        allow_abbrev=False,
    )
    for known in fields:
        text = known.metadata["why"] + _default(known.default)
        if isinstance(known.default, bool):
            parser.add_argument(_flag(known.name), help=text, nargs="?", const="true", metavar="true|false")
        else:
            parser.add_argument(_flag(known.name), help=text, metavar=known.name.rpartition("_")[2].upper())
    return parser


def _flag(name: str) -> str:
    """--max-items, for max_items."""
    return "--" + name.replace("_", "-")


def _default(value: object) -> str:
    if value in (None, dataclasses.MISSING, False):
        return ""
    if isinstance(value, tuple) and not isinstance(value, Address):
        value = ",".join(map(str, value))
    return f" (default {value})"
