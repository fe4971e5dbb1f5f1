"""Cost of each form of attention over the wire, beside vectors served, and beside transformers.

    python -m bench.attention_served

It needs the model of `nox -s serving`, and writes bench/results/attention_served.md, and .json with
all rounds. Vectors come by Encode, attention by a call of EncodeStream, as the shipped client asks.
"""

from __future__ import annotations

import random
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bench.attention_forms import FORMS, VECTORS_ALONE
from bench.frame.machine import Others, machine
from bench.frame.processes import Failed, Worker
from bench.frame.report import command, parser, publish, table
from bench.serving.contestants import Setting, setting_of
from bench.serving.served import Headlight
from headlight.runtime import Bundle

WORK = Path("build/serving")
EAGER = "transformers, eager"
LEFT_OUT = {"largest of heads", "whole maps, float16", "scores"}
NAMES = [VECTORS_ALONE, *(name for name in FORMS if name not in LEFT_OUT)]
FORMS_RUN = [*NAMES, EAGER]
GROUP = 8  # texts of a call
TOKENS_A_RUN = 2048
MIXED = 128  # texts


class Column(NamedTuple):
    """Calls of one run.

    Attributes:
        calls: the tokens of each input of each call.
    """

    name: str
    callers: int
    calls: list[list[int]]


def columns(tokens: Sequence[int], many: Sequence[int]) -> list[Column]:
    """Return calls of equal lengths, and those of the docstrings' lengths, by callers."""
    mixed = [list(tokens[at : at + GROUP]) for at in range(0, len(tokens), GROUP)]
    result = []
    for callers in many:
        for length in (18, 64, 128):
            count = max(2 * callers, TOKENS_A_RUN // length // GROUP)
            result.append(Column(f"{length} tokens", callers, [[length] * GROUP] * count))
        result.append(Column("mixed", callers, mixed))
    return result


class Run(NamedTuple):
    """Result of one run."""

    texts_per_s: float
    cpu_ms: float  # of the server, a text


class Contest:
    """The service and transformers, which take turns."""

    def __init__(self, setting: Setting, service: Headlight, eager: Worker | None) -> None:
        self._setting, self._service, self._eager = setting, service, eager
        self._pooling = Bundle(setting.bundle).manifest.pooling

    def run(self, name: str, column: Column) -> Run:
        """Run one column of a form, or of transformers."""
        texts = sum(map(len, column.calls))
        if name == EAGER:
            assert self._eager is not None
            lengths = sorted(length for call in column.calls for length in call)
            batches = [lengths[at : at + GROUP] for at in range(0, len(lengths), GROUP)]
            cost = self._eager.ask("run", batches=batches)
            return Run(texts / cost["seconds"], 1000 * cost["cpu"] / texts)
        cpu = self._service.process.cpu_seconds
        cost = self._setting.load.ask(
            "attention",
            target=self._service.target,
            form=name,
            pooling=self._pooling,
            calls=column.calls,
            callers=column.callers,
        )
        used = self._service.process.cpu_seconds - cpu
        return Run(texts / cost["seconds"], 1000 * used / texts)

    def rounds(
        self, tokens: Sequence[int], many: Sequence[int], count: int
    ) -> list[dict[str, Any]]:
        """Return all runs. One round of warm-up is left out."""
        runs = []
        for number in range(count + 1):
            for column in columns(tokens, many):
                first = column.callers == many[0]  # transformers has one caller
                names = FORMS_RUN if self._eager and first else NAMES
                for name in random.sample(names, len(names)):
                    taken = self.run(name, column)
                    if number:
                        about = {"form": name, "column": column.name, "callers": column.callers}
                        runs.append({"round": number, **about, **taken._asdict()})
        return runs


def cell(runs: list[dict[str, Any]], name: str, column: str, callers: int) -> str:
    """Return the median ratio of the time to that of vectors in the same round, and its range."""

    def of(form: str) -> dict[int, float]:
        return {
            each["round"]: each["texts_per_s"]
            for each in runs
            if (each["form"], each["column"], each["callers"]) == (form, column, callers)
        }

    rates, vectors = of(name), of(VECTORS_ALONE)
    if not rates:
        return ""
    speed = statistics.median(rates.values())
    if name == VECTORS_ALONE:
        return f"{speed:.0f} texts/s"
    ratios = sorted(vectors[number] / rate for number, rate in rates.items())
    return f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f}), {speed:.0f}"


def section(runs: list[dict[str, Any]], callers: int) -> list[str]:
    """Return the lines of the table for a number of callers."""
    names = list(dict.fromkeys(each["column"] for each in runs))
    rows = [(form, *(cell(runs, form, name, callers) for name in names)) for form in FORMS_RUN]
    return [
        f"## {callers} caller{'s' if callers > 1 else ''}, {GROUP} texts a call",
        "",
        *table(("", *names), (row for row in rows if any(row[1:]))),
        "",
    ]


def main() -> None:
    """Measure and publish."""
    made = parser("bench.attention_served", __doc__, "attention_served.md", rounds=3)
    made.add_argument("--callers", type=int, nargs="+", default=[1, 4], metavar="N")
    made.add_argument("--bundle", type=Path, default=WORK / "bundle")
    made.add_argument("--no-peer", action="store_true", help="without transformers")
    options, flags = made.parse_known_args()  # others are of the service
    setting = setting_of(WORK, WORK / "model", options.bundle, MIXED)
    random.seed(0)
    tokens = random.sample(setting.tokens, len(setting.tokens))
    service = Headlight("attention", "fp32", setting, ("--provider", "cpu", *flags))
    eager, others = None, Others()
    try:
        service.start()
        if not options.no_peer:
            python = Path(".nox/peer-torch/bin/python").absolute()
            eager = Worker(
                python, "bench.peers.eager", str(setting.model), log=WORK / "logs/eager.log"
            )
        runs = Contest(setting, service, eager).rounds(tokens, options.callers, options.rounds)
    except Failed as error:
        sys.exit(f"bench.attention_served: {error}")
    finally:
        for each in (service, setting.load, eager):
            if each is not None:
                each.close()
    publish(
        options.out,
        [
            "# Attention over the wire",
            "",
            f"`{command('bench.attention_served')}` on "
            f"{machine(('onnxruntime', 'grpcio', 'numpy'))}. All layers in each form.",
            f"Medians of {options.rounds} interleaved rounds: the ratio of the time to that of",
            "vectors served in the same round, its least and largest, and texts a second.",
            f"Mixed: {len(tokens)} inputs of the lengths of docstrings. {EAGER}: whole maps, in "
            "process, sorted",
            f"by length, batches of {GROUP}. Other programs took {100 * others.share():.0f} % of "
            "the CPUs.",
            "",
            *(line for callers in options.callers for line in section(runs, callers)),
        ],
        runs,
    )


if __name__ == "__main__":
    main()
