"""Contestants of the bulk run: each is a command from a Parquet file to vectors in Parquet."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.frame.processes import QUIET, ROOT, Failed

HERE = sys.executable
PYTHON_OF = {
    "Ray": ".nox/bulk-bench",
    "sentence-transformers": ".nox/peer-torch",
    "fastembed": ".nox/peer-fastembed",
}
SECONDS = 1800
CORES = 2
TICKS = os.sysconf("SC_CLK_TCK")


@dataclasses.dataclass(frozen=True)
class Contestant:
    """One way to embed a table.

    Attributes:
        name: in the report.
        command: makes the command line of an input folder and an output, which has the ending
            .parquet or is a folder.
        precision: of the numbers.
        cores: that it computes on.
        asks: whether it needs the service.
        tells: whether it prints the seconds of its work, without what it takes to start.
    """

    name: str
    command: Callable[[str, str], Sequence[str]]
    precision: str = "fp32"
    cores: int = CORES
    asks: bool = False
    tells: bool = False


@dataclasses.dataclass(frozen=True)
class Cost:
    """Cost of one run: wall seconds, seconds that it tells, and CPU seconds of the machine."""

    seconds: float
    work_seconds: float | None
    cpu: float


def contestants(bundle: Path, model: Path, onnx: Path, target: str) -> list[Contestant]:
    """Return all contestants of these folders, and of the service at `target`."""

    def embed(*options: str) -> Callable[[str, str], Sequence[str]]:
        start = (HERE, "-m", "headlight", "embed")
        columns = ("--text-column", "body", "--id-column", "id", "--truncate", "end")
        return lambda source, out: (*start, source, *columns, "--out", out, *options)

    def ray(workers: int, *options: str) -> Callable[[str, str], Sequence[str]]:
        start = (python("Ray"), "examples/ray/embed_parquet.py")
        columns = ("--text-column", "body", "--id-column", "id", "--truncate", "end")
        # As many rows as keep all workers busy until the end.
        rows = ("--part-rows", "250", "--batch-rows", "250")
        options_of_job = (*columns, *rows, "--workers", str(workers), *options)
        return lambda source, out: (*start, source, out.removesuffix(".parquet"), *options_of_job)

    def peer(name: str, folder: Path) -> Callable[[str, str], Sequence[str]]:
        start = (python(name), "-m", "bench.bulk.peer", name, str(folder), str(CORES))
        return lambda source, out: (*start, source, out)

    local = ("--local", str(bundle))
    served = ("--target", target)
    return [
        Contestant("local", embed(*local)),
        Contestant("local int8", embed(*local, "--precision", "int8"), precision="int8"),
        Contestant("service", embed(*served), asks=True),
        Contestant("Ray, one worker", ray(1, "--bundle", str(bundle)), cores=1),
        Contestant("Ray, two workers", ray(2, "--bundle", str(bundle))),
        Contestant("Ray to a service", ray(1, *served), asks=True),
        Contestant(
            "engine",
            lambda source, out: (HERE, "-m", "bench.bulk.engine", str(bundle), source, out),
            tells=True,
        ),
        Contestant("sentence-transformers pool of 2", peer("sentence-transformers", model)),
        Contestant("fastembed parallel 2", peer("fastembed", onnx)),
    ]


def python(peer: str) -> str:
    """Return the interpreter of a peer's environment."""
    return str(ROOT / PYTHON_OF[peer] / "bin/python")


def run(contestant: Contestant, source: Path, out: Path, log: Path) -> Cost:
    """Run a contestant once.

    Raises:
        Failed: it ended with an error.
    """
    for stale in out.parent.glob(f"{out.stem}*"):
        (shutil.rmtree if stale.is_dir() else Path.unlink)(stale)
    before, begun = machine_cpu(), time.perf_counter()
    with log.open("w", encoding="utf-8") as errors:
        done = subprocess.run(
            contestant.command(str(source), str(out)),
            cwd=ROOT,
            env=os.environ | QUIET,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    seconds, cpu = time.perf_counter() - begun, machine_cpu() - before
    if done.returncode != 0:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
        raise Failed(f"{contestant.name}: {' '.join(lines[-1:]):.300} (see {log})")
    work_seconds = json.loads(done.stdout)["seconds"] if contestant.tells else None
    return Cost(seconds, work_seconds, cpu)


def machine_cpu() -> float:
    """Return the CPU seconds of all processes since the machine's start.

    Ray's processes are nobody's children, so the machine is counted, which must be idle.
    """
    counters = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()
    return sum(map(int, counters[1:4])) / TICKS
