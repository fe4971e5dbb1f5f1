"""Opening a bundle: seconds, the self-test's share of them, and memory in multiples of the weights.

    python -m bench.opening SMALL BUNDLE... [--python PYTHON]...

Each opening is a fresh process, of this Python and of each other one that is named: its environment
may have another ONNX Runtime. They take turns. The memory of a process with the small bundle is
subtracted. It writes bench/results/opening.md.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.measuring import processor, publish

OUT = Path("bench/results/opening.md")
Medians = dict[tuple[Path, str], dict[str, float]]  # by bundle and version of ONNX Runtime
TEXTS = ["join two paths", "parse a date"] * 4


def resident() -> int:
    """Return the private bytes of this process; pages of files belong to the kernel."""
    lines = Path("/proc/self/smaps_rollup").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("Anonymous:"))


def open_once(bundle: str) -> None:
    """Open a bundle, encode a batch with and without attention, and print the measurements."""
    import onnxruntime  # noqa: PLC0415 # not needed by the process that starts the others

    from headlight.runtime import Runtime  # noqa: PLC0415

    begin = time.perf_counter()
    runtime = Runtime(bundle, provider="cpu", self_test=False)
    opened = time.perf_counter()
    runtime.self_test.run(short=True)
    tested = time.perf_counter()
    runtime.encode(TEXTS)
    runtime.attend(TEXTS[0])
    print(
        json.dumps(
            {
                "onnxruntime": onnxruntime.__version__,
                "open": opened - begin,
                "self-test": tested - opened,
                "resident": resident(),
                "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10,
            }
        )
    )


def measure(bundles: Sequence[Path], pythons: Sequence[str], rounds: int) -> Medians:
    """Return the medians of each bundle and each version of ONNX Runtime.

    Raises:
        ValueError: two Pythons have the same version.
    """
    # malloc never trims the end of a second heap.
    environment = {**os.environ, "PYTHONPATH": ".:service:export:model", "MALLOC_ARENA_MAX": "1"}
    openings = defaultdict[tuple[Path, str], list[dict[str, float]]](list)
    for _, bundle, python in itertools.product(range(rounds), bundles, pythons):
        command = [python, "-m", "bench.opening", "--once", str(bundle)]
        shown = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        numbers = json.loads(shown.stdout)
        openings[bundle, numbers.pop("onnxruntime")].append(numbers)
    if len(openings) < len(bundles) * len(pythons):
        raise ValueError("--python: two have the same ONNX Runtime; name one for each version")
    return {
        key: {name: statistics.median([run[name] for run in runs]) for name in runs[0]}
        for key, runs in openings.items()
    }


def row(bundle: Path, version: str, numbers: Mapping[str, float], bare: Mapping[str, float]) -> str:
    """Return a row of the table."""
    weights = sum(path.stat().st_size for path in bundle.glob("weights*.bin"))
    cells = [bundle.name, f"{weights / 1e6:.0f} MB", version]
    cells += [f"{numbers[key]:.2f} s" for key in ("open", "self-test")]
    cells += [f"{(numbers[key] - bare[key]) / weights:.2f}" for key in ("resident", "peak")]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.opening", description=__doc__)
    parser.add_argument("bundles", type=Path, nargs="+", metavar="BUNDLE", help="a small one first")
    parser.add_argument("--python", action="append", default=[], help="another interpreter")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--once", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.once:
        open_once(str(options.bundles[0]))
        return
    pythons = [sys.executable, *options.python]
    small = options.bundles[0]
    measured = measure(options.bundles, pythons, options.rounds)
    publish(
        OUT,
        [
            "# Opening a bundle",
            "",
            f"`python -m bench.opening SMALL BUNDLE...{' --python OTHER' * len(options.python)}`:",
            f"{options.rounds} openings each, in turn, medians; "
            f"{len(os.sched_getaffinity(0))} cores of {processor()}.",
            "",
            '`Runtime(bundle, provider="cpu")` in a fresh process: reading, hashing and',
            "opening both graphs, then the self-test: all short golden inputs, every output.",
            f"Memory is in multiples of the weights, beyond that of a process with {small.name}:",
            "private memory after a batch on each graph, and the peak until then, with pages of",
            "files.",
            "",
            "| bundle | weights | ONNX Runtime | opening | self-test | memory | peak |",
            "|---|---|---|---|---|---|---|",
            *(
                row(bundle, version, numbers, measured[small, version])
                for (bundle, version), numbers in measured.items()
                if bundle != small
            ),
        ],
    )


if __name__ == "__main__":
    main()
