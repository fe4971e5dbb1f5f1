"""Output files of the command line, and write errors."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from headlight.cli.commands import main
from headlight.cli.files import write_all
from tests.headlight.cli.conftest import Run
from tests.headlight.fake_model import DIM
from tests.headlight.fake_server import FakeServicer

# With PYTHONUNBUFFERED, which images set, Python may write a text only in part.
UNBUFFERED = pytest.mark.parametrize("unbuffered", ["", "1"])
WRITES = (
    ("embed", "--out"),
    ("tokens", "--out"),
    ("heads", "--out"),
    ("attend", "--png"),
    ("attend", "--html"),
)


def headlight(target: str, redirected: str, *arguments: str) -> tuple[int, str]:
    """Run in a shell that redirects its output; return exit code, errors."""
    command = ["sh", "-c", f'exec "$0" -m headlight "$@" {redirected}', sys.executable, *arguments]
    environ = {**os.environ, "HEADLIGHT_TARGET": target}
    done = subprocess.run(
        command, stderr=subprocess.PIPE, text=True, check=False, timeout=50, env=environ
    )
    return done.returncode, done.stderr


@UNBUFFERED
@pytest.mark.parametrize("arguments", [["embed", "a"], ["info", "--help"]])
def test_a_full_disk_behind_standard_output_is_one_line_and_exit_code_1(
    target: str, monkeypatch: pytest.MonkeyPatch, arguments: list[str], unbuffered: str
) -> None:
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    said = "headlight: standard output: cannot write it: No space left on device\n"
    assert headlight(target, ">/dev/full", *arguments) == (1, said)


def test_closed_standard_output_is_reported_before_the_service_is_called(
    target: str, servicer: FakeServicer, tmp_path: Path
) -> None:
    assert headlight(target, ">&-", "info") == (
        2,
        "headlight: standard output: is closed; name a file by --out\n",
    )
    assert servicer.described == 0
    code, err = headlight(target, ">&-", "attend", "a", "--html", str(tmp_path / "a.html"))
    assert (code, err.startswith("headlight: wrote ")) == (0, True)


def test_closed_standard_error_does_not_change_the_exit_code(target: str) -> None:
    assert headlight(target, "2>/dev/full", "embed", "a", "--timeout", "0") == (1, "")
    assert headlight(target, "2>&-", "embed", "a", "--out", "/") == (2, "")


def test_closed_standard_input_is_one_line_and_exit_code_2(target: str) -> None:
    code, err = headlight(target, "<&-", "embed")
    assert (code, err.splitlines()) == (
        2,
        ["headlight: standard input: is closed; give texts, one a line, as arguments or by --file"],
    )


@UNBUFFERED
def test_a_disk_that_fills_behind_standard_output_is_exit_code_1(
    target: str, tmp_path: Path, unbuffered: str
) -> None:
    """It accepts a part of one write, and nothing after that.

    Simulated by a file size limit.
    """
    shell = 'ulimit -f 8; exec "$0" -m headlight "$@" >"$OUT"'
    command = ["sh", "-c", shell, sys.executable, "embed", "--target", target, *["a"] * 300]
    environ = {**os.environ, "OUT": str(tmp_path / "out"), "PYTHONUNBUFFERED": unbuffered}
    done = subprocess.run(
        command, stderr=subprocess.PIPE, text=True, check=False, timeout=50, env=environ
    )
    said = "headlight: standard output: cannot write it: File too large\n"
    assert (done.returncode, done.stderr) == (1, said)
    assert 0 < (tmp_path / "out").stat().st_size < 10 * 300 * DIM  # some ten characters per number


@UNBUFFERED
def test_a_pipe_closed_midway_is_exit_code_141(target: str, unbuffered: str) -> None:
    """The unread rest is more than a pipe holds, so that the command is still writing."""
    command = [sys.executable, "-m", "headlight", "embed", "--target", target, *["a"] * 2000]
    environ = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environ
    ) as process:
        assert process.stdout
        assert process.stderr
        os.read(process.stdout.fileno(), 1)
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 128 + signal.SIGPIPE


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
def test_json_is_always_utf_8(target: str, encoding: str) -> None:
    """Otherwise distinct ids could become equal.

    In text output, unencodable characters become question marks.
    """
    environ = {**os.environ, "PYTHONIOENCODING": encoding}

    def shown(*arguments: str, stdin: str = "") -> bytes:
        command = [sys.executable, "-m", "headlight", *arguments, "--target", target]
        return subprocess.run(
            command, input=stdin.encode(), capture_output=True, check=True, timeout=50, env=environ
        ).stdout

    line = json.dumps({"id": "Zoë-漢", "text": "a"}, ensure_ascii=False)
    found = json.loads(
        shown("embed", "--id-field", "id", "--format", "json", stdin=line).decode("utf-8")
    )
    assert found["ids"] == ["Zoë-漢"]
    found = json.loads(shown("tokens", "日本", "--format", "json").decode("utf-8"))
    assert found["tokens"][0]["pieces"] == ["[CLS]", "日本", "[SEP]"]
    if encoding != "utf-16":
        assert b"??" in shown("tokens", "日本")


def test_a_full_non_blocking_pipe_ends_the_command() -> None:
    """Without a buffer, writing to a non-blocking file could return nothing for ever."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with (
        os.fdopen(reading, "rb"),
        os.fdopen(writing, "wb", buffering=0) as file,
        pytest.raises(BlockingIOError),
    ):
        write_all(file, b"a" * 2**21)


