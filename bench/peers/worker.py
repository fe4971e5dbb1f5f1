"""Worker side of a benchmark process: it reads requests, runs them, and reports their cost.

A request is `{"op": name, ...}`. The answer is the result of that name's handler, or `{"error":
text}`.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import resource
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

Handlers = dict[str, Callable[..., dict[str, Any]]]


def answer(handlers: Handlers) -> None:
    """Serve requests until the parent closes its end."""
    # Libraries print to standard output, so the answers get a copy of it for themselves.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            result = handlers[request.pop("op")](**request)
        except Exception as error:  # the parent decides how the run goes on
            result = {"error": f"{type(error).__name__}: {' '.join(str(error).split()):.500}"}
        out.write(json.dumps(result) + "\n")
        out.flush()


def read_texts(path: str) -> list[str]:
    """Read the texts that all contestants get."""
    texts: list[str] = json.loads(Path(path).read_text(encoding="utf-8"))["texts"]
    return texts


def groups(order: Sequence[int], size: int) -> list[Sequence[int]]:
    """Cut `order` into calls of `size`; 0: all in one."""
    size = size or len(order)
    return [order[at : at + size] for at in range(0, len(order), size)]


def cpu_seconds() -> float:
    """Return the CPU time of this process and of all below it, ended ones included."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ended.ru_utime + ended.ru_stime + _below(os.getpid())


def cpu_seconds_of(pid: int) -> float:
    """Return the CPU time of a process and of all below it, ended ones included."""
    stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii")
    ended = sum(map(int, stat.rpartition(")")[2].split()[13:15]))
    itself = time.clock_gettime((~pid << 3) | 2)  # by the kernel's process clock
    return itself + ended / os.sysconf("SC_CLK_TCK") + _below(pid)


def _below(pid: int) -> float:
    seconds = 0.0
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        children: list[str] = []
        with contextlib.suppress(OSError):  # the thread has ended
            children = task.read_text(encoding="ascii").split()
        for child in children:
            with contextlib.suppress(OSError):  # the child has
                seconds += cpu_seconds_of(int(child))
    return seconds


def timed(calls: Iterable[Callable[[], object]]) -> dict[str, Any]:
    """Make calls one after another.

    Returns:
        seconds and CPU seconds of all, and the seconds of each.
    """
    latencies = []
    begin, cpu = time.perf_counter(), cpu_seconds()
    for call in calls:
        start = time.perf_counter()
        call()
        latencies.append(time.perf_counter() - start)
    return {
        "seconds": time.perf_counter() - begin,
        "cpu": cpu_seconds() - cpu,
        "latencies": latencies,
    }


def described(packages: Iterable[str], precision: str) -> dict[str, Any]:
    """Return the versions of packages, and the precision that the loaded model reports."""
    return {"versions": {each: version(each) for each in packages}, "precision_told": precision}


def answer_library(
    encode: Callable[[Sequence[int], int], Any], count: int, describe: Callable[[], dict[str, Any]]
) -> None:
    """Serve requests to a library in this process.

    Args:
        encode: returns the vectors of the texts of these indices, in batches of a size.
        count: number of texts.
        describe: returns its versions, and the precision that it reports.
    """

    def run(order: list[int], group: int, batch_size: int) -> dict[str, Any]:
        return timed(functools.partial(encode, part, batch_size) for part in groups(order, group))

    def vectors(path: str) -> dict[str, Any]:
        return save_vectors(path, encode(range(count), 32))

    answer({"describe": describe, "run": run, "vectors": vectors})


def save_vectors(path: str, vectors: Any) -> dict[str, Any]:
    """Write float32 [N, D] for the parent to compare."""
    np.save(path, np.asarray(vectors, dtype=np.float32))
    return {}
