"""Help of the command line: groups, examples and a table of commands."""

from __future__ import annotations

import argparse
import importlib
import shlex
from collections.abc import Iterator

import pytest

from headlight.cli.commands import COMMANDS, main, parser
from headlight.cli.main import PARTS
from headlight_service.config.options import Config
from tests.help_examples import examples


def parsers(top: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield top
    for action in top._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, each in action.choices.items():
                yield from parsers(part_parser(name) if name in PARTS else each)


def part_parser(name: str) -> argparse.ArgumentParser:
    made: argparse.ArgumentParser = importlib.import_module(PARTS[name].options).command_parser()
    return made


def commands() -> dict[str, argparse.ArgumentParser]:
    [found] = [each for each in parser()._actions if isinstance(each, argparse._SubParsersAction)]
    return dict(found.choices) | {name: part_parser(name) for name in PARTS}


def test_the_table_has_every_command_with_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    shown = capsys.readouterr().out
    for title, names in COMMANDS.items():
        lines = shown.partition(f"\n{title}:\n")[2].splitlines()
        assert [line.split()[0] for line in lines[: len(names)]] == list(names)
        assert all(len(line.split()) > 2 for line in lines[: len(names)])
    assert {name for names in COMMANDS.values() for name in names} == set(commands())
    assert "\nfirst commands to try:\n  headlight serve " in shown


def test_without_a_command_the_same_goes_to_standard_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([])
    out, err = capsys.readouterr()
    assert (ended.value.code, out, err) == (2, "", parser().format_help())


@pytest.mark.parametrize("columns", ["80", "300"])
def test_every_help_fits_the_columns_and_ends_with_examples(
    monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    for each in parsers(parser()):
        lines = each.format_help().splitlines()
        widest = max(lines, key=len)
        assert len(widest) <= 100, widest
        if each.prog != "headlight":
            assert 1 <= len(examples(each.format_help())) <= 5


@pytest.mark.parametrize("name", PARTS)
def test_the_parsers_of_other_packages_are_where_completion_looks(name: str) -> None:
    assert part_parser(name).prog == f"headlight {name}"


@pytest.mark.parametrize(
    "line", [line for each in parsers(parser()) for line in examples(each.format_help())]
)
def test_every_example_has_arguments_that_its_command_takes(line: str) -> None:
    before, _, after = line.partition("headlight ")
    name, *arguments = shlex.split(after.partition(" > ")[0], comments=True)
    environ = dict(word.split("=") for word in shlex.split(before) if "=" in word)
    if name == "serve":
        Config.parse(arguments, environ)
    elif name in PARTS:
        part_parser(name).parse_args(arguments)
    else:
        parser().parse_args([name, *arguments])
