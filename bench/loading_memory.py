"""Memory of a process while it loads a model: the peak, and what stays, in terms of its weights.

    python -m bench.loading_memory build/bundles/docs-rope build/real/bundle

`headlight serve` refuses a model by these factors before it loads it. Each figure is of a fresh
process that has loaded another model first, as the second model of a service. It writes
bench/results/loading-memory.md.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

from bench.frame.machine import machine
from bench.frame.report import parser, publish, table
from headlight.runtime.bundle.bundle import Bundle
from headlight_service.app.allocator import trim
from headlight_service.app.assembly import load
from headlight_service.app.resources import (
    FEW_WORKERS,
    OPENING,
    OPENING_BF16,
    opening_bytes,
    weight_bytes,
)
from headlight_service.config.options import Config

MIB = 1 << 20
HEADER = (
    *("model", "provider", "precision", "workers"),
    *("weights", "peak", "stays", "peak / weights", "expected peak"),
)
CLEAR_PEAK = "5"  # for /proc/self/clear_refs


def status(name: str) -> int:
    """Return a value of /proc/self/status, in bytes."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


def measure(first: Path, bundle: Path, provider: str, precision: str, streams: int) -> None:
    """Load two models in this process, and print the memory of the second."""
    runtimes = []
    for each, name in ((first, "fp32"), (bundle, precision)):
        trim()
        Path("/proc/self/clear_refs").write_text(CLEAR_PEAK, encoding="ascii")
        before = status("VmRSS")
        config = Config(bundle=each, provider=provider, precision=name, streams=streams, threads=1)
        runtimes.append(load(config))
        runtimes[-1].warm_up(config.warm_up_lengths)
        trim()
        peak, stays = status("VmHWM") - before, status("VmRSS") - before
    print(json.dumps({"peak": peak, "stays": stays}))


def rows(first: Path, bundles: list[Path]) -> list[tuple[str, ...]]:
    """Measure each model with each provider and precision that it has."""
    measured = []
    for path in bundles:
        manifest = Bundle(path).manifest
        kinds = {
            (provider, graph.precision)
            for graph in manifest.graphs
            for provider in graph.providers
            if provider in ("cpu", "openvino")
        }
        for provider, precision in sorted(kinds):
            for streams in (1, 2, 4, 8):
                arguments = (str(path), "--first", str(first), "--provider", provider)
                command = [sys.executable, "-m", "bench.loading_memory", "--measure", *arguments]
                command += ["--precision", precision, "--streams", str(streams)]
                done = subprocess.run(command, check=True, capture_output=True, text=True)
                values = json.loads(done.stdout.splitlines()[-1])
                weights = weight_bytes(manifest, provider, precision)
                sizes = (weights, values["peak"], values["stays"])
                measured.append(
                    (
                        *(manifest.name, provider, precision, str(streams)),
                        *(f"{size / MIB:.0f}" for size in sizes),
                        f"{values['peak'] / weights:.2f}",
                        f"{opening_bytes(weights, provider, precision, streams) / MIB:.0f}",
                    )
                )
    return measured


def main() -> None:
    """Measure, and write the page; or be the process that is measured."""
    options = parser("bench.loading_memory", __doc__, "loading-memory.md")
    options.add_argument("bundles", nargs="+", type=Path)
    options.add_argument("--first", type=Path, default=Path("build/bundles/reverse-learned"))
    options.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    options.add_argument("--provider", default="cpu", help=argparse.SUPPRESS)
    options.add_argument("--precision", default="fp32", help=argparse.SUPPRESS)
    options.add_argument("--streams", type=int, default=1, help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.measure:
        measure(given.first, given.bundles[0], given.provider, given.precision, given.streams)
        return
    measured, cpu, openvino = rows(given.first, given.bundles), OPENING["cpu"], OPENING["openvino"]
    publish(
        given.out,
        [
            "# Memory while a model is loaded",
            "",
            machine(("onnxruntime", "openvino")),
            "",
            "`python -m bench.loading_memory BUNDLE...`: each row is a fresh process that has",
            f"loaded another model ({given.first.name}) and then loads this one: opened, compared",
            "with PyTorch and warmed up, as `headlight serve` does. The peak (VmHWM, reset before)",
            "and what stays (VmRSS) are in MiB beyond the memory before. A worker has one thread.",
            "",
            *table(HEADER, measured),
            "",
            "`headlight serve` expects this peak before it loads a model, and refuses a model that",
            "does not fit beside the memory in use:",
            "",
            *table(
                ("provider", "expected peak"),
                (
                    (
                        "cpu",
                        f"{cpu.times:g} times the weights ({OPENING_BF16:g} in bf16), and "
                        f"{cpu.libraries // MIB} MiB",
                    ),
                    (
                        "openvino",
                        f"{openvino.times:g} times the weights, and "
                        f"{openvino.libraries // MIB} MiB; for each worker beyond {FEW_WORKERS}, "
                        f"{openvino.worker_times:g} times the weights, and "
                        f"{openvino.worker_bytes // MIB} MiB",
                    ),
                ),
            ),
        ],
    )
    short = [row for row in measured if int(row[5]) > int(row[8])]
    if short:
        sys.exit(f"the expected peak is too small: {short}")


if __name__ == "__main__":
    main()
