"""Tuning: `headlight tune BUNDLE` finds this machine's fastest options.

What `headlight serve` chooses by itself at its start is chosen anew, and measured beside them. It
measures with the service's queue. Only time is tuned: the precision stays as given, since it
changes numbers. Each choice is made with the others held: first provider and threads, then tokens
of a batch, then the rounding of lengths. Contestants take turns, so that other load slows them
alike.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from headlight.command_parser import CommandParser, examples_text, positive
from headlight.errors import BundleError, DeviceFull, HeadlightError
from headlight.runtime import EncodeItem, Runtime, Selection
from headlight.runtime.batch_shape import USUAL, forget
from headlight.runtime.providers.provider_choice import PRECISIONS, PROVIDERS
from headlight.runtime.providers.worker_layout import share, usable_cpus
from headlight_service.config.options import Config
from headlight_service.core.scheduler.batch_policy import LaneSet
from headlight_service.core.scheduler.lanes import BatchLimit, Entry, LaneKey

# Lengths of usual texts: half of at most 36 tokens, 53 on average.
MEDIAN, SPREAD, SHORTEST, LONGEST = 36, 0.85, 4, 256
WAITING = 64  # texts that are always in the queue, as from so many callers
BATCH_TOKENS = (128, 256, 512, 1024, 2048)
ROUND_LENGTHS = (1, 8, 16)
WORTH = 0.97  # of the best: this share of the speed is enough, for less waiting or less memory
LANE = LaneKey("", "embed")
EXAMPLES = ("headlight tune my-bundle", "headlight tune my-bundle --precision fp32 --out tuned.env")


@dataclasses.dataclass(frozen=True)
class Options:
    """The tuned options; the names are those of the service's options."""

    provider: str
    streams: int
    threads: int
    batch_tokens: int = USUAL.tokens
    round_lengths: int = USUAL.multiple

    def variables(self) -> dict[str, str]:
        """Return the environment variables of these options."""
        return {f"HEADLIGHT_{name.upper()}": str(value) for name, value in vars(self).items()}

    def __str__(self) -> str:
        rounding = "" if self.round_lengths == 1 else f", lengths rounded to {self.round_lengths}"
        threads = f"{self.streams} x {self.threads} threads"
        return f"{self.provider}, {threads}, {self.batch_tokens} tokens{rounding}"


