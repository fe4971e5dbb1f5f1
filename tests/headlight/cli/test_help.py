"""Help of the command line: groups, examples and a table of commands."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Iterator

import pytest

from headlight.cli.commands import COMMANDS, main, parser
from headlight.cli.main import PARTS

GROUPS = {
    "embed": ["input", "reading", "vectors", "output", "connection"],
    "attend": ["input", "heads", "reading", "output", "connection"],
    "heads": ["input", "reading", "output", "connection"],
    "tokens": ["input", "reading", "output", "connection"],
    "info": ["output", "connection"],
}


def parsers(top: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield top
    for action in top._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, each in action.choices.items():
                if name not in PARTS:  # of another package, which has its own
                    yield from parsers(each)


def commands() -> dict[str, argparse.ArgumentParser]:
    [found] = [each for each in parser()._actions if isinstance(each, argparse._SubParsersAction)]
    return dict(found.choices)


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
            _, _, examples = each.format_help().partition("\nexamples:\n")
            assert 1 <= len(examples.splitlines()) <= 3
            assert all("headlight " in line for line in examples.splitlines())


@pytest.mark.parametrize("command", GROUPS)
def test_options_stand_in_groups(command: str) -> None:
    text = commands()[command].format_help()
    found = [line[:-1] for line in text.splitlines() if line.endswith(":") and line[0] != " "]
    assert found == ["options", *GROUPS[command], "examples"]


@pytest.mark.parametrize("name", PARTS)
def test_the_parsers_of_other_packages_are_where_completion_looks(name: str) -> None:
    made = importlib.import_module(PARTS[name].options).command_parser()
    assert made.prog == f"headlight {name}"
