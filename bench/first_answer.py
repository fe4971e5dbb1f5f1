"""Seconds from `headlight serve MODEL` to the first answer, with an empty cache and a full one.

    python -m bench.first_answer build/serving/model

The model is a folder, so there is no download. It writes bench/results/first-answer.md.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import re
import shutil
import socket
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from bench.frame.machine import machine
from bench.frame.processes import Process, wait_for
from bench.frame.report import parser, publish, table
from bench.frame.rounds import spread
from headlight import Client

START_SECONDS = 600
STARTS = ("cache", "median", "least to largest", "starts")
LOOK_SECONDS = 0.02
LEAST_SECONDS = 0.05  # of a part that is listed
LOG = "serve.log"
PART = re.compile(r"^(?:\d+\.\d s  )?([^,:]+)")  # of a message: without its seconds and details


@contextlib.contextmanager
def served(folder: Path, cache: Path) -> Iterator[float]:
    """Serve the model, ask it once, and yield the seconds that it took."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    target = f"127.0.0.1:{port}"
    command = [sys.executable, "-m", "headlight", "serve", str(folder), "--grpc", target]
    command += ["--metrics", "127.0.0.1:0", "--api", "off", "--log-format", "json"]
    log = cache.parent / LOG
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


def parts(log: Path) -> dict[str, float]:
    """Return the seconds that followed each message of a start's log, by the message's begin."""
    lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    times = [datetime.datetime.fromisoformat(line["time"]).timestamp() for line in lines]
    seconds = defaultdict[str, float](float)
    for line, begun, ended in zip(lines, times, times[1:], strict=False):
        if line["event"] == "serving":
            break
        if name := PART.match(line["message"]):
            seconds[name[1]] += ended - begun
    return seconds


def measure(
    folder: Path, cold: int, warm: int
) -> tuple[list[float], list[float], list[dict[str, float]]]:
    """Return the seconds of each start with an empty cache, of those that follow, and the parts.

    The parts are of the starts with an empty cache.
    """
    empty, full, parts_of_starts = [], [], []
    with tempfile.TemporaryDirectory() as folder_name:
        cache = Path(folder_name) / "cache"
        for _ in range(cold):
            shutil.rmtree(cache, ignore_errors=True)
            with served(folder, cache) as seconds:
                empty.append(seconds)
            parts_of_starts.append(parts(cache.parent / LOG))
        for _ in range(warm):
            with served(folder, cache) as seconds:
                full.append(seconds)
    return empty, full, parts_of_starts


def row(name: str, seconds: list[float]) -> tuple[str, ...]:
    """Return a row of the table."""
    median, least, most = spread(seconds)
    return name, f"{median:.1f} s", f"{least:.1f} to {most:.1f} s", str(len(seconds))


def main() -> None:
    """Measure and publish."""
    made = parser("bench.first_answer", __doc__, "first-answer.md")
    made.add_argument("model", type=Path, help="folder of the model")
    made.add_argument("--cold", type=int, default=3, help="starts with an empty cache")
    made.add_argument("--warm", type=int, default=7, help="starts with a full one")
    options = made.parse_args()
    empty, full, parts_of_starts = measure(options.model, options.cold, options.warm)
    size = sum(path.stat().st_size for path in options.model.rglob("*.safetensors")) / 1e6
    medians = {
        name: statistics.median([each[name] for each in parts_of_starts])
        for name in parts_of_starts[0]
    }
    publish(
        options.out,
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
            *table(STARTS, (row("empty", empty), row("full", full))),
            "",
            "Where the time of a start with an empty cache goes, by the service's log:",
            "",
            *table(
                ("after the message", "median"),
                (
                    (
                        name.replace(str(options.model.resolve()), str(options.model)),
                        f"{each:.1f} s",
                    )
                    for name, each in medians.items()
                    if each >= LEAST_SECONDS
                ),
            ),
        ],
    )


if __name__ == "__main__":
    main()
