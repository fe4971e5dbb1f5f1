"""Seconds from `headlight serve MODEL` to the first answer, with an empty cache and a full one.

    python -m bench.first_answer build/serving/model

The model is a folder, so there is no download. It writes bench/results/first-answer.md.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.measuring import machine, publish
from bench.serving.processes import Process, wait_for
from headlight import Client

OUT = Path("bench/results/first-answer.md")
START_SECONDS = 600
LOOK_SECONDS = 0.02


@contextlib.contextmanager
def served(folder: Path, cache: Path) -> Iterator[float]:
    """Serve the model, ask it once, and yield the seconds that it took."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    target = f"127.0.0.1:{port}"
    command = [sys.executable, "-m", "headlight", "serve", str(folder), "--grpc", target]
    command += ["--http", "127.0.0.1:0", "--rest", "off", "--log-level", "warning"]
    log = cache.parent / "serve.log"
    begun = time.monotonic()
    process = Process(command, log, {"HEADLIGHT_CACHE": str(cache)})
    try:
        # A client's own pauses between attempts are up to a second.
        wait_for(lambda: is_open(port), process, START_SECONDS, LOOK_SECONDS)
        with Client(target) as client:
            client.encode("two paths")
        yield time.monotonic() - begun
    finally:
        process.close()


def is_open(port: int) -> bool:
    """Return whether something listens on this port of loopback."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def measure(folder: Path, cold: int, warm: int) -> tuple[list[float], list[float]]:
    """Return the seconds of each start with an empty cache, and of those that follow."""
    empty, full = [], []
    with tempfile.TemporaryDirectory() as place:
        cache = Path(place) / "cache"
        for _ in range(cold):
            shutil.rmtree(cache, ignore_errors=True)
            with served(folder, cache) as seconds:
                empty.append(seconds)
        for _ in range(warm):
            with served(folder, cache) as seconds:
                full.append(seconds)
    return empty, full


def row(name: str, found: list[float]) -> str:
    """Return a row of the table."""
    median, least, most = statistics.median(found), min(found), max(found)
    return f"| {name} | {median:.1f} s | {least:.1f} to {most:.1f} s | {len(found)} |"


def main() -> None:
    """Measure and publish."""
    parser = argparse.ArgumentParser(prog="python -m bench.first_answer", description=__doc__)
    parser.add_argument("model", type=Path, help="folder of the model")
    parser.add_argument("--cold", type=int, default=3, help="starts with an empty cache")
    parser.add_argument("--warm", type=int, default=7, help="starts with a full one")
    options = parser.parse_args()
    empty, full = measure(options.model, options.cold, options.warm)
    size = sum(path.stat().st_size for path in options.model.rglob("*.safetensors")) / 1e6
    publish(
        OUT,
        [
            "# From `headlight serve MODEL` to the first answer",
            "",
            machine(("torch", "onnx", "onnxruntime", "huggingface_hub")),
            "",
            f"`python -m bench.first_answer {options.model}`: a BERT of {size:.0f} MB, a folder.",
            "A start with an empty cache exports and proves the model, and serves it. A start with",
            "a full cache serves it. The answer is one vector, over the wire.",
            "The caller looks for the open port every 20 ms.",
            "",
            "| cache | median | least to largest | starts |",
            "|---|---|---|---|",
            row("empty", empty),
            row("full", full),
        ],
    )


if __name__ == "__main__":
    main()
