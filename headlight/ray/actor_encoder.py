"""Encoder of one actor: a runtime in its process, or a client of a fleet of services."""

from __future__ import annotations

import logging
import math
import sys
from collections.abc import Mapping
from typing import Any

from headlight.bulk.row_blocks import BLOCKS_AT_ONCE, BlockSize, JobRetries
from headlight.client.sync_client import Client
from headlight.description import ModelDescription
from headlight.errors import InvalidInput, Reason
from headlight.interface.encoder import Encoder

LOG = logging.getLogger("headlight.ray")


class RuntimeEncoder:
    """A runtime, opened once.

    Attributes:
        model: description of the model.
        block: size of a block.
        at_once: blocks in flight.
    """

    block, at_once = BlockSize(sys.maxsize), 1  # the engine makes its own batches, by length

    def __init__(
        self, bundle: str, *, streams: int | None, threads: int | None, **options: Any
    ) -> None:
        """Open the bundle.

        Args:
            bundle: the folder.
            streams, threads: of Runtime; None: by the CPUs that Ray assigned.
            options: other arguments of Runtime.

        Raises:
            MissingExtra: the extra [runtime] is not installed.
            BundleError: the bundle cannot be opened.
        """
        from headlight.runtime import Runtime  # noqa: PLC0415 # not needed for services
        from headlight.runtime.providers.worker_layout import share, usable_cpus  # noqa: PLC0415

        streams, threads = share(streams, threads, assigned_cpus(usable_cpus()))
        # Batches fill all workers; a session on all threads would only take memory.
        self._runtime = Runtime(bundle, streams=streams, threads=threads, wide=False, **options)
        self.model = self._runtime.model()

    def encoder(self) -> Encoder:
        """Return the encoder."""
        return self._runtime

    def retries(self) -> JobRetries:
        """Return a retry policy that never waits: a runtime is not unavailable."""
        return JobRetries(0.0, None, LOG.warning)

    def stop(self) -> None:
        """Leave the runtime open for the next batch."""


class ServiceEncoder:
    """A client, opened again after a failed batch.

    Attributes:
        model: description of the model; all answers must have its weights.
        block, at_once: see RuntimeEncoder.
    """

    def __init__(
        self,
        target: str,
        retry_for: float,
        at_once: int | None,
        sha256: str | None,
        options: Mapping[str, Any],
    ) -> None:
        """Connect, and wait until the service answers.

        Args:
            target: see Client.
            retry_for: seconds without an answer after which the batch fails.
            at_once: requests in flight; None: BLOCKS_AT_ONCE.
            sha256: digest that the model must have; None: any.
            options: other arguments of Client.

        Raises:
            HeadlightError: the service does not answer.
            InvalidInput: it serves another model.
        """
        self._target, self._options, self._retry_for = target, dict(options), retry_for
        self._client: Client | None = None
        self.model: ModelDescription = self._policy().persist(self.encoder().model)
        self.block = BlockSize.of_service(self.model)
        self.at_once = at_once or BLOCKS_AT_ONCE
        if sha256 not in (None, self.model.bundle_sha256):
            raise InvalidInput(
                "sha256",
                Reason.OTHER_DIGEST,
                name=self.model.name,
                version=self.model.version,
                sha256=self.model.bundle_sha256,
                expected=sha256,
            )

    def encoder(self) -> Client:
        """Return the client; a new one after `stop`."""
        if self._client is None:
            self._client = Client(self._target, **self._options)
        return self._client

    def retries(self) -> JobRetries:
        """Return the retry policy of one batch of a service that has answered before."""
        policy = self._policy()
        policy.reset()
        return policy

    def _policy(self) -> JobRetries:
        return JobRetries(self._retry_for, None, LOG.warning)

    def stop(self) -> None:
        """End the calls in flight."""
        client, self._client = self._client, None
        if client is not None:
            client.close()


def assigned_cpus(usable: int) -> int:
    """Return the CPUs that Ray assigned to this actor; outside an actor, all usable ones."""
    ray = sys.modules.get("ray")
    if ray is None or not ray.is_initialized():
        return usable
    context = ray.get_runtime_context()
    if context.get_actor_id() is None:
        return usable
    assigned: float = context.get_assigned_resources().get("CPU", 1)
    return min(usable, max(1, math.floor(assigned)))
