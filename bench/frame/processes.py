"""Processes of a run: workers that answer lines of JSON, and services; CPU time and memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from bench.peers.worker import cpu_seconds_of

ROOT = Path(__file__).resolve().parents[2]
STOP_SECONDS = 30
START_SECONDS = 300  # vLLM compiles at its first start
RUN_SECONDS = 1800  # of a conversion, which calibrates
ANY_PORTS = ("--grpc", "127.0.0.1:0", "--metrics", "127.0.0.1:0", "--api", "127.0.0.1:0")
# No access to a hub, no usage reports, and no time lost on progress bars.
QUIET = {
    "HF_HUB_OFFLINE": "1",
    "DO_NOT_TRACK": "1",
    "ORT_DISABLE_TELEMETRY": "1",
    "TQDM_DISABLE": "1",
}


class Failed(RuntimeError):
    """A contestant cannot take part; the message has the reason."""


class Process:
    """One process, its standard error in a file."""

    def __init__(
        self,
        command: Sequence[str],
        log: Path,
        environment: Mapping[str, str] | None = None,
        folder: Path = ROOT,
        *,
        piped: bool = False,
    ) -> None:
        """Start it. `piped`: for its standard input and output."""
        log.parent.mkdir(parents=True, exist_ok=True)
        clean = {
            name: value for name, value in os.environ.items() if not name.startswith("HEADLIGHT_")
        }
        pipe = subprocess.PIPE if piped else None
        self.log = log
        with log.open("w", encoding="utf-8") as errors:
            self._process = subprocess.Popen(
                command,
                cwd=folder,
                env=clean | QUIET | dict(environment or {}),
                stdin=pipe,
                stdout=pipe,
                stderr=errors,
                text=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def cpu_seconds(self) -> float:
        """CPU time of it and of all processes below it, since their start."""
        return cpu_seconds_of(self._process.pid)

    @property
    def resident(self) -> int:
        """Its bytes in RAM."""
        pages = Path(f"/proc/{self._process.pid}/statm").read_text(encoding="ascii").split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    def failure(self) -> Failed:
        """Return the end of its log as an error."""
        lines = [
            line
            for line in self.log.read_text(encoding="utf-8", errors="replace").splitlines()
            if line.strip()
        ]
        return Failed(f"{' '.join(lines[-1:]):.400} (see {self.log.name})")

    def close(self) -> None:
        """End it, by its id."""
        streams: list[IO[str] | None] = [self._process.stdin, self._process.stdout]
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for stream in streams:
            if stream is not None:
                stream.close()


class Worker(Process):
    """Parent side of bench.peers.worker."""

    def __init__(self, python: Path | str, module: str, *arguments: str, log: Path) -> None:
        super().__init__([str(python), "-m", module, *arguments], log, piped=True)

    def ask(self, op: str, **fields: Any) -> dict[str, Any]:
        """Send a request and wait for its answer.

        Raises:
            Failed: the worker ended, or reported an error.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps({"op": op, **fields}) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self.failure() from None
        line = self._process.stdout.readline()
        if not line:
            self._process.wait(STOP_SECONDS)
            raise self.failure()
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise Failed(answer["error"])
        return answer


class Service(Process):
    """Server that logs its ports and then "serving", as JSON: Headlight, or one like it.

    Attributes:
        ports: by name, such as "grpc".
    """

    def __init__(
        self,
        command: Sequence[str],
        log: Path,
        seconds: float = START_SECONDS,
        *,
        folder: Path = ROOT,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Start it, and wait. Raises Failed if it is not ready in that time."""
        super().__init__(command, log, environment, folder)
        try:
            events = wait_for(self._serving, self, seconds)
        except Failed:
            self.close()
            raise
        self.ports = {
            name.removesuffix("_port"): port
            for event in events
            for name, port in event.items()
            if name.endswith("_port")
        }

    def address(self, door: str = "grpc") -> str:
        """Return the address of a frontend."""
        return f"127.0.0.1:{self.ports[door]}"

    def _serving(self) -> list[dict[str, Any]]:
        """Return its log if it serves."""
        lines = self.log.read_text(encoding="utf-8").splitlines()
        events = [json.loads(line) for line in lines if line[:1] == "{" and line[-1:] == "}"]
        return events if any(each.get("event") == "serving" for each in events) else []


def serve(bundle: Path, *flags: str) -> list[str]:
    """Return the command that serves a bundle, as a user starts it."""
    return [sys.executable, "-m", "headlight", "serve", "--bundle", str(bundle.absolute()), *flags]


def run(command: Sequence[str], *, seconds: float = RUN_SECONDS) -> str:
    """Run a command to its end, and return its output.

    Raises:
        Failed: it ended with an error; the message has the end of what it reported.
    """
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | QUIET,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    if done.returncode != 0:
        raise Failed(" ".join(done.stderr.split())[-300:])
    return done.stdout


def installed(python: Path) -> Path:
    """Return the interpreter of a peer's environment. Raises Failed without it."""
    if not python.exists():
        raise Failed(f"{python.parent.parent.name} is not installed: nox -s NAME does")
    return python


def wait_for(ready: Any, process: Process, seconds: float, pause: float = 0.1) -> Any:
    """Call until the result is true, with pauses between.

    Raises:
        Failed: the process ends first, or the time is up.
    """
    deadline = time.monotonic() + seconds
    while not (result := ready()):
        if process.ended:
            raise process.failure()
        if time.monotonic() > deadline:
            raise Failed(f"not ready after {seconds:.0f} s (see {process.log.name})")
        time.sleep(pause)
    return result
