"""Channel of a client (load balancing, gRPC retries, keepalive), and state of both clients."""

from __future__ import annotations

import abc
import contextlib
import json
import math
import numbers
import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, NoReturn, TypeVar, cast

import grpc

from headlight.client.calls.list_work import STOCK_MESSAGE_BYTES
from headlight.client.connection_advice import Spelling, no_answer
from headlight.client.reloading_channel import CLOSED, ReloadingChannel
from headlight.description import ModelDescription
from headlight.errors import (
    DeadlineExceeded,
    EngineError,
    HeadlightError,
    InvalidInput,
    MixedWeights,
    Phrase,
    Reason,
    Unauthenticated,
    Unavailable,
)
from headlight.pb.headlight_pb2_grpc import HeadlightServiceStub
from headlight.tls.credentials import PathLike, access
from headlight.wire.status_errors import DETAILS_KEY, error_of_call

ChannelT = TypeVar("ChannelT", grpc.Channel, grpc.aio.Channel)
Options = Sequence[tuple[str, Any]]

SERVICE = "headlight.v1.HeadlightService"
TARGET_VARIABLE, DEFAULT_TARGET = "HEADLIGHT_TARGET", "127.0.0.1:50051"
READY_SECONDS = 5.0  # in which a service loads a model of usual size
# Every call is a pure function of its request, so a retry is safe. Not RESOURCE_EXHAUSTED: gRPC
# also returns it for a message that is too large, which a retry cannot fix.
RETRY_POLICY = {
    "maxAttempts": 4,
    "initialBackoff": "0.1s",
    "maxBackoff": "1s",
    "backoffMultiplier": 2,
    # gRPC servers end a call with CANCELLED if it arrives while they stop. They have not read its
    # message.
    "retryableStatusCodes": ["UNAVAILABLE", "CANCELLED"],
}
SERVICE_CONFIG = {
    # A headless Kubernetes service resolves to one address for each pod. The default policy would
    # pin this client to the first.
    "loadBalancingConfig": [{"round_robin": {}}],
    "methodConfig": [{"name": [{"service": SERVICE}], "retryPolicy": RETRY_POLICY}],
    # If most calls fail, retries only add load: below half of the tokens there are none. So 500
    # failures in a row stop all retries. 1000 is gRPC's maximum: if a replica stops, its share of
    # hundreds of calls fails together.
    "retryThrottling": {"maxTokens": 1000, "tokenRatio": 1},
}

# For the blocking client, without EncodeStream. If the server of a blocking stream is gone, gRPC
# for Python retries and never returns, even after the deadline. The client restarts the stream
# itself.
UNARY = (
    *("Encode", "Tokenize", "Compare", "Rerank", "Classify"),
    *("Occlude", "GetModel", "ListModels"),
)
BLOCKING_CONFIG = SERVICE_CONFIG | {
    "methodConfig": [
        {
            "name": [{"service": SERVICE, "method": name} for name in UNARY],
            "retryPolicy": RETRY_POLICY,
        }
    ]
}

