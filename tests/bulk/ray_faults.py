"""Kills of workers, actors, the service and the driver, while Ray embeds files of Parquet.

python -m tests.bulk.ray_faults BUNDLE --rows 20000 --kills 4
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import subprocess
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tests.bulk.processes import EMBEDDER, Cluster, driver, growth, sampled, workers
from tests.bulk.rows import compare, read_vectors, write_rows
from tests.ports import free_address
from tests.system.processes import Service

PART_ROWS = 2000
# Workers of Ray Data. A node ends with its agents, which are workers too.
TASK = re.compile(r"ray::(Read|StreamingRepartition|Write|MapWorker\(CheckpointFilter)")
LAST_KILL = 70  # percent of the parts: the run must not end before
WORKERS = 2
RUN_SECONDS = 900.0  # of one uninterrupted or resumed run
JITTER_SECONDS = 0.5  # after a part, so that kills hit all kinds of work
POLL_SECONDS = 0.05
KINDS = {
    "bundle": ("worker", "actor", "driver"),
    "target": ("worker", "actor", "service", "driver"),
}


class Job:
    """A run of the example on a cluster, resumed until it ends.

    Attributes:
        processes: driver and service by name.
        kills: the number of each kind.
        starts: how often the command was given.
        service: its process; None: the workers compute.
    """

    def __init__(self, cluster: Cluster, bundle: Path, source: Path, output: Path, mode: str):
        self._cluster, self._bundle, self._source, self.output = cluster, bundle, source, output
        self._log = output.with_suffix(".log")
        self.processes: dict[str, int] = {}
        self.kills: Counter[str] = Counter()
        self.starts = 0
        self.service: Service | None = None
        self._address = free_address()
        self._options: tuple[str, ...] = ("--bundle", str(bundle))
        if mode == "target":
            self._serve()
            self._options = ("--target", self._address)
        self._start()

    def _serve(self) -> None:
        self.service = Service(self._bundle, grpc_at=self._address)
        self.processes["service"] = self.service.process.pid

    def _start(self) -> None:
        self.starts += 1
        self._driver = driver(
            self._source,
            self.output,
            self._log,
            *self._options,
            *("--address", self._cluster.address, "--workers", str(WORKERS)),
            *("--part-rows", str(PART_ROWS), "--batch-rows", str(PART_ROWS // 2)),
        )
        self.processes["driver"] = self._driver.pid

    def parts(self) -> int:
        """Return the number of finished parts."""
        folder = self.output.with_name(f"{self.output.name}.checkpoint")
        return sum(1 for path in folder.glob("*.parquet") if ".pending" not in path.name)

    def wait(self, parts: int) -> bool:
        """Wait until so many parts are finished; return False if the run has ended before."""
        end = time.monotonic() + RUN_SECONDS
        while self.parts() < parts:
            if self._driver.poll() is not None:
                return False
            assert time.monotonic() < end, self.log()
            time.sleep(POLL_SECONDS)
        return True

    def kill(self, kind: str, rng: random.Random) -> None:
        """Kill a process of a kind, and start again what starts no other way."""
        if kind == "driver":
            self._driver.kill()
            self._driver.wait()
            self._start()
        elif kind == "service":
            assert self.service is not None
            self.service.process.kill()
            self._end_service()
            self._serve()
        else:
            os.kill(rng.choice(self._candidates(kind)), signal.SIGKILL)
        self.kills[kind] += 1

    def _candidates(self, kind: str) -> list[int]:
        """Return the ids of running embedders, or of workers with another task."""
        end = time.monotonic() + RUN_SECONDS
        while time.monotonic() < end and self._driver.poll() is None:
            found = workers(self._cluster.pids)
            chosen = [
                pid
                for pid, title in found.items()
                if (EMBEDDER in title if kind == "actor" else TASK.match(title))
            ]
            if chosen:
                return chosen
            time.sleep(POLL_SECONDS)
        raise AssertionError(f"there is no {kind} to kill: {self.log()}")

    def finish(self) -> None:
        """Wait for the end of the run."""
        try:
            code = self._driver.wait(RUN_SECONDS)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the run has not ended: {self.log()}") from None
        assert code == 0, self.log()

    def close(self) -> None:
        """End all processes of the job."""
        if self._driver.poll() is None:
            self._driver.kill()
            self._driver.wait()
        if self.service is not None:
            self.service.terminate()
            self._end_service()

    def _end_service(self) -> None:
        assert self.service is not None
        self.service.wait()
        assert self.service.process.stderr is not None
        self.service.process.stderr.close()

    def log(self) -> str:
        """Return the end of the driver's log."""
        return self._log.read_text(encoding="utf-8", errors="replace")[-3000:]


def run(
    job: Job, cluster: Cluster, parts: int, kills: int, kinds: tuple[str, ...], seed: int
) -> Any:
    """Run a job with kills at random points; return its numbers."""
    rng = random.Random(seed)
    points = sorted(rng.sample(range(1, LAST_KILL * parts // 100), kills))
    order = [kinds[at % len(kinds)] for at in range(kills)]
    rng.shuffle(order)
    begun = time.monotonic()
    try:
        with sampled(job.processes, cluster.pids) as samples:
            for point, kind in zip(points, order, strict=True):
                if not job.wait(point):
                    break
                time.sleep(rng.uniform(0, JITTER_SECONDS))
                job.kill(kind, rng)
            job.finish()
    finally:
        job.close()
    return {
        "seconds": round(time.monotonic() - begun, 1),
        "kills": dict(job.kills),
        "starts": job.starts,
        "MiB (second quarter, last quarter, peak)": {
            name: growth(each) for name, each in samples.items() if len(each) >= 8
        },
    }


def faults(folder: Path, bundle: Path, *, rows: int, kills: int, seed: int = 0) -> dict[str, Any]:
    """Run jobs with and without kills on a cluster of two nodes; return their numbers.

    Args:
        folder: for the files of the jobs.
        bundle: the model.
        rows: of the input.
        kills: in all: half with computing workers, half with a service.
        seed: of the points and the victims.
    """
    source = write_rows(folder / "texts", rows)
    parts = rows // PART_ROWS
    found: dict[str, Any] = {"rows": rows, "part rows": PART_ROWS, "seed": seed}
    with Cluster() as cluster:
        whole = folder / "whole"
        found["uninterrupted"] = run(
            Job(cluster, bundle, source, whole, "bundle"), cluster, parts, 0, (), seed
        )
        expected = read_vectors(whole)
        for mode, kinds in KINDS.items():
            count = kills // 2 if mode == "bundle" else kills - kills // 2
            output = folder / mode
            job = Job(cluster, bundle, source, output, mode)
            numbers = run(job, cluster, parts, count, kinds, seed)
            found[mode] = numbers | compare(read_vectors(output), expected)
    return found


def main() -> None:
    """Run the command and print the numbers as JSON."""
    made = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    made.add_argument("bundle", type=Path)
    made.add_argument("--rows", type=int, default=200_000)
    made.add_argument("--kills", type=int, default=20)
    made.add_argument("--seed", type=int, default=0)
    asked = made.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        numbers = faults(
            Path(folder), asked.bundle, rows=asked.rows, kills=asked.kills, seed=asked.seed
        )
    print(json.dumps(numbers, indent=2))


if __name__ == "__main__":
    main()
