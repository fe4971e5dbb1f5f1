"""The executor: what all models of a process share, and what adds and drops one of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from headlight.description import Limits
from headlight.runtime import Runtime
from headlight.runtime.values import GraphRole
from headlight_service.config.command_line import ConfigError
from headlight_service.config.options import Config
from headlight_service.core.admission.admission_control import RESERVE, Admission, outputs_for
from headlight_service.core.models import ServedModel
from headlight_service.core.scheduler.engine_health import EngineFunctions, EngineLost
from headlight_service.core.scheduler.lanes import BatchLimit
from headlight_service.core.scheduler.scheduler import Scheduler

STREAMS_HELD = 4  # default number of full streams that the process holds results for at once


class Executor:
    """The queue, the execution slots, the threads and the admission of one process.

    Each model has lanes of its own in the queue, and a session of its own in its runtime. How many
    batches run at once, and how many tokens and bytes are held, is limited for all together. Models
    with work at the same time share the slots and the queue by their weights.

    Attributes:
        scheduler: the queue, with the slots and the threads.
        admission: the pools of bytes and tokens.
        slots: batches of a priority that run at once.
        models: all models whose memory is held, those included that are not served any more.
    """

    def __init__(
        self,
        config: Config,
        slots: int,
        on_lost: Callable[[EngineLost], None] = lambda error: None,
    ) -> None:
        """Start the threads.

        Args:
            config: the options.
            slots: batches that run at once: the workers of the first runtime. They follow from the
                CPUs and the options, so the others have as many; see `check_workers`.
            on_lost: called on any thread if the engine of a model does not recover.
        """
        self.slots = slots
        self._config = config
        self.scheduler = Scheduler(
            slots=slots, bulk_seconds=config.bulk_batch_ms / 1000, on_lost=on_lost
        )
        self.admission = Admission(
            max_tokens=config.max_queue_tokens,
            max_request_bytes=config.max_queue_bytes,
            max_output_bytes=config.max_output_bytes or 0,
            begins_at_once=self.scheduler.begins_at_once,
            lock=self.scheduler.lock,
        )
        self.models = list[ServedModel]()

    def check_workers(self, runtime: Runtime) -> None:
        """Refuse one more runtime if it has another number of workers. Raises ConfigError."""
        workers = runtime.workers.streams
        if self.models and workers != self.slots:
            raise ConfigError(
                f"{runtime.bundle.manifest.name} would have {workers} workers on "
                f"{runtime.provider}, the models before it have {self.slots}; give --streams, "
                "which is for all models, or serve it in a process of its own"
            )

    def add(
        self, model: ServedModel, engine: EngineFunctions, limits: Mapping[GraphRole, BatchLimit]
    ) -> None:
        """Take the requests of one more model.

        Args:
            model: the model.
            engine: its engine's functions.
            limits: batch limit of each role that it has.
        """
        with self.scheduler.lock:
            self.models.append(model)
            self.admission.estimates.append(model.estimate)
            self._resize()
            self.scheduler.add(model.key, engine, limits, model.estimate.weight)

    def drop(self, model: ServedModel) -> None:
        """Give the memory of a retired model back, once its last request has ended. It waits."""
        model.gone.wait()
        with self.scheduler.lock:
            self.models.remove(model)
            self.admission.estimates.remove(model.estimate)
            self._resize()
        model.runtime.close()

    def close(self) -> None:
        """Fail all waiting requests, and let the threads end."""
        self.scheduler.close()

    def _resize(self) -> None:
        fit(self.admission, self._config, [model.limits for model in self.models])


def fit(admission: Admission, config: Config, models: Sequence[Limits]) -> None:
    """Set the limits of the process: the largest request of any model fits if nothing else is held.

    Args:
        admission: the process's.
        config: the options.
        models: the limits of each model.
    """
    largest = max([each.max_request_tokens for each in models], default=0)
    streams = [each.max_stream_output_bytes for each in models]
    queue = config.max_queue_tokens
    admission.resize(
        tokens=max(queue, largest),
        # Bulk may fill the queue except a reserve.
        bulk_tokens=max(queue - queue // RESERVE, largest),
        output_bytes=max([output_limit(config, each) for each in streams], default=0),
        largest=largest,
    )


def output_limit(config: Config, of_stream: int) -> int:
    """Return the limit on all results at once; by default a few full streams, or a unary answer."""
    return config.max_output_bytes or max(
        STREAMS_HELD * of_stream, outputs_for(config.max_unary_response_bytes)
    )
