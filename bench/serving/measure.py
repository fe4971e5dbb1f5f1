"""Run of the serving benchmark: first passes, rounds in turns, open loops, peak."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from bench.frame.machine import Others, machine
from bench.frame.processes import Failed, run
from bench.frame.rounds import turns
from bench.serving.contestants import Contestant, Setting
from bench.serving.field import REFERENCE
from bench.serving.open_loop import BATCH_MS, floods
from bench.serving.served import Headlight
from bench.serving.workloads import (
    BATCHES,
    BULK,
    ONE,
    SINGLES,
    WORKLOADS,
    Taken,
    Workload,
    describe,
    order,
    summary,
)
from headlight.runtime.values import Floats
from headlight_export.precision.quality import common_neighbours

# Before each run: threads of the last contestant may spin for a while, and the next has slept.
PAUSE_SECONDS, WARM_UP = 1.0, 16  # texts, of one caller
LOADS = (0.5, 0.8, 1.0, 2.0)  # of the capacity measured before
PACKAGES = ("onnxruntime", "grpcio", "numpy")
PEERS = Path(".nox/peer-openvino/bin/python")  # has OpenVINO and PyTorch

T = TypeVar("T")


def distances(vectors: dict[str, Floats]) -> dict[str, dict[str, float]]:
    """Return the distance of all vectors from the reference, or, without it, from the first.

    "nearest_kept" is the share of each text's ten nearest that are those of the reference.
    """
    exact = vectors.get(REFERENCE, next(iter(vectors.values())))
    result = {}
    for name, rough in vectors.items():
        cosines = np.sum(rough * exact, axis=1) / (
            np.linalg.norm(rough, axis=1) * np.linalg.norm(exact, axis=1)
        )
        result[name] = {
            "nearest_kept": common_neighbours(exact, rough),
            "max_abs": float(np.abs(rough - exact).max()),
            "min_cosine": float(cosines.min()),
        }
    return result


class Run:
    """Started contestants, and their results.

    Attributes:
        dropped: those that failed, with the reason; the others go on.
    """

    def __init__(
        self, setting: Setting, contestants: Sequence[Contestant], options: argparse.Namespace
    ) -> None:
        self._setting, self._contestants, self._options = setting, list(contestants), options
        self.dropped: dict[str, str] = {}
        self._taken: dict[str, dict[str, list[Taken]]] = defaultdict(lambda: defaultdict(list))

    def all(self) -> dict[str, Any]:
        """Return everything for the report."""
        others = Others()
        if self._options.size == "base":
            result = self._closed((ONE, BATCHES, BULK))
            return result | {"others": {"closed loops": others.share()}}
        first = self._each(self._first)
        result = self._closed([workload.name for workload in WORKLOADS])
        result["first"] = first
        shares = {"closed loops": others.share()}
        result |= {"open": self._open(result["measured"]), "peak": self._peak()}
        served = [
            one for one in self._contestants if isinstance(one, Headlight) and one.kind == "served"
        ]
        lengths = BATCH_MS[:1] if self._options.quick else BATCH_MS
        result["flood"] = floods(self._setting, served, self._options.flood_seconds, lengths)
        shares["open loops and floods"] = others.share()
        return result | {"others": shares}

    def _closed(self, workloads: Sequence[str]) -> dict[str, Any]:
        """Return who took part, the distance of their vectors, and the closed loops."""
        chosen = self._each(self._tuned)
        precision = distances(self._each(lambda one: one.vectors()))
        for round_ in range(self._options.rounds):
            for workload in (each for each in WORKLOADS if each.name in workloads):
                self._round(round_, workload)
        return {
            "machine": machine(PACKAGES),
            "texts": describe(self._setting.tokens),
            "rounds": self._options.rounds,
            "contestants": self._each(
                lambda one: {
                    "kind": one.kind,
                    "precision": one.precision,
                    **one.describe(),
                    **chosen[one.name],
                }
            ),
            "vectors": precision,
            "measured": {
                workload: {name: summary(runs) for name, runs in by_name.items()}
                for workload, by_name in self._taken.items()
            },
        }

    def _each(self, work: Callable[[Contestant], T]) -> dict[str, T]:
        """Return the results of some work, by contestant; those that fail are dropped."""
        result = {}
        for one in list(self._contestants):
            try:
                result[one.name] = work(one)
            except (Failed, OSError) as error:
                self._drop(one, error)
        return result

    def _drop(self, one: Contestant, error: Exception) -> None:
        print(f"from here without {one.name}: {error}", flush=True)
        self.dropped[one.name] = str(error)
        self._contestants.remove(one)
        one.close()

    def _first(self, one: Contestant) -> dict[str, Any]:
        """Run the bulk workload with every shape new, in an order that no round has."""
        [workload] = [workload for workload in WORKLOADS if workload.name == BULK]
        taken = one.run(workload, order(len(self._setting.tokens), len(self._setting.tokens), 999))
        print(
            f"{one.name}: first pass {len(self._setting.tokens) / taken.seconds:.0f} texts/s",
            flush=True,
        )
        return taken.numbers()

    def _tuned(self, one: Contestant) -> dict[str, Any]:
        chosen = one.tune()
        if chosen:
            print(f"{one.name}: {chosen}", flush=True)
        return chosen

    def _round(self, round_: int, workload: Workload) -> None:
        """Run everyone once, in an order drawn anew, on the same texts."""
        count = len(self._setting.tokens)
        texts = order(max(workload.group, round(count * workload.share)), count, seed=round_)
        for _, one in turns(list(self._contestants), rounds=1, warm_up=0):
            if workload.name not in one.workloads:
                continue
            try:
                time.sleep(PAUSE_SECONDS)
                if workload.name == ONE:
                    one.run(workload, texts[:WARM_UP])
                taken = one.run(workload, texts)
            except (Failed, OSError) as error:
                self._drop(one, error)
                continue
            self._taken[workload.name][one.name].append(taken)
            print(
                (
                    f"round {round_ + 1}, {workload.name}, {one.name}: "
                    f"{taken.texts / taken.seconds:.0f} texts/s"
                ),
                flush=True,
            )

    def _open(self, closed: dict[str, Any]) -> list[dict[str, Any]]:
        """Run open loops at shares of the closed loops' rates."""
        rows, options = [], self._options
        texts = order(len(self._setting.tokens), len(self._setting.tokens), 7)
        for one in self._contestants:
            if not isinstance(one, Headlight) or one.kind != "served":
                continue
            for group, workload in ((1, SINGLES), (32, BATCHES)):
                capacity = closed[workload][one.name]["texts_per_s"]
                for share in LOADS:
                    before, cpu = one.process.resident, one.process.cpu_seconds
                    taken = self._setting.load.ask(
                        "open",
                        target=one.target,
                        order=texts,
                        group=group,
                        rate=share * capacity / group,
                        seconds=options.open_seconds,
                        deadline=options.deadline,
                    )
                    about = {"name": one.name, "group": group, "share": share, "capacity": capacity}
                    after = {"resident_before": before, "resident_after": one.process.resident}
                    rows.append(about | taken | after | {"cpu_s": one.process.cpu_seconds - cpu})
                    print(f"open loop, {one.name}, {group} texts, {share:.0%}: {taken}", flush=True)
        return rows

    def _peak(self) -> dict[str, float]:
        """Measure the peak, in the environment with the most libraries for products."""
        python = str(PEERS) if PEERS.exists() else sys.executable
        seconds = "0.1" if self._options.quick else "1.5"
        gflops: dict[str, float] = json.loads(run([python, "-m", "bench.serving.peak", seconds]))
        return gflops | {"cores": len(os.sched_getaffinity(0))}