class Machine:
    """A bundle in one precision on this machine."""

    def __init__(self, bundle: Path, precision: str, seconds: float, rounds: int) -> None:
        """Start without measurements.

        Args:
            bundle: the directory.
            precision: precision of all contestants.
            seconds: time of work for each contestant in each round.
            rounds: number of rounds, of which the median counts.
        """
        self._bundle, self._precision, self._seconds, self._rounds = (
            bundle,
            precision,
            seconds,
            rounds,
        )
        self._runtimes: dict[Options, Runtime] = {}

    def layouts(self) -> list[Options]:
        """Return each provider that has the precision here, with its layouts of threads.

        Threads: one for each batch, all for one batch, and a number in between.
        """
        cpus = usable_cpus()
        pairs = dict.fromkeys(
            share(streams, None, cpus) for streams in (None, 1, max(1, cpus // 4))
        )
        options = []
        for provider in PROVIDERS:
            try:
                self._runtime(Options(provider, *share(None, None, cpus), round_lengths=1))
            except (BundleError, DeviceFull) as error:
                print(f"{provider} is left out: {error}")
                continue
            ways = [(1, cpus)] if provider == "cuda" else pairs  # threads compute nothing there
            options += [Options(provider, streams, threads) for streams, threads in ways]
        return options

    def starts(self) -> list[Options]:
        """Return what the service chooses by itself at a start, chosen anew, on each provider."""
        forget()
        options = []
        for provider in dict.fromkeys(known.provider for known in self._runtimes):
            runtime = Runtime(
                self._bundle, provider=provider, precision=self._precision, attend=False
            )
            workers, engine = runtime.workers, runtime.engine
            multiple = engine.rounding.multiple
            options.append(
                Options(provider, workers.streams, workers.threads, engine.batch_tokens, multiple)
            )
            runtime.close()
        return options

    def measure(self, contestants: Sequence[Options]) -> dict[Options, float]:
        """Return the texts per second of each contestant."""
        rounds = [[self._rate(options) for options in contestants] for _ in range(self._rounds + 1)]
        medians = map(statistics.median, zip(*rounds[1:], strict=True))  # the first round warms up
        return dict(zip(contestants, medians, strict=True))

    def _runtime(self, options: Options) -> Runtime:
        known = dataclasses.replace(options, batch_tokens=USUAL.tokens)
        if known not in self._runtimes:
            self._runtimes[known] = Runtime(
                self._bundle,
                provider=options.provider,
                precision=self._precision,
                threads=options.threads,
                streams=options.streams,
                wide=False,
                attend=False,
                batch_tokens=USUAL.tokens,  # it concerns only the queue
                round_lengths=options.round_lengths,
            )
        return self._runtimes[known]

    def _rate(self, options: Options) -> float:
        queue = _Queue(self._runtime(options), options)
        begin = time.perf_counter()
        with ThreadPoolExecutor(options.streams) as pool:
            done = sum(pool.map(queue.work, [begin + self._seconds] * options.streams))
        return done / (time.perf_counter() - begin)


class _Queue:
    """The service's queue, kept full by callers that send the next text after each answer."""

    def __init__(self, runtime: Runtime, options: Options) -> None:
        longest = runtime.bundle.manifest.max_length
        self._engine, self._rounding = runtime.engine, runtime.engine.rounding
        self._lanes: LaneSet[EncodeItem] = LaneSet(
            {LANE: BatchLimit(options.batch_tokens, None, Config.max_padding)}
        )
        self._random, self._longest = np.random.default_rng(0), min(longest, LONGEST)
        self._lock = threading.Lock()
        self._refill(WAITING)

    def work(self, end: float) -> int:
        """Run batches on one slot until a time, at least one, and return the number of texts."""
        done = 0
        while not done or time.perf_counter() < end:
            with self._lock:
                batch = self._lanes.take(0.0)
            self._engine.run([entry.value for entry in batch.entries])
            done += len(batch.entries)
            with self._lock:
                self._refill(len(batch.entries))
        return done

    def _refill(self, count: int) -> None:
        lengths = np.exp(self._random.normal(np.log(MEDIAN), SPREAD, count))
        for size in lengths.astype(int).clip(min(SHORTEST, self._longest), self._longest).tolist():
            item = EncodeItem(np.ones(size, dtype=np.int64), Selection())
            self._lanes.add(Entry(LANE, item, size, self._rounding.up(size), 0.0, float("inf")))


def tune(machine: Machine) -> tuple[Options, dict[Options, float]]:
    """Return the best options, and the measurements of all.

    Raises:
        BundleError: no provider has the precision here.
    """
    rates: dict[Options, float] = {}

    def best(contestants: Iterable[Options]) -> Options:
        """Return the first contestant that is about as fast as the fastest.

        Contestants come in order of preference at equal speed.
        """
        measured = machine.measure(list(contestants))
        rates.update(measured)
        return next(
            options for options, rate in measured.items() if rate >= WORTH * max(measured.values())
        )

    layouts = machine.layouts()
    if not layouts:
        raise BundleError(
            "no provider has this precision here; leave --precision out, "
            "or export the bundle with it"
        )
    chosen = best(layouts)
    chosen = best(dataclasses.replace(chosen, batch_tokens=tokens) for tokens in BATCH_TOKENS)
    if chosen.provider != "cpu":  # the CPU provider compiles nothing
        chosen = best(
            dataclasses.replace(chosen, round_lengths=multiple) for multiple in ROUND_LENGTHS
        )
    return chosen, rates


def command_parser() -> argparse.ArgumentParser:
    """Return the parser of `headlight tune`."""
    parser = CommandParser(
        prog="headlight tune",
        description="Find this machine's fastest options, in a minute or two.",
        epilog=examples_text(EXAMPLES),
    )
    parser.add_argument(
        "bundle", type=Path, metavar="BUNDLE", help="directory of the model that will be served"
    )
    parser.add_argument(
        "--precision",
        choices=PRECISIONS,
        default="fp32",
        help="that will be served; it is not tuned",
    )
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="write the options as environment variables"
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=2.0,
        help="of work for each contestant in each round (default 2)",
    )
    parser.add_argument(
        "--rounds", type=positive, default=3, help="of which the median counts (default 3)"
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Tune, show the table, write the options, and return the exit code.

    0: done; 2: the bundle or an option is at fault.
    """
    options = command_parser().parse_args(arguments)
    machine = Machine(options.bundle, options.precision, options.seconds, options.rounds)
    try:
        chosen, rates = tune(machine)
        starts = machine.starts()
        last = machine.measure(list(dict.fromkeys([*starts, chosen])))
    except HeadlightError as error:
        print(f"tune: {error}", file=sys.stderr)
        return 2
    for each, rate in rates.items():
        print(f"{rate:8.0f} texts/s  {each}")
    print("once more, beside what the service chooses at its start:")
    for each, rate in last.items():
        marks = {"as it starts": each in starts, "chosen": each == chosen}
        print(f"{rate:8.0f} texts/s  {each}  <- {', '.join(mark for mark in marks if marks[mark])}")
    variables = chosen.variables() | {"HEADLIGHT_PRECISION": options.precision}
    lines = "".join(f"{name}={value}\n" for name, value in variables.items())
    if options.out is None:
        print(f"environment of the service:\n{lines}", end="")
    else:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(lines, encoding="utf-8")
        print(f"wrote {options.out}: give it to the service as its environment")
    return 0