DEFAULT_OPTIONS: Options = (
    # gRPC repeats only what it has buffered. Its default of 256 KiB is less than a full request of
    # texts.
    ("grpc.per_rpc_retry_buffer_size", 4 * 2**20),
    # The client resolves addresses again when a connection ends, and gRPC waits 30 s between two
    # lookups by default. A rolling update can replace every known replica in that time.
    ("grpc.dns_min_time_between_resolutions_ms", 2_000),
    # gRPC's default of 1 s is longer than all retries of the policy together. They would all fail
    # even if the server is back within 200 ms.
    ("grpc.initial_reconnect_backoff_ms", 100),
    # Finds a service again soon. gRPC's default backoff grows to two minutes.
    ("grpc.max_reconnect_backoff_ms", 2_000),
    # A stock server closes connections that ping more often than every 5 minutes. Between pings,
    # the keepalive timeout detects unacknowledged data (gRPC sets TCP_USER_TIMEOUT to it).
    ("grpc.keepalive_time_ms", 310_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    # Requests are split so that each answer, or each frame of it, fits. Larger messages are not
    # read into memory.
    ("grpc.max_receive_message_length", STOCK_MESSAGE_BYTES),
)

# three years; gRPC treats a deadline centuries away, or infinity, as one that has passed
MOST_SECONDS = 1e8
# Passed to gRPC unchanged.
SCHEMES = re.compile(r"(dns|ipv4|ipv6|unix|unix-abstract|vsock|xds|google-c2p):")
ADDRESS = re.compile(r"(?:\[[^][\s]+\]|[^][\s:/,@?#]+):(?=\d)0*(?P<port>\d*)", re.ASCII)
HIGHEST_PORT = 65535


class ClientBase(abc.ABC, Generic[ChannelT]):
    """Channel, options and server description of a client.

    `headlight.client.sync_client.Client` describes the arguments.
    """

    _grpc: Any = grpc  # the module that makes the channels
    _event: Callable[[], Any] = threading.Event
    _service_config: Mapping[str, Any] = SERVICE_CONFIG
    _spelling: Spelling = "{}=".format
    # retried once part of a list is answered, so that no answer is lost
    _outlasts: type[HeadlightError] | None = Unavailable

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"a {type(self).__name__} holds connections and cannot be pickled or copied; "
            "make one in each process"
        )

    def __init__(
        self,
        target: str | None = None,
        *,
        model: str = "",
        timeout: float | None = None,
        wait_for_ready: float = READY_SECONDS,
        tls: bool = False,
        credentials: grpc.ChannelCredentials | None = None,
        tls_ca: PathLike | None = None,
        tls_cert: PathLike | None = None,
        tls_key: PathLike | None = None,
        tls_server_name: str | None = None,
        token: str | None = None,
        token_file: PathLike | None = None,
        concurrency: int = 4,
        options: Options = (),
    ) -> None:
        target = default_target() if target is None else target
        check_arguments(target, model, timeout, wait_for_ready, concurrency)
        if tls_server_name is not None:
            options = (("grpc.ssl_target_name_override", tls_server_name), *options)
        config: tuple[str, Any] = ("grpc.service_config", json.dumps(self._service_config))
        settings = [*dict([config, *DEFAULT_OPTIONS, *options]).items()]
        tls = tls or tls_server_name is not None
        source = access(
            tls=tls,
            credentials=credentials,
            tls_ca=tls_ca,
            tls_cert=tls_cert,
            tls_key=tls_key,
            token=token,
            token_file=token_file,
        )
        if source.fixed:
            channel: Any = self._open(target, source.credentials(), settings)
        else:
            channel = ReloadingChannel(
                source, lambda each: self._open(target, each, settings), self._discard
            )
        self._channel: ChannelT | ReloadingChannel = channel
        self._problems: Callable[[], Sequence[str]] = source.problems
        self._closed: Any = self._event()
        self._stub = HeadlightServiceStub(channel)
        self._target = target
        self._tls = tls or any(given is not None for given in (credentials, tls_ca, tls_cert))
        self._certified = tls_cert is not None
        self._model = model
        self._timeout = timeout
        self._wait_for_ready = wait_for_ready
        self._answered = False  # whether the service has been ready
        self._concurrency = concurrency
        self._description: ModelDescription | None = None  # for its limits; None: not yet requested

    def _open(
        self, target: str, credentials: grpc.ChannelCredentials | None, options: Options
    ) -> Any:
        """Open a channel of the client's kind."""
        if credentials is None:
            return self._grpc.insecure_channel(target, options)
        return self._grpc.secure_channel(target, credentials, options)

    @abc.abstractmethod
    def _discard(self, channel: ChannelT) -> None:
        """Close a channel that has no more calls."""

    def _end(self) -> list[ChannelT]:
        """Stop new calls and return the channels to close."""
        self._closed.set()
        return (
            self._channel.end() if isinstance(self._channel, ReloadingChannel) else [self._channel]
        )

    @contextlib.contextmanager
    def _errors(self, first_input: int = 0, large: bool = False) -> Iterator[None]:
        """Convert gRPC errors to Headlight's.

        Arguments as for `headlight.wire.status_errors.error_of_call`.

        Raises:
            HeadlightError: of the failed call.
            ValueError: the client was closed meanwhile.
        """
        with self._doubts():
            try:
                yield
            except grpc.RpcError as error:
                if (
                    self._closed.is_set()
                    and cast("grpc.Call", error).code() is grpc.StatusCode.CANCELLED
                ):
                    raise ValueError(CLOSED) from None
                raise self._explained(error_of_call(error, first_input, large), error) from None

    def _explained(self, failure: HeadlightError, error: grpc.RpcError) -> HeadlightError:
        """Return an error of the connection or its credentials with what to do."""
        if not isinstance(failure, Unauthenticated | Unavailable):
            return failure
        path, reason, args = failure.refusal[1:]
        trailing = cast("grpc.Call", error).trailing_metadata() or ()
        if isinstance(failure, Unavailable) and DETAILS_KEY not in dict(trailing):
            given = {"tls": self._tls, "certified": self._certified}
            problem = no_answer(failure.message, self._target, self._spelling, **given)
            path, reason, args = (), Reason.AS_IS, {"problem": problem}
        # a TLS or token file may be the cause
        problems = [f"{each}, and what was there before is still used" for each in self._problems()]
        more = {"more": "; ".join(problems)} if problems else {}
        return type(failure)(reason, path, **args, **more)

    @contextlib.contextmanager
    def _doubts(self) -> Iterator[None]:
        """Forget the model description after errors that a replaced server may explain."""
        try:
            yield
        except (InvalidInput, EngineError, MixedWeights):
            self._description = None
            raise

    def _deadline(self) -> float | None:
        """Return the deadline of a method called now, by the monotonic clock."""
        return None if self._timeout is None else time.monotonic() + self._timeout

    def _remaining(self, deadline: float | None) -> float | None:
        """Return the seconds until a deadline for a call that begins now.

        Raises:
            DeadlineExceeded: no time is left; gRPC would still let a quick call through.
            ValueError: the client is closed.
        """
        if self._closed.is_set():
            raise ValueError(CLOSED)
        if deadline is None:
            return None
        left = deadline - time.monotonic()
        if left <= 0:
            raise DeadlineExceeded("the client's timeout passed")
        return min(MOST_SECONDS, left)


