"""The engines of a process, and what becomes of one whose batches fail."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from headlight.errors import DeviceFull, DeviceLost, HeadlightError, HostFull
from headlight.runtime.encode_items import ItemResult
from headlight.runtime.values import Role
from headlight_service.core.scheduler.batch_halving import Outcome, Run

log = logging.getLogger("headlight_service.core.scheduler.engine_health")
FAILURES_BEFORE_PROBE = 3  # batches in a row; one caller's bad luck is not yet a broken device


class Engine(NamedTuple):
    """What a batch needs of a model. Both functions are called from any thread."""

    run: Run
    probe: Callable[[], None]  # raises unless the model still computes what it should
    wide: frozenset[Role] = frozenset()  # roles whose batches can have all threads


class EngineLost(HeadlightError):
    """Batches fail and so does the probe, or a GPU is lost: the process cannot go on."""


class EngineHealth:
    """Failures in a row of each engine. With the scheduler's lock held, but for `probe`.

    Attributes:
        lost: an engine is lost, and the process ends: nothing is answered any more.
        well: no batch has failed since one was computed.
    """

    def __init__(self, engines: Mapping[str, Engine]) -> None:
        self._engines = engines
        self._failures = dict.fromkeys(engines, 0)
        self.lost: EngineLost | None = None
        self.well = True

    def ran(self, model: str, outcomes: Sequence[Outcome]) -> Exception | None:
        """Learn what came of a batch; returns the error for which the engine is to be probed."""
        errors = [outcome for outcome in outcomes if not isinstance(outcome, ItemResult)]
        if len(errors) < len(outcomes):
            self._failures[model] = 0
            self.well = not any(self._failures.values())
            return None
        if isinstance(errors[0], DeviceFull) and not isinstance(errors[0], HostFull):
            return errors[0]  # a device that is ill gives no memory either
        return self.failed(model, errors[0])

    def failed(self, model: str, error: Exception) -> Exception | None:
        """Learn that a batch failed; returns as `ran` does."""
        if isinstance(error, DeviceLost):
            self._lose(model, error)
            return None
        if isinstance(error, HostFull | MemoryError):  # which says nothing of the engine
            return None
        self._failures[model] += 1
        self.well = False
        return error if self._failures[model] >= FAILURES_BEFORE_PROBE else None

    def probe(self, model: str) -> Exception | None:
        """Run the engine's probe; returns why it failed. Without the lock."""
        log.warning(
            "batches keep failing; probing the engine",
            extra={"event": "engine_probe", "model": model},
        )
        try:
            self._engines[model].probe()
        except (DeviceFull, MemoryError):  # memory is still short, which is no illness
            pass
        except Exception as error:
            return error
        return None

    def probed(self, model: str, why: Exception | None) -> None:
        """Learn what the probe returned."""
        if why is None:
            self._failures[model] = 0
        else:
            self._lose(model, why)

    def _lose(self, model: str, why: Exception) -> None:
        log.critical(
            "the engine does not recover",
            extra={"event": "engine_lost", "model": model, "kind": type(why).__name__},
        )
        if self.lost is None:
            self.lost = EngineLost(f"the engine of {model} does not recover")