def test_output_goes_to_a_text_stream_in_place_of_standard_output(target: str) -> None:
    with contextlib.redirect_stdout(io.StringIO()) as shown:
        assert main(["info", "--format", "json", "--target", target]) == 0
    assert json.loads(shown.getvalue())["name"] == "fake"


def test_unreadable_standard_input_is_one_line_and_exit_code_2(target: str) -> None:
    said = "headlight: standard input: cannot read it: Bad file descriptor\n"
    assert headlight(target, "0>/dev/null", "embed") == (2, said)


@pytest.mark.parametrize("form", [[], ["--format", "json"], ["--format", "npz"]])
def test_a_disk_full_at_writing_is_exit_code_1(run: Run, form: list[str]) -> None:
    """A retry may succeed, so a job that retries needs this exit code."""
    said = "headlight: /dev/full: cannot write it: No space left on device\n"
    assert run("embed", "a", "--out", "/dev/full", *form) == (1, "", said)
    for option in ("--png", "--html"):
        assert run("attend", "a", option, "/dev/full")[0] == 1


@pytest.mark.parametrize(("subcommand", "option"), WRITES)
def test_an_unwritable_file_is_reported_before_the_service_is_called(
    run: Run, servicer: FakeServicer, tmp_path: Path, subcommand: str, option: str
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
        code, _, err = run(subcommand, "a", option, name)
        assert (code, err.endswith(says), err.count("\n")) == (2, True, 1), err
    assert servicer.described == 0
    assert (tmp_path / "file").read_text() == "as it was"


@pytest.mark.parametrize("option", ["--file", "--token-file", "--tls-ca"])
def test_the_input_file_is_not_overwritten(
    run: Run, servicer: FakeServicer, tmp_path: Path, option: str
) -> None:
    """Also under another name of the file."""
    path, texts = tmp_path / "file", [] if option == "--file" else ["a"]
    path.write_text("as it was")
    (tmp_path / "link").symlink_to(path)
    os.link(path, tmp_path / "second")
    for name in (path, tmp_path / "link", tmp_path / "second", tmp_path / "." / "file"):
        said = (
            f"headlight: --out: {name} is the file of {option}, which it would replace; "
            "name another\n"
        )
        assert run("embed", *texts, option, str(path), "--out", str(name)) == (2, "", said)
    assert (servicer.described, path.read_text()) == (0, "as it was")


def test_a_file_on_standard_input_is_not_overwritten(target: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("as it was")
    said = (
        f"headlight: --out: {path} is the file of standard input, which it would replace; "
        "name another\n"
    )
    assert headlight(target, f'<"{path}"', "embed", "--out", str(path)) == (2, said)
    assert path.read_text() == "as it was"


def test_two_options_that_name_one_output_file_are_refused(
    run: Run, servicer: FakeServicer, tmp_path: Path
) -> None:
    """Also if the file does not exist yet."""
    path = str(tmp_path / "file")
    for option, other in (("--html", "--png"), ("--html", "--out"), ("--png", "--out")):
        same = f"{tmp_path}/../{tmp_path.name}/file"
        code, _, err = run("attend", "a", other, path, option, same)
        assert (code, err.startswith(f"headlight: {option}: ")) == (2, True)
        assert err.endswith(f" is the file of {other}, which it would replace; name another\n")
    assert (servicer.described, list(tmp_path.iterdir())) == (0, [])
    assert run("attend", "a", "--html", "/dev/null", "--out", "/dev/null")[0] == 0


def test_missing_permission_is_reported_before_the_service_is_called(
    run: Run, servicer: FakeServicer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Permission of the file if it exists, else of its folder.

    Simulated: a superuser may do everything.
    """
    (tmp_path / "file").touch()
    monkeypatch.setattr(
        os, "access", lambda path, mode: path != str(tmp_path / "file") and not Path(path).is_dir()
    )
    for name, says in {
        "file": "it may not be changed",
        "new": f"the folder {tmp_path} may not be changed",
    }.items():
        said = f"headlight: {tmp_path / name}: cannot write it: {says}\n"
        assert run("embed", "a", "--out", str(tmp_path / name)) == (2, "", said)
    assert servicer.described == 0


def test_an_archive_can_be_written_to_a_pipe(target: str) -> None:
    command = [sys.executable, "-m", "headlight", "embed", "a", "--format", "npz"]
    command += ["--out", "/dev/stdout", "--target", target]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=50)
    assert io.BytesIO(done.stdout).read(2) == b"PK"
