"""Service over loopback, with the load generator, beside the engine without a wire."""

from __future__ import annotations

import dataclasses
import itertools
import json
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.frame.machine import flops
from bench.frame.processes import Worker
from bench.gpu.budget import Budget, Deadline
from bench.gpu.device import Device
from bench.gpu.interleaved import in_one_line
from bench.gpu.texts import texts
from bench.serving.contestants import Contestant, Engine
from bench.serving.contestants import Setting as Serving
from bench.serving.served import Headlight
from bench.serving.workloads import BULK, LONGEST, SINGLES, Taken, Workload, order, summary
from headlight.runtime import Bundle, EncodeItem, Runtime, Selection, Tokenizer
from headlight.runtime.engine.batches import plan
from headlight.runtime.values import Ids

SECTION = "served"
GROUP = 256  # texts of a batch and of a message on a stream
SERVED, QUEUED, BATCHES = "Headlight", "the engine under the service's queue", "batches"
ALONE = "the engine alone, the whole list"
VECTORS = Selection()  # one object for all items, as in the service
FEWEST_ROUNDS, MOST_ROUNDS = 1, 5


@dataclasses.dataclass(frozen=True)
class Plan:
    """Settings of the served benchmark.

    Attributes:
        batch_tokens: of the service and of the engine under its queue.
        alone: batch sizes for the engine alone; the others are compared with its best.
        texts: number of different texts.
        requests: of `group` texts in a round.
    """

    bundle: Path
    precision: str
    device: Device
    batch_tokens: int
    alone: tuple[int, ...]
    texts: int
    group: int
    requests: int
    work: Path

    @property
    def flags(self) -> tuple[str, ...]:
        """Options of the service.

        A request may be as large as the queue, so that none is refused.
        """
        queue = str(max(1 << 20, 64 * self.batch_tokens))
        options = {
            "--provider": self.device.provider,
            "--precision": self.precision,
            "--attention": "off",
            "--batch-tokens": str(self.batch_tokens),
            "--max-request-tokens": queue,
            "--max-queue-tokens": queue,
        }
        options |= {"--gpu-device": str(self.device.index)} if self.device.kind == "cuda" else {}
        return (*itertools.chain.from_iterable(options.items()),)

    @property
    def workloads(self) -> tuple[Workload, ...]:
        """Batches by 8 callers, for a criterion; singles by 64 callers; and a stream of batches."""
        return (
            Workload(BATCHES, 8, self.group, 1, ""),
            Workload(SINGLES, 64, 1, 0.25, ""),
            Workload(BULK, 1, self.group, 1, ""),
        )


class Unchecked(Headlight):
    """Headlight without a --check run first: serving checks too, and the bundle loads only once."""

    def __init__(self, plan_: Plan, setting: Serving, deadline: Deadline) -> None:
        """Take `deadline`, by which it must serve."""
        super().__init__(SERVED, plan_.precision, setting, plan_.flags)
        self._deadline = deadline

    def start(self) -> None:
        self.serve(self._deadline.remaining)


