"""Blocking client: its methods, and the blocking execution of their flows."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any, TypeVar

import grpc

from headlight.client.call_flow import (
    Command,
    Failure,
    Flow,
    LayOut,
    Linger,
    Pause,
    Read,
    Wait,
    output,
    run,
    steps,
)
from headlight.client.channel import BLOCKING_CONFIG
from headlight.client.client_flows import ClientFlows
from headlight.description import ListedModel, ModelDescription
from headlight.interface.encoder import Encoder
from headlight.results import AttentionPiece
from headlight.wire.status_errors import error_of_call

T = TypeVar("T")


class Client(ClientFlows[grpc.Channel], Encoder):
    """Connection to a Headlight service.

    Threads may share it; it closes with its `with` block, or by `close()`.

    Every method may raise the errors of `headlight.errors`. The caller can correct InvalidInput and
    NotFound. Overloaded has a delay if the server named one. Unavailable means that no server
    answers. It is raised after some attempts within a second; by the first call after
    `wait_for_ready`. For streams, and in the middle of a list, it follows after half a minute, to
    save answers. BadAnswer means that the server's answer does not fit the request.
    DeadlineExceeded and EngineError may also be raised.

    Args:
        target: "host:port", or a target of gRPC's with its scheme, as "dns:///name:port" or
            "unix:path". Calls rotate over all addresses of the name. None: the environment variable
            HEADLIGHT_TARGET, else 127.0.0.1:50051.
        model: name of the model, as name, alias or name@version; empty: the default model of the
            server.
        timeout: total seconds for one method; None: no limit. Without one, a call detects after
            some six minutes that a service vanished or froze.
            `options=[("grpc.keepalive_time_ms", 30_000)]` is faster, because Headlight's service
            allows a ping every 10 s. A proxy between may not allow it, so it is no default.
        wait_for_ready: seconds that the first call waits while nobody listens at the target, as
            while a service loads its model; 0: none. Other failures are reported at once.
        tls: whether to use TLS, with gRPC's default certificate authorities. Any other TLS argument
            implies it.
        credentials: use TLS with these instead.
        tls_ca: file of the authorities to trust instead, PEM.
        tls_cert, tls_key: files of the client's certificate and its key, PEM: for mutual TLS. Each
            call checks all three files. After a change, new calls use a new connection, and running
            ones end on theirs. An unusable file, such as a half-written one, changes nothing.
        tls_server_name: the name that the server's certificate must have; None: that of the target.
            Use it for a forwarded port.
        token: token for every call, sent as `authorization: Bearer ...`. Without TLS it is sent in
            plaintext: only for a mesh that encrypts.
        token_file: file of the token; it is read again after a change.
        concurrency: calls in flight at once for a list that needs several.
        options: gRPC channel arguments; they override those of `headlight.client.channel`.

    Raises:
        InvalidInput: the target is not an address, the model is not a text, or the timeout is not a
            number.
        ValueError: the concurrency is not a whole number from 1, or TLS or token arguments cannot
            be used.
    """

    _service_config = BLOCKING_CONFIG
    _closed: threading.Event

    def model(self) -> ModelDescription:
        """Return the model, its runtime, limits and parity with PyTorch.

        Asks the service each time.
        """
        return self._run(self._learn(self._deadline()))

    def list_models(self) -> list[ListedModel]:
        """Return the models of the service, in the order in which it loaded them."""
        return self._list_models()  # type: ignore[no-any-return]  # what `_run` returns

    def _discard(self, channel: grpc.Channel) -> None:
        channel.close()

    def close(self) -> None:
        """End the connection. Calls in flight and later calls raise ValueError."""
        for channel in self._end():
            channel.close()

    def _start(self, method: Any, request: Any, timeout: float | None) -> Any:
        return method.future(request, timeout=timeout)

    def _run(self, flow: Flow[T]) -> T:
        return run(flow, self._execute)

    def _iterate(self, flow: Flow[None]) -> Iterator[AttentionPiece]:
        """Execute a flow and pass on the pieces that it yields."""
        with contextlib.closing(steps(flow)) as commands:
            while (piece := output(commands, self._execute)) is not None:
                yield piece

    def _execute(self, command: Command) -> Any:
        match command:
            case Pause(seconds):
                return self._pause(seconds)
            case LayOut(make):
                return make()
            case Wait(call):
                return response_of(call)
            case Failure(call):
                return error_of_call(call) if call.done() else None
            case Read(call):
                return next(iter(call), None)
            case Linger(call, seconds):
                with contextlib.suppress(grpc.FutureTimeoutError, grpc.FutureCancelledError):
                    call.exception(seconds)

    def _pause(self, seconds: float) -> None:
        self._closed.wait(seconds)


def response_of(call: Any) -> Any:
    """Wait for a call and return its response.

    A call that the server cancelled is raised itself, as failed calls are.
    """
    try:
        return call.result()
    except grpc.FutureCancelledError:
        raise call from None
