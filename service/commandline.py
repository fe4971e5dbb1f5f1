"""The command line of the service, made from the fields of its options."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Sequence
from typing import Any, NoReturn

from service.parsing import Address


def parser_of(
    fields: Sequence[dataclasses.Field[Any]], prefix: str, problem: type[Exception]
) -> argparse.ArgumentParser:
    """Takes every option as text; None where it is not given.

    Args:
        fields: with "why" in their metadata.
        prefix: of the environment variables that can stand for them.
        problem: raised where a command line cannot be read.
    """

    class Parser(argparse.ArgumentParser):
        def error(self, message: str) -> NoReturn:
            raise problem(f"{message}; see --help")

    parser = Parser(
        prog="python -m service",
        description="Serve a bundle over gRPC.",
        epilog=f"Each option can also stand in the environment: --max-items as {prefix}MAX_ITEMS.",
        allow_abbrev=False,
    )
    for known in fields:
        text = known.metadata["why"] + _default(known.default)
        if isinstance(known.default, bool):
            parser.add_argument(flag_of(known.name), help=text, nargs="?", const="true", metavar="true|false")
        else:
            parser.add_argument(flag_of(known.name), help=text, metavar=known.name.rpartition("_")[2].upper())
    return parser


def flag_of(name: str) -> str:
    """--max-items, for max_items."""
    return "--" + name.replace("_", "-")


def _default(value: object) -> str:
    if value in (None, dataclasses.MISSING, False):
        return ""
    if isinstance(value, tuple) and not isinstance(value, Address):
        value = ",".join(map(str, value))
    return f" (default {value})"
