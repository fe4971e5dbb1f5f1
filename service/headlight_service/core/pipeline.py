"""Entrance of the core: starts requests, and has the threads that they share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from headlight_service.core.admission.answer_window import AnswerWindow
from headlight_service.core.admission.rate_limit import Bucket, Quotas
from headlight_service.core.codec_threads import CodecThreads
from headlight_service.core.driver import Driver
from headlight_service.core.handle import Handle, OnDisconnect
from headlight_service.core.models import Models
from headlight_service.core.requests.answer import Answer
from headlight_service.core.requests.request import ComparisonRequest, OcclusionRequest, Request
from headlight_service.core.tasks.compare import Compare
from headlight_service.core.tasks.encode import Encode
from headlight_service.core.tasks.occlude import Occlude
from headlight_service.core.tasks.task import AnswerForm, Task, TokensForm
from headlight_service.core.tokenizer_threads import TokenizerThreads
from headlight_service.core.worker_threads import WorkerThreads

if TYPE_CHECKING:
    from headlight_service.telemetry.request_trace import RequestTrace

TASKS: Mapping[type[Request], Task] = {
    Request: Encode(),
    OcclusionRequest: Occlude(),
    ComparisonRequest: Compare(),
}


class Pipeline:
    """Entrance of the core. Called from any thread.

    Attributes:
        models: the served models.
        tokenizers: threads for long requests.
        codec: threads that decode large requests and encode large answers, for event loops.
    """

    def __init__(
        self, models: Models, tokenizers: TokenizerThreads, quotas: Quotas | None = None
    ) -> None:
        """Serve the models of `models`, and those added later.

        Args:
            models: the served models.
            tokenizers: threads for long requests.
            quotas: token buckets of the clients; None: no client has a quota.
        """
        self.models = models
        self.tokenizers = tokenizers
        self.codec = CodecThreads()
        self._resuming = WorkerThreads(1, "resume")
        self._driver = Driver(models, tokenizers, self._resuming, quotas)

    def submit(
        self,
        request: Request,
        form: AnswerForm,
        *,
        trace: RequestTrace | None = None,
        window: AnswerWindow | None = None,
        may_compute: bool = False,
        on_disconnect: OnDisconnect | None = None,
        when_queued: Callable[[], object] | None = None,
    ) -> Handle[Answer]:
        """Start a request: encode, occlude or compare, by its class.

        Args:
            request: the inputs, and what is requested of them.
            form: sizes the answer.
            trace: the request's spans.
            window: of the stream that carries the request.
            may_compute: let this thread compute if an engine is idle. Not for that of an event
                loop.
            on_disconnect: called with `Handle.cancel` before any step: this thread may compute for
                long.
            when_queued: called, on any thread, when the request, or its next part, has all room
                that it needs. Not called if it fails before, or needs no engine.

        Returns:
            A handle, to be closed once the answer is sent. Nothing is raised.
        """
        may_compute = may_compute and not request.waits  # it may begin on another thread
        handle = Handle[Answer](
            request, trace, window, may_compute=may_compute, when_queued=when_queued
        )
        steps = self._driver.answer(handle, TASKS[type(request)], form)
        return handle.start(steps, on_disconnect)

    def tokenize(
        self,
        request: Request,
        form: TokensForm,
        *,
        trace: RequestTrace | None = None,
        on_disconnect: OnDisconnect | None = None,
    ) -> Handle[bytes]:
        """Start a request for the tokens of its inputs. The rest is as for `submit`."""
        handle = Handle[bytes](request, trace)
        return handle.start(self._driver.tokens(handle, form), on_disconnect)

    def close(self) -> None:
        """Let its threads end."""
        self.tokenizers.close()
        self.codec.close()
        self._resuming.close()

    def bucket_of(self, client: str) -> Bucket | None:
        """Return the token bucket of a client; None: there are no quotas."""
        return self._driver.bucket_of(client)