def served(plan_: Plan, budget: Budget, deadline: Deadline) -> dict[str, Any]:
    """Return texts per second by workload, of the service and of the engine; or their errors."""
    manifest = Bundle(plan_.bundle).manifest
    reader = Tokenizer(plan_.bundle / "tokenizer.json", min(LONGEST, manifest.max_length))
    # Only texts that no contestant truncates, so that all have the same tokens.
    ids = {
        text: read for text in texts(plan_.texts) if (read := _fitting(reader, text)) is not None
    }
    alone = _alone(plan_, list(ids.values()), deadline.part(0.2))
    file = (plan_.work / "texts.json").absolute()
    file.parent.mkdir(parents=True, exist_ok=True)
    tokens = [len(one) for one in ids.values()]
    file.write_text(json.dumps({"texts": list(ids), "tokens": tokens}), encoding="utf-8")
    load = Worker(sys.executable, "bench.serving.load", str(file), log=plan_.work / "logs/load.log")
    operations = flops(manifest, tokens)
    setting = Serving(
        model=plan_.bundle,
        bundle=plan_.bundle.absolute(),
        texts=file,
        tokens=tokens,
        flops=operations,
        work=plan_.work.absolute(),
        load=load,
    )
    everyone: list[Contestant] = [
        Unchecked(plan_, setting, deadline),
        Engine(QUEUED, plan_.precision, setting, plan_.flags),
    ]
    result: dict[str, Any] = {
        "encoder": plan_.bundle.name,
        "precision": plan_.precision,
        "flags": list(plan_.flags),
        "group": plan_.group,
        "measured": {ALONE: alone},
        "failed": {},
    }
    try:
        for at, one in enumerate(everyone):
            try:
                one.start()
                result["measured"][one.name] = _measured(
                    one, plan_, len(tokens), budget, deadline.part(1 / (len(everyone) - at))
                )
            except Exception as error:  # the others' results are still useful
                result["failed"][one.name] = in_one_line(error)
            finally:
                one.close()
    finally:
        load.close()
    return result


def _measured(
    one: Contestant, plan_: Plan, texts_: int, budget: Budget, deadline: Deadline
) -> dict[str, Any]:
    """Measure rounds of each workload; the first of each is not counted."""
    result: dict[str, Any] = {}
    workloads = plan_.workloads
    for at, workload in enumerate(workloads):
        if deadline.over:
            budget.skip(SECTION, f"{one.name}, {workload.name}")
            continue
        mine = deadline.part(1 / (len(workloads) - at))
        count = round(plan_.requests * plan_.group * workload.share)
        runs: list[Taken] = []
        one.run(workload, order(count, texts_, seed=999))
        while len(runs) < FEWEST_ROUNDS or (
            len(runs) < min(MOST_ROUNDS, deadline.rounds) and not mine.over
        ):
            runs.append(one.run(workload, order(count, texts_, seed=len(runs))))
        result[workload.name] = summary(runs)
    return result


def _fitting(reader: Tokenizer, text: str) -> Ids | None:
    """Return a text's ids; None if it is too long."""
    ids = reader.encode(text, limit=False, with_info=False).ids
    return ids if len(ids) <= reader.max_length else None


def _alone(plan_: Plan, texts_: Sequence[Ids], deadline: Deadline) -> dict[str, Any]:
    """Return the engine's best rate: the list, tokenised before, in batches of near lengths.

    At the best batch size.
    """
    runtime = Runtime(
        plan_.bundle,
        provider=plan_.device.provider,
        precision=plan_.precision,
        attend=False,
        gpu=plan_.device.gpu,
    )
    read = [texts_[i] for i in order(plan_.requests * plan_.group, len(texts_), seed=0)]
    rates: dict[int, list[float]] = {}
    for at, size in enumerate(plan_.alone):
        rows = plan([len(ids) for ids in read], squared=False, tokens=size)
        batches = [[EncodeItem(read[row], VECTORS) for row in one] for one in rows]
        seconds = _passes(runtime, batches, deadline.part(1 / (len(plan_.alone) - at)))
        rates[size] = [len(read) / each for each in seconds]
    best = max(rates, key=lambda size: statistics.median(rates[size]))
    return {
        "texts_per_s": statistics.median(rates[best]),
        "batch_tokens": best,
        "all_texts_per_s": {str(size): values for size, values in rates.items()},
    }


def _passes(
    runtime: Runtime, batches: Sequence[list[EncodeItem]], deadline: Deadline
) -> list[float]:
    """Return the seconds of each pass over the batches, except the first."""
    seconds: list[float] = []
    while len(seconds) < 2 or (
        len(seconds) < 1 + min(MOST_ROUNDS, deadline.rounds) and not deadline.over
    ):
        begin = time.perf_counter()
        for one in batches:
            runtime.engine.run(one)
        seconds.append(time.perf_counter() - begin)
    return seconds[1:]
