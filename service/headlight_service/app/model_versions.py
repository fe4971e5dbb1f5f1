"""Versions of models: each is made beside those that serve, proved, and given up in the end.

All work but that of `close` is of the loader's thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import os
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future
from pathlib import Path
from typing import TYPE_CHECKING

from headlight.errors import Reason, Unavailable
from headlight.runtime import Runtime
from headlight_service.app.allocator import collect
from headlight_service.app.assembly import assemble, drop, fitting, load
from headlight_service.app.executor import Executor
from headlight_service.app.model_preparation import prepare
from headlight_service.app.resources import check_memory
from headlight_service.app.startup_steps import WARMING_UP, StartupSteps
from headlight_service.config.options import Config
from headlight_service.core.admission.working_memory import memory_limit, warn_if_short
from headlight_service.core.models import ServedModel
from headlight_service.core.scheduler.engine_health import EngineLost
from headlight_service.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from headlight_service.telemetry.otlp import Tracing

log = logging.getLogger("headlight_service.app.model_versions")


class ModelVersions:
    """Maker of versions, which holds those that have to go.

    Attributes:
        executor: takes the requests of all models; None until the first is made.
    """

    def __init__(
        self,
        config: Config,
        metrics: Metrics,
        tracing: Tracing | None,
        on_lost: Callable[[EngineLost], None],
        submit: Callable[[Callable[[], None]], Future[None]],
    ) -> None:
        """Prepare within the running event loop, which runs exports.

        Args:
            config: the options of the process.
            metrics: receive the series of the models.
            tracing: makes spans of batches.
            on_lost: called on any thread if the engine of a model does not recover.
            submit: runs some work on the loader's thread, later.
        """
        self.executor: Executor | None = None
        self._config = config
        self._metrics = metrics
        self._tracing = tracing
        self._on_lost = on_lost
        self._submit = submit
        self._loop = asyncio.get_running_loop()
        self._preparing: asyncio.Task[Path] | None = None
        self._leaving = list[ServedModel]()
        self._closed = False

    async def close(self) -> None:
        """End an export, and begin none any more."""
        self._closed = True
        if self._preparing is not None:
            self._preparing.cancel()
            await asyncio.gather(self._preparing, return_exceptions=True)

    def prepare(self, config: Config, steps: StartupSteps) -> Path:
        """Resolve the source; export it on the event loop, where `close` can end that."""

        async def prepared() -> Path:
            if self._closed:
                raise Unavailable(Reason.ENDING)
            self._preparing = self._loop.create_task(
                prepare(config, os.environ, steps), name="prepare"
            )
            return await self._preparing

        try:
            return asyncio.run_coroutine_threadsafe(prepared(), self._loop).result()
        except CancelledError:
            raise Unavailable(Reason.ENDING) from None

    def open(
        self,
        config: Config,
        folder: Path,
        steps: StartupSteps,
        names_for: Callable[[Runtime], Sequence[str]],
    ) -> ServedModel:
        """Verify, load, prove and warm up a version, which takes no requests yet.

        Args:
            config: its options.
            folder: its bundle, without links.
            steps: of the loading.
            names_for: returns its names besides those of its bundle, or refuses the version by
                ValueError, before it is warmed up.

        Raises:
            BundleError, ValueError: it cannot be served.
        """
        self.drop_leaving()
        config = dataclasses.replace(config, model=(), bundle=folder)
        check_memory(config, folder, memory_limit())
        runtime = load(config, steps)
        try:
            config = dataclasses.replace(config, served_model_name=tuple(names_for(runtime)))
            steps(WARMING_UP)
            with fitting():
                runtime.warm_up(config.warm_up_lengths)
            collect()
            warn_if_short(runtime, memory_limit())
            if self.executor is None:
                self.executor = Executor(self._config, runtime.workers.streams, self._on_lost)
            return assemble(runtime, config, self._metrics, self.executor, self._tracing)
        except BaseException:
            runtime.close()
            raise

    def drop_later(self, model: ServedModel) -> None:
        """Give the memory of a retired model back soon, at the latest before the next load.

        So there is one version too many in memory at most, however long a request lasts.
        """
        self._leaving.append(model)
        with contextlib.suppress(Unavailable):  # the process ends
            self._submit(self.drop_leaving)

    def drop_leaving(self) -> None:
        """Wait for the last requests of retired models, and give their memory back."""
        while self._leaving:
            self._drop(self._leaving.pop())

    def release(self, model: ServedModel) -> None:
        """Give up a model that has not got its name, with its lanes and its engine."""
        with model.admission.lock:
            model.retire()
        self._drop(model)

    def _drop(self, model: ServedModel) -> None:
        assert self.executor is not None
        drop(model, self._metrics, self.executor)
        collect()
        log.info(f"{model.key} has gone", extra={"event": "model_gone", "model_name": model.name})


def check_replaces(old: ServedModel, runtime: Runtime, names: Sequence[str]) -> None:
    """Refuse a version in place of another if clients of the name could not go on.

    Raises:
        ValueError: it has another task, name, width, or other scores.
    """
    new, remedy = runtime.model(), "serve it beside the other, by another name"
    for what, before, after in (
        ("task", old.description.task, new.task),
        ("width of vectors", old.description.pooled_dim, new.pooled_dim),
        ("list of labels", old.description.labels, new.labels),
        ("kind of labels", old.description.token_labels, new.token_labels),
        ("activation", old.description.activation, new.activation),
    ):
        if before != after:
            raise ValueError(f"its {what} is {after}, that of {old.name} {before}; {remedy}")
    if old.names[0] not in names:
        raise ValueError(f"it is named {names[0]}, and replaces {old.names[0]}; {remedy}")
