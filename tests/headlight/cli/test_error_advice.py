"""Advice of the command line for errors: its own options, lines of files, and remedies."""

from __future__ import annotations

from pathlib import Path

import grpc
import pytest

from headlight.cli.commands import main
from headlight.errors import InvalidInput, Overloaded
from headlight.reasons import Reason
from tests.headlight.conftest import Pipe
from tests.headlight.fake_server import FakeServicer, Refusal, refused

INVALID = grpc.StatusCode.INVALID_ARGUMENT


def said(capsys: pytest.CaptureFixture[str], target: str, *arguments: str) -> tuple[int, str]:
    code = main([*arguments, "--target", target])
    return code, capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "refusal", "says"),
    [
        (["embed", "a", "--dimensions", "-1"], None, "--dimensions: must be a whole number from 1"),
        (
            ["embed", "a", "--dtype", "int8"],
            "outputs.pooled.dtypes: int8 has no ranges",
            "--dtype: int8 has no ranges",
        ),
        (
            ["embed", "a", "--prompt", "x"],
            InvalidInput("prompt_text", Reason.LONG_PROMPT, count=9, most=8),
            "--prompt: has 9 characters",
        ),
        (
            ["embed", "a", "b"],
            InvalidInput("inputs[1].text", Reason.EMPTY_TEXT),
            "text 2: is empty",
        ),
    ],
)
def test_errors_name_the_options_of_the_command_line(
    target: str,
    servicer: FakeServicer,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    refusal: str | InvalidInput | None,
    says: str,
) -> None:
    if refusal is not None:
        sent = Refusal(INVALID, refusal) if isinstance(refusal, str) else refused(refusal)
        servicer.refusals.append(sent)
    code, err = said(capsys, target, *arguments)
    assert (code, err[: len("headlight: " + says)]) == (2, "headlight: " + says)


def test_advice_names_the_options_of_the_connection(
    target: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, err = said(capsys, target, "info", "--timeout", "nan")
    assert (code, err.startswith("headlight: --timeout: is nan; must be a number of seconds")) == (
        2,
        True,
    ), err


@pytest.mark.parametrize("command", ["embed", "heads", "tokens"])
def test_an_invalid_or_refused_line_is_named(
    target: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, command: str
) -> None:
    path = tmp_path / "texts"
    path.write_text(f"one\n{'x' * 2**20}\n")
    code, err = said(capsys, target, command, "--file", str(path))
    assert (code, err.startswith(f"headlight: {path}, line 2: takes 1048")) == (2, True), err
    if command != "tokens":  # which takes texts of any length
        path.write_text(f"one\n{'word ' * 50}\n")
        code, err = said(capsys, target, command, "--file", str(path))
        assert (code, err.startswith(f"headlight: {path}, line 2: has 52 tokens")) == (2, True), err


def test_standard_input_and_a_text_that_is_a_whole_file_are_named(
    target: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, pipe: Pipe
) -> None:
    pipe(b"word " * 50)
    code, err = said(capsys, target, "embed")
    assert (code, err.startswith("headlight: standard input, line 1: has 52 tokens")) == (
        2,
        True,
    ), err
    path = tmp_path / "text"
    path.write_text("word\n" * 50)
    code, err = said(capsys, target, "attend", "--file", str(path))
    assert (code, err.startswith(f"headlight: {path}: has 52 tokens")) == (2, True), err


def test_a_full_queue_of_own_requests_advises_a_longer_timeout(
    target: str, servicer: FakeServicer, capsys: pytest.CaptureFixture[str]
) -> None:
    """If there is a timeout; without one, the client waits as long as needed."""
    told = (
        "with the current queue, this may take 15.68 s, and the deadline is in 1.88 s; "
        "wait, or name another service by --target"
    )
    servicer.refusals.append(refused(late(137.99)))
    expected = f"headlight: {told}; give more time by --timeout, or try again in 137.99 s\n"
    assert said(capsys, target, "embed", "a", "--timeout", "60") == (1, expected)
    servicer.refusals.append(refused(late(None)))
    expected = f"headlight: {told}; give more time by --timeout\n"
    assert said(capsys, target, "attend", "a", "--timeout", "60") == (1, expected)


def late(retry_seconds: float | None) -> Overloaded:
    return Overloaded(Reason.WAIT_BEYOND_DEADLINE, retry_seconds, wait="15.68", left="1.88")
