"""A channel that is made anew when the files of its credentials change, and puts a token on each call.

gRPC for Python reads certificates once for each channel. So a call that begins after a change begins on a new channel; those that
run stay on theirs, which is closed when they are done.
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
class Line:
    """One channel, blocking or of asyncio, and the credentials that it was made with."""

    channel: Any
    credentials: grpc.ChannelCredentials | None
    calls: int = 0  # that run on it
    methods: dict[Method, Any] = dataclasses.field(default_factory=dict)  # made so far, by those that they stand for


class Renewing:
    """What a stub takes for a channel. Threads may share one."""

    def __init__(
        self, access: Access, make: Callable[[grpc.ChannelCredentials | None], Any], close: Callable[[Any], None]
    ) -> None:
        """Make the first channel.

        Args:
            access: asked at each call.
            make: a channel with these credentials.
            close: one that nothing runs on.
        """
        self._access, self._make, self._close = access, make, close
        self._lock = threading.Lock()
        credentials = access.credentials()
        self._line = Line(make(credentials), credentials)
        self._retired: list[Line] = []
        self._ended = False

    @property
    def channels(self) -> list[Any]:
        """All that are open."""
        with self._lock:
            return [line.channel for line in (self._line, *self._retired)]

    def end(self) -> list[Any]:
        """Begin no more calls. Returns the channels that are open, for the caller to close; none is opened after."""
        with self._lock:
            self._ended = True
        return self.channels

    def unary_unary(self, *arguments: Any, **keywords: Any) -> Any:
        """As grpc.Channel has it."""
        return Method(self, lambda channel: channel.unary_unary(*arguments, **keywords))

    def stream_stream(self, *arguments: Any, **keywords: Any) -> Any:
        """As grpc.Channel has it."""
        return Method(self, lambda channel: channel.stream_stream(*arguments, **keywords))

    def enter(self) -> Line:
        """The channel of a call that begins now; to be left when it is done. Raises ValueError after the end."""
        with self._lock:
            if self._ended:
                raise ValueError(CLOSED)
            # Asked in here: else a thread that was overtaken since could put the one before in the place of a new certificate.
            credentials = self._access.credentials()
            if credentials is not self._line.credentials:
                made = Line(self._make(credentials), credentials)  # where this fails, the one before stays in use
                self._retired, self._line = [*self._retired, self._line], made
            line = self._line
            line.calls += 1
            idle = [each for each in self._retired if not each.calls]
            self._retired = [each for each in self._retired if each.calls]
        # Not when the last call is done: that is told on a thread of gRPC's, which the channel's end waits for.
        for each in idle:
            self._close(each.channel)
        return line

    def leave(self, line: Line) -> None:
        """A call is done."""
        with self._lock:
            line.calls -= 1

    def start(self, method: Method, way: str, request: Any, timeout: float | None) -> Any:
        """Begin a call on the channel, and with the token, that are right now. `way`: the name of the callable of the real method."""
        line = self.enter()
        try:
            real = line.methods.get(method) or line.methods.setdefault(method, method.make(line.channel))
            metadata = self._access.metadata and self._access.metadata()
            call = getattr(real, way)(request, timeout=timeout, metadata=metadata)
        except BaseException:
            self.leave(line)
            raise
        held = [line]  # until the first time that the call's end is told: older grpc.aio may tell it twice
        call.add_done_callback(lambda _: self.leave(held.pop()) if held else None)
        return call


@dataclasses.dataclass(eq=False, slots=True)
class Method:
    """A method of the stub: each call of it finds its channel and its token anew."""

    owner: Renewing
    make: Callable[[Any], Any]  # the real one, of a channel

    def __call__(self, request: Any, timeout: float | None = None) -> Any:
        """A call, of a stub that does not wait for its answer."""
        return self.owner.start(self, "__call__", request, timeout)

    def future(self, request: Any, timeout: float | None = None) -> Any:
        """A call that is not waited for, of a stub that otherwise does."""
        return self.owner.start(self, "future", request, timeout)
