"""GPU benchmark of less than 8 minutes: parity with PyTorch, speed, and speed over the wire.

    python -m bench.gpu prepare       # once: bundles, under build/gpu/bundles;
                                      # needs torch, onnx and onnxscript
    python -m bench.gpu               # measures; writes gpu.json, gpu.md, gpu.png to bench/results
    python -m bench.gpu prepare --provider cpu && python -m bench.gpu --provider cpu
                                      # a rehearsal, into build/gpu/rehearsal

It needs PyTorch for CUDA, onnxruntime-gpu and the packages of the service, and no network. Bundles
can be prepared on another machine. The trained ones are some 15 MB each. The random ones have 8
bytes for each weight (fp32, fp16 and bf16): MiniLM's size some 0.2 GB, BERT-large's some 2.7.
Preparing those on the machine itself is faster. A section that fails, or has no time left, is
reported as not measured, and the others go on.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from bench.gpu import (
    parity,
    report,
    served,
    served_answers,
    sizes,
    speed,
    texts,
)
from bench.gpu.budget import MOST_ROUNDS, Allowance, Budget, Clock, Deadline, watchdog
from bench.gpu.device import Device
from bench.gpu.interleaved import in_one_line
from bench.gpu.prepare import Unprepared, prepare, require
from headlight.errors import BundleError

# Seconds, relative to each other. Sections of criteria come first.
SHARES = {
    "ceilings": 10,
    "parity": 60,
    served_answers.SHORT_SECTION: 10,
    speed.SECTION: 215,
    served.SECTION: 70,
    served_answers.ATTENTION_SECTION: 35,
}
MOST_COMPARED = 400  # texts compared with PyTorch, which encodes each alone
COMPILING = 0.45  # of the time of a compiling section, at most
# after the budget: then a run that hangs is ended, and its results so far are written
GRACE_SECONDS = 30


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Parse the options; --provider cpu makes the defaults of the others small."""
    first = argparse.ArgumentParser(add_help=False)
    first.add_argument(
        "--provider", choices=("cuda", "cpu"), default="cuda", help="cpu: a rehearsal"
    )
    small = first.parse_known_args(arguments)[0].provider == "cpu"
    parser = argparse.ArgumentParser(
        prog="python -m bench.gpu",
        description=__doc__,
        parents=[first],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("what", nargs="?", choices=("measure", "prepare"), default="measure")
    parser.add_argument("--gpu-device", type=int, default=0)
    parser.add_argument("--bundles", type=Path, default=Path("build/gpu/bundles"))
    parser.add_argument(
        "--out", type=Path, default=Path("build/gpu/rehearsal" if small else "bench/results")
    )
    parser.add_argument("--budget-seconds", type=float, default=90.0 if small else 430.0)
    parser.add_argument(
        "--sizes",
        nargs="+",
        choices=(*sizes.SIZES, *sizes.TRAINED),
        default=[sizes.TINY] if small else list(sizes.REAL_SIZES),
    )
    parser.add_argument("--trained", nargs="*", choices=sizes.TRAINED, default=list(sizes.TRAINED))
    parser.add_argument(
        "--lengths",
        nargs="+",
        type=int,
        default=[64, 16] if small else [512, 128, 16, 2048, 64, 8192],
        help="tokens",
    )
    parser.add_argument("--tokens", type=int, default=512 if small else 32768, help="of a batch")
    parser.add_argument(
        "--group",
        type=int,
        default=16 if small else served.GROUP,
        help="texts of a batch over the wire",
    )
    parser.add_argument(
        "--requests", type=int, default=4 if small else 24, help="of so many texts, in a round"
    )
    parser.add_argument("--texts", type=int, default=32 if small else 1000, help="different ones")
    parser.add_argument(
        "--rounds", type=int, default=MOST_ROUNDS, help="at most, of contestants that take turns"
    )
    parser.add_argument(
        "--compile-backend",
        default="eager" if small else "inductor",
        help="of torch.compile; eager: traced alone",
    )
    return parser.parse_args(arguments)


class Run:
    """One run: its numbers, written again after each section."""

    def __init__(self, options: argparse.Namespace, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self.options, self.device = options, Device(options.provider, options.gpu_device)
        self.rehearsal = options.provider == "cpu"
        self._begun = clock()
        texts.texts(options.texts)  # read now, not in the time of a section
        self.budget = Budget(options.budget_seconds, SHARES, clock, options.rounds)
        self.numbers: dict[str, Any] = {
            "command": " ".join(["python -m bench.gpu", *sys.argv[1:]]),
            "rehearsal": self.rehearsal,
            "options": {
                name: str(value) if isinstance(value, Path) else value
                for name, value in vars(options).items()
            },
            "device": self.device.describe(),
            "cut": self.budget.cut,
            "failed": {},
        }

    def all(self) -> None:
        """Run every section in order."""
        options, device, budget = self.options, self.device, self.budget
        bundles, chief = options.bundles, options.sizes[0]
        one = sizes.MINILM if sizes.MINILM in options.sizes else chief
        precision = "fp32" if self.rehearsal else "fp16"
        plan = served.Plan(
            bundle=bundles / one,
            precision=precision,
            device=device,
            batch_tokens=options.tokens // 2,
            alone=(options.tokens // 4, options.tokens // 2, options.tokens),
            texts=options.texts,
            group=options.group,
            requests=options.requests,
            work=options.out.parent / "gpu-work" if self.rehearsal else Path("build/gpu/work"),
        )
        sections: dict[str, Callable[[Deadline], Any]] = {
            "ceilings": lambda mine: device.ceilings(mine.remaining / 40, self.rehearsal),
            "parity": lambda mine: parity.parity(
                bundles, options.trained, device, min(MOST_COMPARED, options.texts), mine
            ),
            served_answers.SHORT_SECTION: lambda mine: served_answers.short_text(
                bundles / one, device, budget, mine
            ),
            speed.SECTION: self._speed,
            served.SECTION: lambda mine: served.served(plan, budget, mine),
            served_answers.ATTENTION_SECTION: lambda mine: served_answers.attention_cost(
                bundles=bundles,
                names=[s for s in options.sizes if s != sizes.LARGE],
                shapes=self._shapes(),
                device=device,
                precision=precision,
                budget=budget,
                deadline=mine,
            ),
        }
        for name, section in sections.items():
            self._section(name, section)

    def _shapes(self) -> served_answers.Shapes:
        """Return the shapes for attention; small ones in a rehearsal."""
        longest = max(self.options.lengths)
        return [(1, longest), (2, longest)] if self.rehearsal else served_answers.SHAPES

    def _speed(self, mine: Deadline) -> list[dict[str, Any]]:
        """Measure row by row, so that finished rows are never lost."""
        options = self.options
        setting = speed.Setting(
            bundles=options.bundles,
            sizes=options.sizes,
            lengths=options.lengths,
            tokens=options.tokens,
            device=self.device,
            allowance=Allowance(COMPILING * mine.remaining, self._clock, mine),
            backend=options.compile_backend,
            texts=min(MOST_COMPARED, options.texts),
        )
        rows = self.numbers[speed.SECTION] = []
        for row in speed.speed(setting, self.budget, mine):
            rows.append(row)
            self.write()
        return rows

    def _section(self, name: str, section: Callable[[Deadline], Any]) -> None:
        self.device.release()
        with self.budget.section(name) as mine:
            print(f"{name}: {mine.remaining:.0f} s of {self.budget.remaining:.0f} s", flush=True)
            if mine.over:
                self.budget.skip(name, "all of it")
                return
            try:
                self.numbers[name] = section(mine)
            except Exception as error:  # the other sections go on
                self.numbers["failed"][name] = in_one_line(error)
                print(f"{name} failed: {in_one_line(error)}", flush=True)
        self.write()

    def write(self) -> None:
        """Write the results so far."""
        self.numbers["seconds"] = self._clock() - self._begun
        report.write(self.numbers, self.options.out)

    def draw(self) -> None:
        """Draw the picture, and write the report that shows it."""
        report.draw(self.numbers, self.options.out)
        self.write()


def main() -> int:
    """Return 0 if measured as far as possible; 1, with a reason, if nothing can be measured."""
    # Ending the run ends the service too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    options = parse()
    random.seed(0)
    torch.manual_seed(0)
    if options.what == "prepare":
        prepare(options.bundles, [*options.trained, *options.sizes])
        return 0
    try:
        Device(options.provider, options.gpu_device).check()
        require(options.bundles, [*options.trained, *options.sizes])
    except (BundleError, RuntimeError, Unprepared) as error:
        print(f"nothing is measured: {error}", file=sys.stderr)
        return 1
    run = Run(options)
    with watchdog(run.budget.remaining + GRACE_SECONDS):
        run.all()
    run.draw()
    print("\n".join(report.lines(run.numbers)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
