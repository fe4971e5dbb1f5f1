"""Kills of `headlight embed` on a table: in one process, and over a service that is killed too.

python -m tests.bulk.table_faults BUNDLE --rows 20000 --kills 4
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from headlight.cli.files import PARTIAL
from tests.bulk.processes import growth, sampled
from tests.bulk.rows import BAD, write_rows
from tests.ports import free_address
from tests.system.killing import embed, finish, kill_midway, parts_in, started
from tests.system.processes import Service

COLUMNS = ("--text-column", "text", "--id-column", "id")
RUN_SECONDS = 900.0
POLL_SECONDS = 0.05


def measured(command: Sequence[str]) -> dict[str, Any]:
    """Run a command to its end. Return its seconds and its memory."""
    begun, job = time.monotonic(), started(command)
    with sampled({"command": job.pid}, []) as samples:
        _, errors = job.communicate(timeout=RUN_SECONDS)
    assert job.returncode == PARTIAL, errors
    return {
        "seconds": round(time.monotonic() - begun, 1),
        "MiB (second quarter, last quarter, peak)": growth(samples["command"]),
    }


def killed(command: Sequence[str], out: Path, kills: int, draw: random.Random) -> str:
    """Kill a command again and again, and then let it end. Return what it reports at last."""
    folder = out.with_name(f"{out.name}.partial")
    for _ in range(kills):
        kill_midway(command, folder, draw)
    assert parts_in(folder)
    return finish(command, RUN_SECONDS)


def kill_services(
    command: Callable[[str], Sequence[str]],
    bundle: Path,
    out: Path,
    kills: int,
    draw: random.Random,
) -> int:
    """Kill a job and the service that it asks, and let it end. Return the services killed."""
    address, folder = free_address(), out.with_name(f"{out.name}.partial")
    service, ended = Service(bundle, grpc_at=address), 0
    try:
        for _ in range(kills // 2):
            kill_midway(command(address), folder, draw)
            job, before = started(command(address)), parts_in(folder)
            while parts_in(folder) == before and job.poll() is None:
                time.sleep(POLL_SECONDS)
            assert job.poll() is None, "the job ended before its service was killed"
            service.process.kill()
            service.process.communicate()
            ended += 1
            service = Service(bundle, grpc_at=address)
            before = parts_in(folder)
            while parts_in(folder) == before and job.poll() is None:
                time.sleep(POLL_SECONDS)
            job.kill()
            job.communicate()
        finish(command(address), RUN_SECONDS)
    finally:
        service.process.kill()
        service.process.communicate()
    return ended


def compare(found: Path, expected: Path, rows: int) -> dict[str, Any]:
    """Return the rows missing or repeated, and how far the vectors are apart."""
    tables = [pq.read_table(path) for path in (found, expected)]
    ids, wanted = (table.column("id").to_numpy() for table in tables)
    one, other = (
        np.asarray(table.column("embedding").combine_chunks().flatten()).reshape(len(table), -1)
        for table in tables
    )
    rejected = found.with_name(f"{found.stem}.rejected.jsonl").read_text("utf-8").splitlines()
    every = sorted([*ids.tolist(), *(json.loads(line)["id"] for line in rejected)])
    return {
        "rows": len(ids),
        "rejected": len(rejected),
        "each row once, in order": every == list(range(rows)) and bool((ids == wanted).all()),
        "largest difference": float(np.abs(one - other).max()),
        "bit-equal share": float((one == other).all(axis=1).mean()),
        "same bytes": found.read_bytes() == expected.read_bytes(),
    }


def faults(folder: Path, bundle: Path, *, rows: int, kills: int, seed: int = 0) -> dict[str, Any]:
    """Run jobs with and without kills. Return their numbers.

    Args:
        folder: for the files of the jobs.
        bundle: the model.
        rows: of the input.
        kills: of each kind of job.
        seed: of the points.
    """
    source, draw = str(write_rows(folder / "texts", rows)), random.Random(seed)
    whole, local, served = (folder / f"{name}.parquet" for name in ("whole", "local", "served"))

    def command(out: Path, *options: str) -> list[str]:
        return embed(source, *COLUMNS, "--out", str(out), *options)

    here = ("--local", str(bundle))
    found: dict[str, Any] = {"rows": rows, "kills": kills, "bad": len(BAD) * rows // 1000}
    found["uninterrupted"] = measured(command(whole, *here))
    killed(command(local, *here), local, kills, draw)
    found["local"] = compare(local, whole, rows)
    found["killed services"] = kill_services(
        lambda address: command(served, "--target", address), bundle, served, kills, draw
    )
    found["service"] = compare(served, whole, rows)
    return found


def main() -> None:
    """Run the command and print the numbers as JSON."""
    made = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    made.add_argument("bundle", type=Path)
    made.add_argument("--rows", type=int, default=200_000)
    made.add_argument("--kills", type=int, default=20)
    asked = made.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        numbers = faults(Path(folder), asked.bundle, rows=asked.rows, kills=asked.kills)
    print(json.dumps(numbers, indent=2))


if __name__ == "__main__":
    main()
