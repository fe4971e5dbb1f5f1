"""Page of all commands and options, from the parsers of the command line."""

from __future__ import annotations

import argparse
import dataclasses
import inspect

from docs.site.markdown import NOTE, cell, code, table
from headlight.cli.commands import parser as client_parser
from headlight.cli.main import PARTS
from headlight_export.command import _parser as export_parser
from headlight_service.config.command_line import _parser as service_parser
from headlight_service.config.options import Config

HEAD = """# Commands and options

[Command line](../command-line.md) shows how to use them."""


def parsers() -> dict[str, argparse.ArgumentParser]:
    """Return the parser of each command."""
    found = {"serve": service_parser(dataclasses.fields(Config)), "export": export_parser()}
    for action in client_parser()._actions:
        if isinstance(action, argparse._SubParsersAction):
            clients = {name: parser for name, parser in action.choices.items() if name not in PARTS}
            return clients | found
    raise ValueError("headlight.cli.commands.parser() has no subcommands")


def page() -> str:
    """Return the page."""
    parts = [NOTE + HEAD]
    for name, parser in parsers().items():
        parts += [f"## headlight {name}", inspect.cleandoc(parser.description or "")]
        parts += [table(("option", "meaning"), [row(parser, action) for action in parser._actions])]
        parts += [parser.epilog] if parser.epilog else []
    return "\n\n".join(parts) + "\n"


def row(parser: argparse.ArgumentParser, action: argparse.Action) -> tuple[str, str]:
    """Return the row of an option or of an argument."""
    values = {**vars(action), "prog": parser.prog}
    meaning = cell((action.help or "") % values)
    if action.choices:
        meaning += f" ({', '.join(code(str(choice)) for choice in action.choices)})"
    if action.required and action.option_strings:
        meaning += "; required"
    return usage(action), meaning


def usage(action: argparse.Action) -> str:
    """Return the spelling of an option with its value, or the name of an argument."""
    value = "" if action.nargs == 0 else str(action.metavar or action.dest.upper())
    if not action.option_strings:
        return code(value)
    ending = f" {value}" if value and not action.choices else ""
    return ", ".join(code(option + ending) for option in action.option_strings)
