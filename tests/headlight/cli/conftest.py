"""The command line in this process."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headlight.cli.commands import main
from tests.headlight.conftest import Pipe

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], pipe: Pipe) -> Run:
    """Return a function of arguments and standard input, to exit code, output and errors."""

    def command(*arguments: str, stdin: str | bytes = b"") -> tuple[int, str, str]:
        pipe(stdin.encode() if isinstance(stdin, str) else stdin)
        return main(arguments), *capsys.readouterr()

    return command


@pytest.fixture
def run(command: Run, target: str, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return the same, with the fake service as the target."""
    monkeypatch.setenv("HEADLIGHT_TARGET", target)
    return command
