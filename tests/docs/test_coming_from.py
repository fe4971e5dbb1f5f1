"""docs/coming-from.md: its commands are accepted, and each option in its tables exists."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from headlight.cli.main import main
from headlight_service.config.options import Config

PAGE = (Path(__file__).parents[2] / "docs/coming-from.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^headlight serve (.+)$", PAGE, re.MULTILINE)
OURS = [line.split("|")[-2] for line in PAGE.splitlines() if line.startswith("| ")]


@pytest.mark.parametrize("command", COMMANDS)
def test_its_commands_are_accepted(command: str) -> None:
    config = Config.parse(shlex.split(command), {})
    assert config.model


def test_each_option_of_its_tables_exists(capsys: pytest.CaptureFixture[str]) -> None:
    named = {option for cell in OURS for option in re.findall(r"--[a-z][a-z-]+", cell)}
    assert len(named) > 20
    for command in ("serve", "export"):
        with pytest.raises(SystemExit):
            main([command, "--help"])
    assert named - set(re.findall(r"--[a-z][a-z-]+", capsys.readouterr().out)) == set()
