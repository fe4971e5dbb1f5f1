"""Where the command line writes, and what becomes of it where that cannot be."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from headlight.cli import main
from tests.headlight.fake_model import DIM
from tests.headlight.fake_server import FakeServicer

WRITES = (("embed", "--out"), ("tokens", "--out"), ("heads", "--out"), ("attend", "--png"), ("attend", "--html"))


def headlight(target: str, redirected: str, *arguments: str) -> tuple[int, str]:
    """Run in a shell that redirects its output -> exit code, errors."""
    command = ["sh", "-c", f'exec "$0" -m headlight "$@" {redirected}', sys.executable, *arguments]
    environ = {**os.environ, "HEADLIGHT_TARGET": target}
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False, timeout=50, env=environ)
    return done.returncode, done.stderr


@pytest.mark.parametrize("arguments", [["info"], ["embed", "a"], ["info", "--help"]])
def test_a_full_disk_below_standard_output_is_one_line_and_1(target: str, arguments: list[str]) -> None:
    said = "headlight: standard output: cannot write it: No space left on device\n"
    assert headlight(target, ">/dev/full", *arguments) == (1, said)


def test_a_standard_output_that_is_closed_is_said_before_the_service_works(
    target: str, servicer: FakeServicer, tmp_path: Path
) -> None:
    assert headlight(target, ">&-", "info") == (2, "headlight: standard output: is closed; name a file by --out\n")
    assert servicer.described == 0
    assert headlight(target, ">&-", "attend", "a", "--html", str(tmp_path / "a.html")) == (0, "")


def test_errors_that_nobody_can_read_change_no_exit_code(target: str) -> None:
    assert headlight(target, "2>/dev/full", "embed", "a", "--timeout", "0") == (1, "")
    assert headlight(target, "2>&-", "embed", "a", "--out", "/") == (2, "")


def test_a_standard_input_that_is_closed_is_one_line_and_2(target: str) -> None:
    code, err = headlight(target, "<&-", "embed")
    assert (code, err.splitlines()) == (
        2,
        ["headlight: standard input: is closed; give texts, one a line, as arguments or by --file"],
    )


def test_a_reader_that_leaves_is_quiet(target: str) -> None:
    """More output than a pipe holds, into a pipe that nobody reads."""
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "headlight", "embed", "--target", target, *["a"] * 2000]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, check=False, timeout=50)
    os.close(writing)
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, b"")
    assert DIM * 2000 > 2**13


@pytest.mark.parametrize("form", [[], ["--format", "json"], ["--format", "npz"]])
def test_a_disk_that_is_full_when_it_is_written_is_1(
    target: str, capsys: pytest.CaptureFixture[str], form: list[str]
) -> None:
    """Another try may succeed, so a job that tries again has to be told so."""
    assert main(["embed", "a", "--out", "/dev/full", "--target", target, *form]) == 1
    assert capsys.readouterr().err == "headlight: /dev/full: cannot write it: No space left on device\n"
    for option in ("--png", "--html"):
        assert main(["attend", "a", option, "/dev/full", "--target", target]) == 1


@pytest.mark.parametrize(("command", "option"), WRITES)
def test_a_file_that_can_never_be_written_is_said_before_the_service_works(
    target: str,
    servicer: FakeServicer,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    command: str,
    option: str,
) -> None:
    (tmp_path / "file").write_text("as it was")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere" / "x")
    for name, says in {
        "": f"headlight: {option}: is empty; name a file\n",
        f"{tmp_path}": f"headlight: {tmp_path}: cannot write it: it is a folder; name a file\n",
        f"{tmp_path}/new/": "it is a folder; name a file\n",
        f"{tmp_path}/nowhere/x": f"cannot write it: there is no folder {tmp_path}/nowhere\n",
        f"{tmp_path}/file/x": f"cannot write it: there is no folder {tmp_path}/file\n",
        f"{tmp_path}/link": f"cannot write it: there is no folder {tmp_path}/nowhere\n",
    }.items():
        assert main([command, "a", option, name, "--target", target]) == 2
        err = capsys.readouterr().err
        assert (err.endswith(says), err.count("\n")) == (True, 1), err
    assert servicer.described == 0
    assert (tmp_path / "file").read_text() == "as it was"


def test_permission_is_looked_at_first(
    target: str,
    servicer: FakeServicer,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of the file where there is one, else of its folder. Stood in for: a superuser may do everything."""
    (tmp_path / "file").touch()
    monkeypatch.setattr(os, "access", lambda path, mode: path != str(tmp_path / "file") and not Path(path).is_dir())
    for name, says in {"file": "it may not be changed", "new": f"the folder {tmp_path} may not be changed"}.items():
        assert main(["embed", "a", "--out", str(tmp_path / name), "--target", target]) == 2
        assert capsys.readouterr().err == f"headlight: {tmp_path / name}: cannot write it: {says}\n"
    assert servicer.described == 0


def test_an_archive_goes_through_a_pipe(target: str) -> None:
    command = [sys.executable, "-m", "headlight", "embed", "a", "--format", "npz", "--out", "/dev/stdout"]
    done = subprocess.run([*command, "--target", target], stdout=subprocess.PIPE, check=True, timeout=50)
    assert io.BytesIO(done.stdout).read(2) == b"PK"
