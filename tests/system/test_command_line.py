"""The command line as a user has it: examples of the help, a terminal, a browser, completion."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import re
import select
import shlex
import shutil
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from headlight.cli import commands
from headlight.cli.main import PARTS
from tests.help_examples import examples, write_texts
from tests.ports import free_address
from tests.shipped import DIM
from tests.system.conftest import bundle_of
from tests.system.processes import Service, exit_code, get

SECONDS = 60
SHELL = re.compile("[~<>|&;#$]")
COMMANDS = (
    *("embed", "rerank", "classify", "compare", "attend", "heads", "tokens", "info", "models"),
    *("cache", "cache list", "cache remove", "doctor", "completion"),
)


@pytest.fixture
def environment(tmp_path: Path, rope: Service) -> dict[str, str]:
    """Variables of a user: a home, a cache with a model, a browser that keeps what it is given."""
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    browser = bin_folder / "browser"
    browser.write_text('#!/bin/sh\necho "$1" >>"$HOME/opened"\n')
    browser.chmod(0o755)
    bundle = tmp_path / "cache" / "all-MiniLM-L6-v2-0123456789ab" / "bundle"
    shutil.copytree(bundle_of("docs-rope"), bundle)
    manifest = json.loads((bundle / "manifest.json").read_text())
    (bundle / "manifest.json").write_text(json.dumps(manifest | {"name": "all-MiniLM-L6-v2"}))
    (tmp_path / "minilm").symlink_to(bundle)  # the name that examples have for one
    write_texts(tmp_path)
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith("HEADLIGHT_")
    }
    return {
        **inherited,
        "PATH": f"{Path(sys.executable).parent}:{inherited['PATH']}",
        "HOME": str(tmp_path),
        "BROWSER": str(browser),
        "HEADLIGHT_TARGET": rope.target,
        "HEADLIGHT_CACHE": str(tmp_path / "cache"),
        "PYTHONWARNINGS": "error",
    }


def shell(line: str, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a line as a user types it, in the folder of the user."""
    return subprocess.run(
        ["bash", "-c", line],
        cwd=environment["HOME"],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_every_example_of_a_help_works(
    command: str,
    environment: dict[str, str],
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In this process, which saves the start of another, unless the line needs a shell."""
    if command in ("rerank", "classify"):
        environment["HEADLIGHT_TARGET"] = request.getfixturevalue("reranker").target
    assert exit_code(*command.split(), "--help") == 0
    found = examples(capsys.readouterr().out)
    assert found
    before = set(Path(environment["HOME"]).rglob("*"))
    monkeypatch.chdir(environment["HOME"])
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    code: int | str | None
    for line in found:
        if SHELL.search(line):
            done = shell(line, environment)
            code, out, err = done.returncode, done.stdout, done.stderr
        else:
            code = exit_code(*shlex.split(line)[1:])
            out, err = capsys.readouterr()
        assert code == 0, (line, err)
        assert out or err or set(Path(environment["HOME"]).rglob("*")) != before


def test_the_commands_are_all_of_them() -> None:
    named = {name for names in commands.COMMANDS.values() for name in names}
    its_own = {"admin"}  # needs another service: tests/system/test_replaced_models.py
    assert named - set(PARTS) - its_own == {name.split()[0] for name in COMMANDS}


def test_the_first_commands_to_try_work_one_after_the_other(environment: dict[str, str]) -> None:
    shown = shell("headlight --help", environment).stdout
    serve, *asking = examples(shown, "first commands to try")
    target, http = free_address(), free_address()
    # The bundle that `make export` made, in place of that of a wheel.
    serving = environment | {
        "HEADLIGHT_BUNDLE": str(bundle_of("docs-rope")),
        "HEADLIGHT_GRPC": target,
        "HEADLIGHT_METRICS": http,
    }
    process = subprocess.Popen(
        ["bash", "-c", f"exec {serve}"], env=serving, stderr=subprocess.DEVNULL
    )
    try:
        end = time.monotonic() + SECONDS
        while True:
            assert process.poll() is None
            assert time.monotonic() < end
            try:
                get(http, "/readyz")
                break
            except OSError:
                time.sleep(0.05)
        for line in asking:
            done = shell(line, environment | {"HEADLIGHT_TARGET": target})
            assert done.returncode == 0, (line, done.stderr)
    finally:
        process.terminate()
        assert process.wait(SECONDS) == 0
    assert len(asking) == 2


def test_open_shows_the_page_in_the_browser(environment: dict[str, str]) -> None:
    home = Path(environment["HOME"])
    done = shell('headlight attend "join two paths" --open', environment)
    assert (done.returncode, done.stdout) == (0, "")
    [written] = re.findall(r"^headlight: wrote (\S+\.html): 4 layers of 8 heads, ", done.stderr)
    temporary = Path(written)
    assert temporary.stat().st_mode & 0o777 == 0o600
    assert temporary.read_text(encoding="utf-8").startswith("<!doctype html>")
    temporary.unlink()
    assert shell("headlight attend a --html a.html --open", environment).returncode == 0
    opened = (home / "opened").read_text().splitlines()
    assert opened == [temporary.as_uri(), (home / "a.html").as_uri()]


def test_without_a_browser_the_page_is_named(environment: dict[str, str]) -> None:
    gone = environment | {"BROWSER": "/nonexistent", "PATH": str(Path(sys.executable).parent)}
    gone |= {"DISPLAY": "", "WAYLAND_DISPLAY": "", "TERM": ""}
    bash = shutil.which("bash")
    assert bash
    done = subprocess.run(
        [bash, "-c", "headlight attend a --html a.html --open"],
        cwd=environment["HOME"],
        env=gone,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    last = "headlight: no browser could be opened here; open a.html in one"
    assert (done.returncode, done.stderr.splitlines()[-1]) == (0, last)


class Terminal:
    """A program on a terminal of 80 columns."""

    def __init__(self, *command: str, environment: Mapping[str, str]) -> None:
        self._screen, end = pty.openpty()
        fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.process = subprocess.Popen(
            command,
            cwd=environment["HOME"],
            env={**environment, "TERM": "xterm"},
            stdin=end,
            stdout=end,
            stderr=end,
            start_new_session=True,
        )
        os.close(end)
        self.shown = ""

    def type(self, keys: str) -> None:
        """Type some keys, after forgetting what was shown."""
        self.shown = ""
        os.write(self._screen, keys.encode())

    def read(self, until: str = "") -> str:
        """Return what is shown once it has these words; without any, at the program's end."""
        end = time.monotonic() + SECONDS
        while not until or until not in self.shown:
            assert select.select([self._screen], [], [], end - time.monotonic())[0], self.shown
            try:
                data = os.read(self._screen, 1 << 16)
            except OSError:  # the program ended
                data = b""
            if not data:
                assert not until, self.shown
                break
            self.shown += data.decode()
        return self.shown

    def close(self) -> None:
        """End the program."""
        self.process.kill()
        self.process.wait()
        os.close(self._screen)


@pytest.fixture
def terminals() -> Iterator[list[Terminal]]:
    opened: list[Terminal] = []
    yield opened
    for terminal in opened:
        terminal.close()


def test_in_a_terminal_vectors_are_short_and_elsewhere_whole(
    environment: dict[str, str], terminals: list[Terminal]
) -> None:
    command = ("headlight", "embed", "join two paths", "parse a date")
    terminals.append(Terminal(*command, environment=environment))
    first, second, note = terminals[0].read().replace("\r", "").splitlines()
    for line, text in ((first, "join two paths"), (second, "parse a date")):
        assert re.fullmatch(rf"{text} +(-?0\.\d{{4}} +){{3,}}… {DIM} dimensions, norm 1", line)
        assert len(line) <= 80
    assert note == "headlight: shortened for the terminal; --format text shows all numbers"
    terminals.append(Terminal(*command, "--format", "text", environment=environment))
    assert len(terminals[1].read().splitlines()[0].split()) in (DIM, 80)
    whole = shell('headlight embed "join two paths"', environment)
    assert (len(whole.stdout.split()), whole.stderr) == (DIM, "")


COMPLETIONS = {
    "headlight em": "bed",
    "headlight attend --lay": "er",
    "headlight embed --out texts.j": "sonl",
    "headlight embed --special-tokens pa": "rse",
    "headlight cache rem": "ove",
    "headlight serve --max-queue-t": "okens",
    "headlight export --calib": "ration",
}


@pytest.mark.parametrize("name", ["bash", "zsh"])
def test_a_shell_completes(
    name: str,
    scripts: dict[str, Path],
    environment: dict[str, str],
    terminals: list[Terminal],
) -> None:
    if name == "bash":
        command, load = ["bash", "--norc", "--noprofile", "-i"], f"source {scripts[name]}"
    else:
        load = f"fpath=({scripts[name].parent} $fpath); autoload -Uz compinit; compinit -u -D"
        command = ["zsh", "-f", "-i"]
    terminal = Terminal(*command, environment=environment)
    terminals.append(terminal)
    terminal.type(f"{load}; echo loa''ded\n")
    terminal.read("loaded")
    for typed, rest in COMPLETIONS.items():
        assert rest not in typed
        terminal.type(f"{typed}\t")
        terminal.read(rest)
        terminal.type("\x15echo emp''ty\n")  # Ctrl-U
        terminal.read("empty")


@pytest.fixture(scope="session")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The scripts that `headlight completion` prints."""
    folder = tmp_path_factory.mktemp("completion")
    found = {"bash": folder / "headlight.bash", "zsh": folder / "_headlight"}
    for name, path in found.items():
        with path.open("w", encoding="utf-8") as file, contextlib.redirect_stdout(file):
            assert exit_code("completion", name) == 0
    return found
