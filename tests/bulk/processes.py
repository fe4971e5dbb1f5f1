"""Processes of a Ray cluster on loopback: nodes, workers, drivers, and their memory."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType

from tests.ports import free_port
from tests.system.processes import ROOT

EXAMPLE = ROOT / "examples/ray/embed_parquet.py"
RAY = (sys.executable, "-m", "ray.scripts.scripts")
# No reports, no token in the home folder, no warnings about a small machine.
ENVIRONMENT = {
    **os.environ,
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AUTH_MODE": "disabled",
    "PYTHONWARNINGS": "ignore",
}
OBJECT_STORE_BYTES = 200 * 2**20
NODE_CPUS = 3  # one for a worker of the job, two for tasks that read and write
START_SECONDS, STOP_SECONDS = 60.0, 20.0
SAMPLE_SECONDS = 0.5
EMBEDDER = "MapBatches(Embedder)"


def title(pid: int) -> str:
    """Return the command line of a process; empty: it has ended."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
    return ""


def resident_bytes(pid: int) -> int:
    """Return the resident memory of a process; 0: it has ended."""
    with contextlib.suppress(OSError):
        pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    return 0


def descendants(pids: Sequence[int]) -> list[int]:
    """Return the processes below some processes."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = path.read_text(encoding="utf-8").rpartition(")")[2].split()
            children.setdefault(int(fields[1]), []).append(int(path.parent.name))
    found, left = list[int](), list(pids)
    while left:
        below = children.get(left.pop(), [])
        found += below
        left += below
    return found


def workers(pids: Sequence[int]) -> dict[int, str]:
    """Return the workers below some processes, with what each does."""
    titles = {pid: title(pid) for pid in descendants(pids)}
    return {pid: each for pid, each in titles.items() if each.startswith("ray::")}


def driver(source: Path, output: Path, log: Path, *options: str) -> subprocess.Popen[bytes]:
    """Start the example."""
    command = [sys.executable, str(EXAMPLE), str(source), str(output), *options]
    with log.open("ab") as file:
        return subprocess.Popen(command, cwd=ROOT, env=ENVIRONMENT, stdout=file, stderr=file)


class Cluster:
    """Two nodes on loopback. Use as a context manager.

    Attributes:
        address: of the head.
    """

    def __init__(self) -> None:
        # The paths of Unix sockets in it must be short.
        self._folder = Path(tempfile.mkdtemp(prefix="hl", dir="/tmp"))
        self._nodes: list[subprocess.Popen[bytes]] = []
        port = free_port()
        self.address = f"127.0.0.1:{port}"
        try:
            head = ("--head", "--port", str(port), "--include-dashboard=false")
            self._start(*head, "--temp-dir", str(self._folder))
            self._wait("this node", 1)
            self._start("--address", self.address)
            self._wait("both nodes", 2)
        except BaseException:
            self.stop()
            raise

    @property
    def pids(self) -> list[int]:
        """The processes of both nodes that have started all others."""
        return [node.pid for node in self._nodes]

    def _start(self, *options: str) -> None:
        command = [
            *(*RAY, "start", *options, "--block", "--disable-usage-stats"),
            *("--node-ip-address", "127.0.0.1", "--num-cpus", str(NODE_CPUS)),
            *("--object-store-memory", str(OBJECT_STORE_BYTES)),
            *("--metrics-export-port", str(free_port())),
            *("--dashboard-agent-listen-port", str(free_port())),
        ]
        with (self._folder / f"node{len(self._nodes)}.log").open("wb") as log:
            self._nodes.append(
                subprocess.Popen(command, env=ENVIRONMENT, stdout=log, stderr=log, cwd="/tmp")
            )

    def _wait(self, what: str, count: int) -> None:
        end = time.monotonic() + START_SECONDS
        while True:
            logs = [path.read_text(errors="replace") for path in self._folder.glob("node*.log")]
            if sum("Ray runtime started" in log for log in logs) == count:
                return
            ended = [node for node in self._nodes if node.poll() is not None]
            if ended or time.monotonic() > end:
                raise AssertionError(f"{what} did not start: {logs[-1][-2000:]}")
            time.sleep(0.1)

    def stop(self) -> None:
        """End both nodes and all processes below them."""
        below = descendants(self.pids)
        for node in reversed(self._nodes):
            node.terminate()
        for node in self._nodes:
            try:
                node.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                node.kill()
                node.wait()
        for pid in below:
            if "ray" in title(pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, 9)
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Cluster:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


@contextlib.contextmanager
def sampled(processes: Mapping[str, int], nodes: Sequence[int]) -> Iterator[dict[str, list[int]]]:
    """Sample the resident memory of processes, and of each worker that embeds.

    Args:
        processes: their ids by name; the mapping may change meanwhile.
        nodes: whose workers.

    Yields:
        The samples in bytes, by name, or by `worker` and id.
    """
    samples: dict[str, list[int]] = {}
    ended = threading.Event()

    def sample() -> None:
        while not ended.wait(SAMPLE_SECONDS):
            embedders = {
                f"worker {pid}": pid for pid, each in workers(nodes).items() if EMBEDDER in each
            }
            for name, pid in {**processes, **embedders}.items():
                if size := resident_bytes(pid):
                    samples.setdefault(name, []).append(size)

    thread = threading.Thread(target=sample, daemon=True)
    thread.start()
    try:
        yield samples
    finally:
        ended.set()
        thread.join()


def growth(samples: Sequence[int]) -> tuple[float, float, float]:
    """Return MiB in the second quarter of a run, in the last, and at the peak."""
    quarter = max(1, len(samples) // 4)
    middle = sorted(samples[quarter : 2 * quarter] or samples)
    late = sorted(samples[-quarter:])
    sizes = (middle[len(middle) // 2], late[len(late) // 2], max(samples))
    first, last, peak = (round(size / 2**20, 1) for size in sizes)
    return first, last, peak