def default_target() -> str:
    """Return the target of a client that names none: HEADLIGHT_TARGET, else a local service."""
    return os.environ.get(TARGET_VARIABLE) or DEFAULT_TARGET


def check_arguments(
    target: object, model: object, timeout: object, wait_for_ready: object, concurrency: object
) -> None:
    """Check the arguments of a client.

    gRPC would print lines of its own, or fail only at the first call.

    Raises:
        InvalidInput: the target is no address, the model no name, or a time no number of seconds.
        ValueError: the concurrency is no whole number from 1.
    """
    check_target(target)
    check_model(model)
    if timeout is not None and (not isinstance(timeout, numbers.Real) or math.isnan(timeout)):
        raise InvalidInput(
            "timeout", Reason.IS_AND_MUST_BE, value=repr(timeout), kind=Phrase.SECONDS
        )
    if not isinstance(wait_for_ready, int | float) or not wait_for_ready >= 0:
        raise InvalidInput(
            "wait_for_ready",
            Reason.IS_AND_MUST_BE,
            value=repr(wait_for_ready),
            kind=Phrase.SECONDS_FROM_0,
        )
    if not isinstance(concurrency, numbers.Integral) or concurrency < 1:
        raise ValueError(f"concurrency: is {concurrency!r}; must be a whole number, at least 1")


def check_model(name: Any) -> None:
    """Check the name of a model, which every request holds; None is the same as empty.

    Raises:
        InvalidInput: it is not a text, or a request cannot hold it.
    """
    try:
        str.encode("" if name is None else name)
    # Python turns a command-line argument that is not UTF-8 into lone surrogates
    except (TypeError, UnicodeEncodeError):
        raise InvalidInput(
            "model", Reason.IS_AND_MUST_BE, value=repr(name), kind=Phrase.MODEL_NAME
        ) from None


def check_target(target: object) -> None:
    """Check "host:port".

    Without a port, gRPC would dial 443; for a port that is too high, another one. It would take a
    URL's scheme for a host.

    Raises:
        InvalidInput: it is neither "host:port" nor a target of one of gRPC's schemes.
    """
    text = target if isinstance(target, str) else ""
    if SCHEMES.match(text):
        return
    address, reason = ADDRESS.fullmatch(text), Reason.NO_TARGET
    if address is not None:
        reason = Reason.PORT
        if (
            len(address["port"]) <= len(str(HIGHEST_PORT))
            and 1 <= int(address["port"] or 0) <= HIGHEST_PORT
        ):
            return  # int refuses thousands of digits
    elif "://" in text:
        reason = Reason.A_URL
    elif text.count(":") > 1 and "," not in text:
        reason = Reason.BARE_IPV6
    raise InvalidInput("target", reason, target=repr(target), most=HIGHEST_PORT)
