"""A thread-based gRPC server with a watchdog, which replaces it if it ends by itself.

Its one serving thread takes every call. If that thread fails, the listener would stay open and no
call would be answered, while the process looks healthy.
"""

from __future__ import annotations

import asyncio
import enum
import logging
import threading
import time
from collections import deque
from collections.abc import Callable

import grpc

from headlight_service.frontends.grpc.transport.call_bridge import Bridge
from headlight_service.telemetry.json_logs import describe

log = logging.getLogger("headlight_service.frontends.grpc.transport.grpc_server")
STOP_SECONDS = 5.0  # limit on the end of all calls; a lost server never reports that it has stopped
REBIND_SECONDS = 5.0  # limit on the wait for a lost server's port
RETRY_SECONDS = 0.01
MOST_LOSSES, LOSS_SECONDS = 3, 1.0  # so many losses within that time end the process


class Change(enum.Enum):
    """State of a server that ended by itself."""

    LOST = "nothing listens"
    RESTORED = "a new server listens on the same address"
    GIVEN_UP = "it ended too often, or its address cannot be had again: the process should end"


class GrpcServer:
    """A server on one address. Its methods run on the event loop; only the watch has a thread."""

    def __init__(
        self,
        name: str,
        make: Callable[[Bridge], grpc.Server],
        observe: Callable[[str, Change], None],
    ) -> None:
        """Make a server that does not listen yet.

        Args:
            name: name for the log.
            make: makes a server with its services, whose calls go over the bridge.
            observe: called on the loop with the name and the change of a server that ended by
                itself.
        """
        self._name = name
        self._make = make
        self._observe = observe
        self._address = ""
        self._credentials: grpc.ServerCredentials | None = None
        self._losses: deque[float] = deque(maxlen=MOST_LOSSES)
        self._kept: list[grpc.Server] = []  # gRPC must not free a server that was never shut down
        self._stopping = False
        self._loop = asyncio.get_running_loop()
        self._new()

    def bind(self, address: str, credentials: grpc.ServerCredentials | None = None) -> int:
        """Listen, with TLS if there are credentials; return the port. Raises RuntimeError."""
        server = self._server
        port = (
            server.add_secure_port(address, credentials)
            if credentials
            else server.add_insecure_port(address)
        )
        self._address = f"{address.rpartition(':')[0]}:{port}"
        self._credentials = credentials
        return port

    async def start(self) -> None:
        """Serve, and watch the serving thread."""
        threads = _threads(self._server.start, "_serve")
        for thread in threads:
            threading.Thread(
                target=self._watch, args=(thread,), name=f"{self._name}-watch", daemon=True
            ).start()
        if not threads:  # it has ended already
            self._ended()

    async def stop(self, grace: float | None) -> None:
        """Take no more calls, and end those that outlast the grace time; None: all of them now."""
        self._stopping = True
        if self._server in self._kept:  # it is lost, and has no replacement
            return
        try:
            stopped = self._server.stop(grace or 0)
            if not await self._loop.run_in_executor(
                None, stopped.wait, STOP_SECONDS + (grace or 0)
            ):
                log.warning("gRPC did not stop", extra={"event": "grpc_not_stopped"})
        except RuntimeError as error:  # the system has no more threads
            log.error(
                "gRPC cannot be stopped", extra={"event": "grpc_not_stopped", **describe(error)}
            )
        self._bridge.abandon()

    def _new(self) -> None:
        self._bridge = Bridge()
        self._server = self._make(self._bridge)

    def _watch(self, serving: threading.Thread) -> None:
        serving.join()
        self._ended()

    def _ended(self) -> None:
        """Replace the server, unless it was stopped. From any thread."""
        if not self._stopping:
            asyncio.run_coroutine_threadsafe(self._replace_or_give_up(), self._loop)

    async def _replace_or_give_up(self) -> None:
        if self._stopping:
            return
        try:
            await self._replace()
        except Exception as error:
            log.critical("gRPC cannot be replaced", extra={"event": "grpc_gone", **describe(error)})
            self._observe(self._name, Change.GIVEN_UP)

    async def _replace(self) -> None:
        self._losses.append(time.monotonic())
        log.critical(
            "the gRPC server ended by itself; a new one takes its place",
            extra={"event": "grpc_lost", "server": self._name},
        )
        self._observe(self._name, Change.LOST)
        self._kept.append(self._server)
        await self._loop.run_in_executor(None, _cancel_all, self._server)
        self._bridge.abandon()
        if len(self._losses) == MOST_LOSSES and self._losses[-1] - self._losses[0] < LOSS_SECONDS:
            self._observe(self._name, Change.GIVEN_UP)
            return
        await self._listen_again()
        if not self._stopping:
            await self.start()
            self._observe(self._name, Change.RESTORED)
            log.warning(
                "gRPC listens again", extra={"event": "grpc_restored", "server": self._name}
            )

    async def _listen_again(self) -> None:
        """Bind a new server. The old one frees the address a moment later. Raises RuntimeError."""
        self._new()
        until = time.monotonic() + REBIND_SECONDS
        while not self._stopping:
            try:
                self.bind(self._address, self._credentials)
                return
            except RuntimeError:
                if time.monotonic() > until:
                    raise
            await asyncio.sleep(RETRY_SECONDS)


def _cancel_all(server: grpc.Server) -> None:
    """Cancel the calls of a lost server, and wait for gRPC's thread that does so.

    No status is sent before.
    """
    for thread in _threads(lambda: server.stop(0), "cancel_all_calls_after_grace"):
        thread.join(STOP_SECONDS)


def _threads(act: Callable[[], object], runs: str) -> list[threading.Thread]:
    """Call `act`; return the threads that it starts to run `runs`, by their default names."""
    before = {*threading.enumerate()}
    act()
    return [
        thread for thread in {*threading.enumerate()} - before if thread.name.endswith(f"({runs})")
    ]
