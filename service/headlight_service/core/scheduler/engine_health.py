"""Engines of a process, as the scheduler uses them, and their health: failures and probes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from headlight.errors import DeviceFull, DeviceLost, HeadlightError, HostFull
from headlight.runtime.encode_items import ItemResult
from headlight.runtime.engine.batches import AS_LONG, Rounding
from headlight.runtime.values import GraphRole
from headlight_service.core.scheduler.batch_halving import Outcome, Run
from headlight_service.core.scheduler.running_batch import BatchReport

if TYPE_CHECKING:
    from headlight_service.telemetry.spans import BatchTracing

log = logging.getLogger("headlight_service.core.scheduler.engine_health")
FAILURES_BEFORE_PROBE = 3  # batches in a row; a single failure does not prove a broken device


class EngineFunctions(NamedTuple):
    """What the scheduler needs of one engine. The functions are called from any thread.

    Attributes:
        run: runs one batch.
        probe: raises unless the model still computes its golden outputs.
        wide: roles whose batches can be exclusive (use all threads).
        rounding: rounding of its batches.
        observe: called with the report of each successful batch, with the scheduler's lock held.
        tracing: makes a span of each batch with a traced request.
        worked: see `Stopwatch`.
        name: the model's name, for logs.
    """

    run: Run
    probe: Callable[[], None]
    wide: frozenset[GraphRole] = frozenset()
    rounding: Rounding = AS_LONG
    observe: Callable[[BatchReport], None] = lambda report: None
    tracing: BatchTracing | None = None
    worked: Callable[[], float] | None = None
    name: str = ""


class EngineLost(HeadlightError):
    """The process cannot go on: batches fail and so does the probe, or a GPU is lost."""


class EngineHealth:
    """Consecutive failures of each engine. Used with the scheduler's lock held, except `probe`.

    Attributes:
        lost: error of a lost engine; the process ends, and no request is answered any more.
        well: whether no batch has failed since one was computed.
    """

    def __init__(self) -> None:
        self._engines = dict[str, EngineFunctions]()
        self._failures = dict[str, int]()
        self.lost: EngineLost | None = None
        self.well = True

    def add(self, model: str, engine: EngineFunctions) -> None:
        """Watch one more engine."""
        self._engines[model], self._failures[model] = engine, 0

    def remove(self, model: str) -> None:
        """Forget an engine."""
        del self._engines[model], self._failures[model]
        self.well = not any(self._failures.values())

    def ran(self, model: str, outcomes: Sequence[Outcome]) -> Exception | None:
        """Learn the outcomes of a batch, and return the error for which to probe the engine."""
        errors = [outcome for outcome in outcomes if not isinstance(outcome, ItemResult)]
        if len(errors) < len(outcomes):
            self._failures[model] = 0
            self.well = not any(self._failures.values())
            return None
        if isinstance(errors[0], DeviceFull) and not isinstance(errors[0], HostFull):
            return errors[0]  # a faulty device fails to allocate memory, too
        return self.failed(model, errors[0])

    def failed(self, model: str, error: Exception) -> Exception | None:
        """Learn that a batch failed, and return the same as `ran`."""
        if isinstance(error, DeviceLost):
            self._lose(model, error)
            return None
        if isinstance(error, HostFull | MemoryError):  # no sign of a faulty engine
            return None
        self._failures[model] += 1
        self.well = False
        return error if self._failures[model] >= FAILURES_BEFORE_PROBE else None

    def probe(self, model: str) -> Exception | None:
        """Run the engine's probe, and return its error. Called without the lock."""
        log.warning(
            "batches keep failing; probing the engine",
            extra={"event": "engine_probe", "model": self._engines[model].name},
        )
        try:
            self._engines[model].probe()
        except (DeviceFull, MemoryError):  # memory is still short, which is no fault of the engine
            pass
        except Exception as error:
            return error
        return None

    def probed(self, model: str, why: Exception | None) -> None:
        """Learn the result of the probe."""
        if why is None:
            self._failures[model] = 0
        else:
            self._lose(model, why)

    def _lose(self, model: str, why: Exception) -> None:
        name = self._engines[model].name
        log.critical(
            "the engine does not recover",
            extra={"event": "engine_lost", "model": name, "kind": type(why).__name__},
        )
        if self.lost is None:
            self.lost = EngineLost(f"the engine of {name} does not recover")
