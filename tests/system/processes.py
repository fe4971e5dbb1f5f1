"""The real service in a process of its own.

Started on free ports, awaited by its log, stopped by process id.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from headlight.cli.main import main
from headlight.model_store.model_cache import VARIABLE
from tests.ports import free_address

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 60
STOP_SECONDS = 60


def _served(model: Path | str | Sequence[Path]) -> list[str]:
    """Return the words of the command line that name what is served."""
    if isinstance(model, Path):
        return ["--bundle", str(model)]
    return [model] if isinstance(model, str) else [*map(str, model)]


class Service:
    """`headlight serve` on loopback, or another module that runs it. Use as a context manager.

    Attributes:
        target: host:port of gRPC.
        http: host:port of operational HTTP.
        rest: host:port of the HTTP frontend; empty: it is off.
        log: the parsed lines of its log so far.
    """

    def __init__(
        self,
        model: Path | str | Sequence[Path],
        *options: str,
        grpc_at: str = "127.0.0.1:0",
        module: Sequence[str] = ("headlight", "serve"),
        before: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Start it and wait until it serves.

        Args:
            model: the bundle that it serves, several, or a name: MODEL of the command line.
            options: of the command line.
            grpc_at: where it listens.
            module: what to run in place of the service.
            before: a command that runs the command behind it in its place, as setpriv does.
            environment: variables to add.
        """
        ports = ("--grpc", grpc_at, "--metrics", "127.0.0.1:0", "--api", "127.0.0.1:0")
        command = [
            *before,
            sys.executable,
            "-W",
            "error",
            "-m",
            *module,
            *_served(model),
            *ports,
            *options,
        ]
        inherited = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("HEADLIGHT_") or name == VARIABLE
        }
        variables = inherited | dict(environment or {})
        self.process = subprocess.Popen(
            command, cwd=ROOT, env=variables, stderr=subprocess.PIPE, text=True
        )
        self.log: list[dict[str, Any]] = []
        self._lines: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        listening = self.wait_for("listening")
        self.target = f"{grpc_at.partition(':')[0]}:{listening['grpc_port']}"
        self.http = f"127.0.0.1:{listening['metrics_port']}"
        self.rest = f"127.0.0.1:{listening['api_port']}" if "api_port" in listening else ""
        self.wait_for("serving")

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            try:
                entry = json.loads(line)
            except ValueError:
                entry = {"event": "not json", "line": line}
            self.log.append(entry)
            self._lines.put(entry)
        self._lines.put(None)

    def wait_for(self, event: str) -> dict[str, Any]:
        """Return the next log entry with this event."""
        try:
            while (entry := self._lines.get(timeout=START_SECONDS)) is not None:
                if entry.get("event") == event:
                    return entry
        except queue.Empty:
            raise AssertionError(
                f"no {event!r} for {START_SECONDS} s; its log: {self.log[-5:]}"
            ) from None
        raise AssertionError(f"the service ended before {event!r}; its log: {self.log[-5:]}")

    def counted(self, name: str | tuple[str, ...]) -> float:
        """Return the sum of the metric series whose lines begin with one of these prefixes."""
        lines = get(self.http, "/metrics").splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith(name))

    def failures(self) -> list[dict[str, Any]]:
        """Return the errors in its log, all of them once it has ended."""
        return [entry for entry in self.log if entry.get("level") in ("error", "critical")]

    def open_files(self) -> int:
        """Return the number of open descriptors of the process."""
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def resident_bytes(self) -> int:
        """Return the resident memory of the process."""
        pages = Path(f"/proc/{self.process.pid}/statm").read_text(encoding="ascii").split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def peak_bytes(self) -> int:
        """Return the peak resident memory of the process, or since the peak was reset."""
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        return 1024 * int(status.split("VmHWM:")[1].split()[0])

    def forget_peak(self) -> None:
        """Reset `peak_bytes` to the resident memory now."""
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5", encoding="ascii")

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.process.send_signal(signal.SIGTERM)

    def wait(self) -> int:
        """Return the exit code."""
        code = self.process.wait(timeout=STOP_SECONDS)
        self._reader.join(timeout=5)
        return code

    def __enter__(self) -> Service:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.terminate()
        try:
            code = self.wait()
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        finally:
            if self.process.stderr is not None:
                self.process.stderr.close()
        if kind is None:
            assert code == 0, self.log[-5:]
            assert all(entry["event"] != "not json" for entry in self.log), self.log


def exit_code(*arguments: str) -> int | str | None:
    """Run the command `headlight` in this process until it ends, and return its exit code."""
    try:
        return main(arguments)
    except SystemExit as ended:
        return ended.code


def get(address: str, path: str) -> str:
    """Return a page over HTTP."""
    with urllib.request.urlopen(f"http://{address}{path}", timeout=60) as answer:
        return str(answer.read().decode())


@contextlib.contextmanager
def by_hand(
    *options: str,
    bundle: Path | None,
    stderr: int,
    before: Sequence[str] = (),
    program: Sequence[str] = (sys.executable, "-m", "headlight"),
    cwd: Path = ROOT,
    environment: Mapping[str, str] | None = None,
    seconds: float = START_SECONDS,
) -> Iterator[tuple[subprocess.Popen[bytes], str, str]]:
    """A service whose log is not read, once it is ready.

    The process and its addresses for gRPC and HTTP.

    Args:
        options: of `headlight serve`.
        bundle: None: the shipped model.
        stderr: where its log goes.
        before: a command that runs the command behind it in its place.
        program: the command `headlight`.
        cwd: where it is started.
        environment: all of its variables; None: those of this process.
        seconds: that it may take to be ready.
    """
    target, http = free_address(), free_address()
    served = () if bundle is None else ("--bundle", str(bundle))
    command = [
        *before,
        *program,
        "serve",
        *served,
        "--grpc",
        target,
        "--metrics",
        http,
        "--api",
        "127.0.0.1:0",
        *options,
    ]
    process = subprocess.Popen(command, cwd=cwd, env=environment, stderr=stderr)
    try:
        end = time.monotonic() + seconds
        while True:
            with contextlib.suppress(OSError):
                get(http, "/readyz")
                break
            assert process.poll() is None
            assert time.monotonic() < end
            time.sleep(0.05)
        yield process, target, http
    finally:
        process.kill()
        process.wait()
