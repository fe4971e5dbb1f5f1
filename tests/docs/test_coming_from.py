"""docs/coming-from.md: its commands are accepted, and each option in its tables exists."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from headlight_export import command as export
from headlight_service.config import options as serve

PAGE = (Path(__file__).parents[2] / "docs/coming-from.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^headlight serve (.+)$", PAGE, re.MULTILINE)
OURS = [line.split("|")[-2] for line in PAGE.splitlines() if line.startswith("| ")]


@pytest.mark.parametrize("command", COMMANDS)
def test_its_commands_are_accepted(command: str) -> None:
    config = serve.Config.parse(shlex.split(command), {})
    assert config.model


def test_each_option_of_its_tables_exists() -> None:
    named = {option for cell in OURS for option in re.findall(r"--[a-z][a-z-]+", cell)}
    assert len(named) > 20
    shown = serve.command_parser().format_help() + export.command_parser().format_help()
    assert named - set(re.findall(r"--[a-z][a-z-]+", shown)) == set()
