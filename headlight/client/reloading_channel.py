"""Reloading channel: a new gRPC channel after each change of its files, a token on each call.

gRPC for Python reads certificates once for each channel. A call that begins after a change uses a
new channel. Running calls stay on the old channel, which is closed after the last of them.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from typing import Any

import grpc

from headlight.tls.credentials import Access

CLOSED = "the client is closed; make another"


@dataclasses.dataclass(eq=False, slots=True)
class Generation:
    """Channel generation: one channel, blocking or asyncio, and its credentials."""

    channel: Any
    credentials: grpc.ChannelCredentials | None
    calls: int = 0  # running on it
    methods: dict[Method, Any] = dataclasses.field(default_factory=dict)  # gRPC's, made so far


class ReloadingChannel:
    """Reloading channel for a stub. Threads may share it."""

    def __init__(
        self,
        access: Access,
        make: Callable[[grpc.ChannelCredentials | None], Any],
        close: Callable[[Any], None],
    ) -> None:
        """Make the first channel.

        Args:
            access: read at each call.
            make: makes a channel with these credentials.
            close: closes a channel that has no calls.
        """
        self._access, self._make, self._close = access, make, close
        self._lock = threading.Lock()
        credentials = access.credentials()
        self._generation = Generation(make(credentials), credentials)
        self._retired: list[Generation] = []
        self._ended = False

    @property
    def channels(self) -> list[Any]:
        """All open channels."""
        with self._lock:
            return [generation.channel for generation in (self._generation, *self._retired)]

    def end(self) -> list[Any]:
        """Stop new calls, and return the open channels for the caller to close.

        No channel opens afterwards.
        """
        with self._lock:
            self._ended = True
        return self.channels

    def unary_unary(self, *arguments: Any, **keywords: Any) -> Any:
        """Return a method; the arguments are those of grpc.Channel."""
        return Method(self, lambda channel: channel.unary_unary(*arguments, **keywords))

    def stream_stream(self, *arguments: Any, **keywords: Any) -> Any:
        """Return a method; the arguments are those of grpc.Channel."""
        return Method(self, lambda channel: channel.stream_stream(*arguments, **keywords))

    def enter(self) -> Generation:
        """Count a new call and return its channel; `leave` ends it.

        Raises ValueError after the end.
        """
        with self._lock:
            if self._ended:
                raise ValueError(CLOSED)
            # Read under the lock: else a slower thread could replace a new certificate by an older
            # one.
            credentials = self._access.credentials()
            if credentials is not self._generation.credentials:
                # if this fails, the one before stays in use
                made = Generation(self._make(credentials), credentials)
                self._retired, self._generation = [*self._retired, self._generation], made
            generation = self._generation
            generation.calls += 1
            idle = [each for each in self._retired if not each.calls]
            self._retired = [each for each in self._retired if each.calls]
        # Not after the last call: its callback runs on a gRPC thread, and closing the channel waits
        # for that.
        for each in idle:
            self._close(each.channel)
        return generation

    def leave(self, generation: Generation) -> None:
        """End a call."""
        with self._lock:
            generation.calls -= 1

    def start(self, method: Method, way: str, request: Any, timeout: float | None) -> Any:
        """Begin a call on the current channel with the current token.

        `way` is the attribute of gRPC's method to call: "__call__" or "future".
        """
        generation = self.enter()
        try:
            real = generation.methods.get(method) or generation.methods.setdefault(
                method, method.make(generation.channel)
            )
            metadata = self._access.metadata and self._access.metadata()
            call = getattr(real, way)(request, timeout=timeout, metadata=metadata)
        except BaseException:
            self.leave(generation)
            raise
        held = [generation]  # empty after the first callback: older grpc.aio may call it twice
        call.add_done_callback(lambda _: self.leave(held.pop()) if held else None)
        return call


@dataclasses.dataclass(eq=False, slots=True)
class Method:
    """Method of the stub: each call uses the current channel and the current token."""

    owner: ReloadingChannel
    make: Callable[[Any], Any]  # returns gRPC's method of a channel

    def __call__(self, request: Any, timeout: float | None = None) -> Any:
        """Begin a call on a stub that does not wait for answers."""
        return self.owner.start(self, "__call__", request, timeout)

    def future(self, request: Any, timeout: float | None = None) -> Any:
        """Begin a call without waiting, on a stub that otherwise waits."""
        return self.owner.start(self, "future", request, timeout)
