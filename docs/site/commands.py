"""Page of all commands and options, from the parsers of the command line."""

from __future__ import annotations

import argparse

from docs.site.markdown import NOTE, cell, code, table
from headlight.cli.commands import parser as client_parser
from headlight.cli.main import PARTS
from headlight_export.command import command_parser as export_parser
from headlight_service.config.options import command_parser as service_parser

HEAD = """# Commands and options

[Command line](../command-line.md) shows how to use them."""
HEADER = ("option", "meaning")


def client_parsers() -> dict[str, argparse.ArgumentParser]:
    """Return the parser of each command that calls a service."""
    return {name: made for name, made in subparsers(client_parser()).items() if calls(made)}


def other_parsers() -> dict[str, argparse.ArgumentParser]:
    """Return the parser of each command that calls none, `cache list` apart from `cache`."""
    found: dict[str, argparse.ArgumentParser] = {
        "serve": service_parser(),
        "export": export_parser(),
    }
    for name, made in subparsers(client_parser()).items():
        below = subparsers(made)
        if name not in PARTS and not calls(made):
            found |= {f"{name} {verb}": each for verb, each in below.items()} or {name: made}
    return found


def subparsers(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Return the parsers of the commands below a parser, by name."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def calls(parser: argparse.ArgumentParser) -> bool:
    """Return whether a command calls a service."""
    return "--target" in parser._option_string_actions


def examples(epilog: str | None) -> str:
    """Return the end of a help, with its command lines as code."""
    before, _, lines = (epilog or "").partition("examples:\n")
    code = "\n".join(line.strip() for line in lines.splitlines())
    return before + (f"```sh\n{code}\n```" if code else "")


def rows(parser: argparse.ArgumentParser) -> list[tuple[str, str]]:
    """Return the rows of all options and arguments, without --help."""
    return [row(parser, action) for action in parser._actions if action.dest != "help"]


def page() -> str:
    """Return the page."""
    clients = client_parsers()
    first, *others = map(rows, clients.values())
    common = [found for found in first if all(found in other for other in others)]
    parts = [
        NOTE + HEAD,
        "## Options of all clients",
        f"{', '.join(map(code, clients))} have these.",
    ]
    parts.append(table(HEADER, common))
    for name, parser in (clients | other_parsers()).items():
        own = [found for found in rows(parser) if name not in clients or found not in common]
        parts += [f"## headlight {name}", f"{(parser.description or '').rstrip('.')}."]
        parts += [table(HEADER, own) if own else "", examples(parser.epilog)]
    return "\n\n".join(part for part in parts if part) + "\n"


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
