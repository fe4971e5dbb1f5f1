"""Contestants: each in processes of its own, with the same requests."""

from __future__ import annotations

import abc
import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.frame.machine import flops
from bench.frame.processes import Process, Worker, installed
from bench.serving.workloads import BATCHES, BULK, LIST, ONE, SINGLES, Taken, Workload, write_texts
from headlight.runtime import Bundle
from headlight.runtime.values import Floats


@dataclasses.dataclass(frozen=True)
class Setting:
    """Settings that all contestants share.

    Attributes:
        texts: the file of the texts.
        tokens: of each text.
        flops: of the encoder, for each text at its real length.
        work: folder of vectors and logs.
        load: the load generator.
    """

    model: Path
    bundle: Path
    texts: Path
    tokens: Sequence[int]
    flops: Sequence[float]
    work: Path
    load: Worker


def setting_of(work: Path, model: Path, bundle: Path, count: int) -> Setting:
    """Choose so many texts, write them below `work`, and start the load generator.

    Its caller closes `load`.
    """
    texts = (work / f"docstrings-{count}.json").absolute()
    write_texts(texts, bundle / "tokenizer.json", count)
    tokens = json.loads(texts.read_text(encoding="utf-8"))["tokens"]
    load = Worker(sys.executable, "bench.serving.load", str(texts), log=work / "logs/load.log")
    return Setting(
        model=model.absolute(),
        bundle=bundle.absolute(),
        texts=texts,
        tokens=tokens,
        flops=flops(Bundle(bundle).manifest, tokens),
        work=work.absolute(),
        load=load,
    )


class Contestant(abc.ABC):
    """One row of the tables.

    Attributes:
        name: as printed.
        precision: intended for its computation: "fp32", "bf16" or "int8".
        kind: "served", "engine" or "library".
        process: its own.
    """

    kind: str
    workloads: tuple[str, ...]
    process: Process

    def __init__(self, name: str, precision: str, setting: Setting) -> None:
        self.name, self.precision, self._setting = name, precision, setting
        self.slug = "-".join("".join(c if c.isalnum() else " " for c in name).split())
        self.log = setting.work / "logs" / f"{self.slug}.log"

    @abc.abstractmethod
    def start(self) -> None:
        """Set it up. Raises Failed if it cannot take part."""

    @abc.abstractmethod
    def describe(self) -> dict[str, Any]:
        """Return its versions, and the precision that it reports."""

    @abc.abstractmethod
    def _run(self, workload: Workload, order: Sequence[int]) -> dict[str, Any]: ...

    @abc.abstractmethod
    def _save_vectors(self, path: Path) -> None: ...

    def tune(self) -> dict[str, Any]:
        """Choose settings by trial, before the rounds begin."""
        return {}

    def run(self, workload: Workload, order: Sequence[int]) -> Taken:
        """Run a workload once over the texts of these indices."""
        cost = self._run(workload, order)
        tokens, flops = (
            sum(values[i] for i in order) for values in (self._setting.tokens, self._setting.flops)
        )
        return Taken(
            texts=len(order),
            tokens=int(tokens),
            flops=flops,
            seconds=cost["seconds"],
            cpu=cost["cpu"],
            load_cpu=cost.get("load_cpu"),
            latencies=tuple(cost.get("latencies", ())),
            padding=cost.get("padding"),
        )

    def vectors(self) -> Floats:
        """Return float32 [N, D] of all texts."""
        path = self._setting.work / f"{self.slug}.npy"
        self._save_vectors(path)
        rows: Floats = np.load(path)
        return rows

    def close(self) -> None:
        """End its process."""
        if hasattr(self, "process"):
            self.process.close()


class InProcess(Contestant):
    """One that a worker runs in its process: nothing is sent."""

    process: Worker

    @abc.abstractmethod
    def _worker(self) -> tuple[str, ...]:
        """Return the interpreter and module of its worker, and its arguments."""

    def start(self) -> None:
        python, module, *arguments = self._worker()
        self.process = Worker(installed(Path(python)), module, *arguments, log=self.log)
        self.process.ask("describe")

    def describe(self) -> dict[str, Any]:
        return self.process.ask("describe")

    def _save_vectors(self, path: Path) -> None:
        self.process.ask("vectors", path=str(path))


class Engine(InProcess):
    """Engine without a wire: `Runtime.encode` for one caller and the whole list, else the queue."""

    kind = "engine"
    workloads = (ONE, SINGLES, BATCHES, BULK, LIST)

    def __init__(self, name: str, precision: str, setting: Setting, flags: Sequence[str]) -> None:
        super().__init__(name, precision, setting)
        self._flags = flags

    def _worker(self) -> tuple[str, ...]:
        setting = self._setting
        arguments = (str(setting.bundle), str(setting.texts), *self._flags)
        return sys.executable, "bench.peers.engine", *arguments

    def _run(self, workload: Workload, order: Sequence[int]) -> dict[str, Any]:
        if workload.name in (LIST, ONE):
            return self.process.ask("offline", order=list(order), group=workload.group)
        callers = IN_FLIGHT if workload.name == BULK else workload.callers
        return self.process.ask("online", order=list(order), callers=callers, group=workload.group)


IN_FLIGHT = 8  # requests of one stream that the service reads at once
