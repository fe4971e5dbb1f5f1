"""`headlight completion`: a script that completes commands and options in bash or zsh."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from headlight.cli.files import UsageError, show
from headlight.cli.main import PARTS
from headlight.command_parser import CommandParser, examples_text
from headlight.extras import MissingExtra, require

EXAMPLES = (
    "headlight completion bash > ~/.headlight.bash   # and `source ~/.headlight.bash` in ~/.bashrc",
    "mkdir -p ~/.zfunc && headlight completion zsh > ~/.zfunc/_headlight",
)
# Placeholders of files and folders in the help.
FILES = ("FILE", "DIR", "F.png", "F.html", "MODEL")


def add_completion(commands: Any, top: CommandParser) -> None:
    """Add the command. `top` is the parser of all commands, which the script completes."""
    made = commands.add_parser(
        "completion",
        help="completion of commands and options, for bash or zsh",
        usage="headlight completion bash|zsh",
        description=(
            "Print a script that completes commands and options in a shell: also those of\n"
            "`headlight serve`, `export` and `verify`, if they are installed. For zsh,\n"
            "~/.zshrc needs `fpath+=~/.zfunc` before `compinit`."
        ),
        epilog=examples_text(EXAMPLES),
    )
    made.add_argument("shell", choices=("bash", "zsh"), help="the shell")
    made.set_defaults(run=run_completion, top=top, format=None, out=None)


def run_completion(arguments: argparse.Namespace) -> None:
    """Run `headlight completion`. Raises UsageError without the library that writes the script."""
    try:
        require("headlight completion", "completion", "shtab")
    except MissingExtra as error:
        raise UsageError(str(error)) from None
    import shtab  # noqa: PLC0415  (an extra)

    top = arguments.top
    [commands] = [each for each in top._actions if isinstance(each, argparse._SubParsersAction)]
    commands.help = "command"  # the script leaves out what has no help
    by_name: dict[str, argparse.ArgumentParser] = {**commands.choices}
    for name, part in PARTS.items():
        try:
            by_name[name] = importlib.import_module(part.options).command_parser()
        except ImportError:
            continue  # it is not installed: the command is completed, its options are not
    commands.choices = by_name
    for each in commands._choices_actions:
        by_name[each.dest].description = each.help  # one line beside each command
    for parser in parsers(top):
        for action in parser._actions:
            if takes_file(action):
                action.complete = shtab.FILE  # type: ignore[attr-defined]
    show(shtab.complete(top, arguments.shell))


def parsers(top: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yield a parser, and those of all commands below it."""
    yield top
    for action in top._actions:
        if isinstance(action, argparse._SubParsersAction):
            for each in action.choices.values():
                yield from parsers(each)


def takes_file(action: argparse.Action) -> bool:
    """Return whether an argument names a file or a folder."""
    return action.metavar in FILES or action.type is Path or action.dest == "auth_tokens"
