"""A shell that has only the installed package, and a record of the lines that ran in it."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from tests.ports import free_address, free_port
from tests.system.processes import get

SECONDS = 900  # an export on a busy machine
STOP_SECONDS = 60
SHOWN = 80  # characters of what was seen
NOISE = re.compile(r"Traceback|Warning:")


class Row(NamedTuple):
    """A line that ran, what it showed, and how long it took."""

    line: str
    seen: str
    seconds: float


@dataclasses.dataclass(frozen=True)
class Shell:
    """A user's shell in a folder of its own.

    Attributes:
        folder: the working directory.
        variables: all environment variables.
        rows: the lines that ran, of all shells together.
    """

    folder: Path
    variables: Mapping[str, str]
    rows: list[Row]

    def at(self, folder: Path, **variables: str) -> Shell:
        """Return the same shell in another folder, with more variables."""
        return dataclasses.replace(self, folder=folder, variables={**self.variables, **variables})

    def run(self, line: str, code: int = 0) -> str:
        """Run a line to its end; return what it showed, standard error at the end."""
        begin = time.monotonic()
        shown, errors = self._run(line, code)
        self._keep(line, errors or shown, time.monotonic() - begin)
        return shown + errors

    def _run(self, line: str, code: int = 0) -> tuple[str, str]:
        done = subprocess.run(
            ["bash", "-c", line],
            cwd=self.folder,
            env=dict(self.variables),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == code, (line, done.stdout[-1000:], done.stderr[-2000:])
        assert not NOISE.search(done.stderr), (line, done.stderr)
        return done.stdout, done.stderr

    @contextlib.contextmanager
    def serving(self, line: str) -> Iterator[Shell]:
        """Run a line that serves, on free ports; yield a shell whose commands ask this service."""
        target, http = free_address(), free_address()
        ports = {"HEADLIGHT_GRPC": target, "HEADLIGHT_METRICS": http}
        typed, port = line, free_port()
        if "0.0.0.0:50051" in line:
            line, target = line.replace("0.0.0.0:50051", f"0.0.0.0:{port}"), f"127.0.0.1:{port}"
        log = self.folder / "serve.log"
        begin = time.monotonic()
        with log.open("wb") as written:
            process = subprocess.Popen(
                ["bash", "-c", f"exec env {line}"],
                cwd=self.folder,
                env={**self.variables, **ports},
                stdin=subprocess.DEVNULL,
                stderr=written,
            )
        try:
            while not _is_ready(http):
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < begin + SECONDS, log.read_text()
                time.sleep(0.05)
            ready = time.monotonic() - begin
            asking = self.at(self.folder, HEADLIGHT_TARGET=target)
            trusting = " --tls-ca ca.pem" if "--tls-cert" in line else ""
            about, _ = asking._run(f"headlight info{trusting}")
            self._keep(typed, f"ready; `headlight info`: {' '.join(about.split())}", ready)
            yield asking
        finally:
            process.terminate()
            code = process.wait(STOP_SECONDS)
        said = log.read_text()
        assert code == 0, said
        assert not NOISE.search(said), said

    def _keep(self, line: str, seen: str, seconds: float) -> None:
        """Keep a row: the last line that was seen, without this machine's folders."""
        last = (seen.strip().splitlines() or ["nothing"])[-1].strip()
        for folder, name in ((self.folder, "."), (Path(self.variables["HOME"]), "~")):
            last = last.replace(str(folder), name)
        shown = "JSON" if last.startswith("{") else last[:SHOWN]
        self.rows.append(Row(line, shown, seconds))


def _is_ready(http: str) -> bool:
    with contextlib.suppress(OSError):
        get(http, "/readyz")
        return True
    return False
