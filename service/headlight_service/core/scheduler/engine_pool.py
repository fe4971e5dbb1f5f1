"""The engines that batches run on: their threads, and what becomes of one that fails."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from headlight.errors import DeviceFull, DeviceLost, HeadlightError, HostFull
from headlight.runtime.encode_items import EncodeItem, ItemResult
from headlight.runtime.values import Role
from headlight.wire.priority import Priority
from headlight_service.core.scheduler.batch_halving import Outcome, run_halved
from headlight_service.core.scheduler.lanes import LaneKey
from headlight_service.core.worker_threads import COMPUTING, COMPUTING_BULK, WorkerThreads

log = logging.getLogger("headlight_service.core.scheduler.batcher")
FAILURES_BEFORE_PROBE = 3  # batches in a row; one caller's bad luck is not yet a broken device


class Run(Protocol):
    """Encodes one batch, on all threads where it is `wide` and they can be had; raises EngineError, or DeviceFull."""

    def __call__(self, items: Sequence[EncodeItem], *, wide: bool = False) -> list[ItemResult]: ...


class Engine(NamedTuple):
    """What a batch needs of a model. Both functions are called from threads of their own."""

    run: Run
    probe: Callable[[], None]  # raises unless the model still computes what it should
    wide: frozenset[Role] = frozenset()  # whose batches can have all threads while others have those of a stream


class EngineLost(HeadlightError):
    """Batches fail and so does the probe, or a GPU is lost: the process cannot go on."""


class Engines:
    """All engines of a process, by model name. For the event loop's thread alone.

    Attributes:
        lost: one of them is, and the process ends: nothing is answered any more.
    """

    def __init__(self, engines: Mapping[str, Engine], streams: int) -> None:
        """Nothing runs. `streams`: batches of a priority at once."""
        self._engines = engines
        # Where both compute on the same CPUs, each with one thread for a batch, what is waited for has three quarters of them.
        self._threads: dict[Priority, WorkerThreads] = {
            "interactive": WorkerThreads(streams, "engine", behind=COMPUTING),
            "bulk": WorkerThreads(streams, "bulk", behind=COMPUTING_BULK),
        }
        self._failures: dict[str, int] = dict.fromkeys(engines, 0)
        self.lost = False

    def can_be_wide(self, lane: LaneKey) -> bool:
        """Whether a batch of this lane can have all threads while others have those of a stream."""
        return lane.role in self._engines[lane.model].wide

    async def run(self, model: str, items: Sequence[EncodeItem], priority: Priority, *, wide: bool) -> list[Outcome]:
        """One batch. Raises whatever its engine does, but for what concerns some of its items; see `run_halved`."""
        run = functools.partial(self._engines[model].run, wide=wide)
        return await self._threads[priority].start(functools.partial(run_halved, run, items))

    async def ran(self, model: str, outcomes: Sequence[Outcome], priority: Priority) -> None:
        """Learn what came of a batch. Raises EngineLost as `failed` does."""
        errors = [outcome for outcome in outcomes if not isinstance(outcome, ItemResult)]
        if len(errors) < len(outcomes):
            self._failures[model] = 0
        elif isinstance(errors[0], DeviceFull) and not isinstance(errors[0], HostFull):
            # A device that is ill gives no memory either.
            await self._probe(model, errors[0], priority)
        else:
            await self.failed(model, errors[0], priority)

    async def failed(self, model: str, error: Exception, priority: Priority) -> None:
        """Learn that a batch failed.

        Raises:
            EngineLost: a device is lost; or batches keep failing, and what is known is not computed either, or wrongly.
        """
        if isinstance(error, DeviceLost):
            raise self._lost_for_good(model, error) from error
        if isinstance(error, HostFull | MemoryError):  # which says nothing of the engine
            return
        self._failures[model] += 1
        if self._failures[model] >= FAILURES_BEFORE_PROBE:
            await self._probe(model, error, priority)

    async def _probe(self, model: str, error: Exception, priority: Priority) -> None:
        log.warning("batches keep failing; probing the engine", extra={"event": "engine_probe", "model": model})
        try:
            await self._threads[priority].start(self._engines[model].probe)
        except (DeviceFull, MemoryError):  # memory is still short, which is no illness
            pass
        except Exception as lost:
            raise self._lost_for_good(model, lost) from error
        self._failures[model] = 0

    def _lost_for_good(self, model: str, why: Exception) -> EngineLost:
        self.lost = True
        kind = type(why).__name__
        log.critical("the engine does not recover", extra={"event": "engine_lost", "model": model, "kind": kind})
        return EngineLost(f"the engine of {model} does not recover")

    def close(self) -> None:
        """Let each thread end once it has nothing to do."""
        for threads in self._threads.values():
            threads.close()
