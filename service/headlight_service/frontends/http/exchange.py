"""One HTTP request and its response, as the handlers of all dialects see them."""

from __future__ import annotations

import asyncio
import math
import time
import urllib.parse
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import CancelledError, Future
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import orjson

from headlight.errors import DeadlineExceeded, InvalidInput, Phrase, Reason
from headlight.spec import Priority
from headlight_service.core.admission.shed_error import Shed, Shortage
from headlight_service.core.handle import Handle
from headlight_service.core.requests.answer import Answer
from headlight_service.core.requests.request import Request
from headlight_service.core.tasks.task import AnswerForm, TokensForm
from headlight_service.frontends.answer_wait import answered
from headlight_service.frontends.http.http_status import ErrorResponse, Headers
from headlight_service.frontends.http.json_limits import limits_of, parse

if TYPE_CHECKING:
    from headlight_service.frontends.http.door import Door
    from headlight_service.telemetry.request_trace import RequestTrace

T = TypeVar("T")
TIMEOUT_HEADER, PRIORITY_HEADER = "x-request-timeout", "x-headlight-priority"
LONGEST_TIMEOUT_SECONDS = 86400.0
INLINE_BYTES = 16 << 10  # of a body, which the event loop's thread parses in 0.1 ms or less
INLINE_ANSWER_BYTES = 1 << 18  # of data, which the event loop's thread writes in about 2 ms
# Bytes of a body that are parsed for the price of computing one token: some 30 µs.
PARSED_PER_COMPUTED = 2048


class ClientGone(Exception):
    """The client disconnected, or does not read: no response can be sent."""


class ReaderStalled(ClientGone):
    """The client has stopped reading."""


class Response(NamedTuple):
    """A response.

    Attributes:
        body: the whole body.
        headers: besides the content's type and length; lower-case names.
    """

    body: bytes = b""
    status: int = 200
    content_type: str = "application/json"
    headers: Headers = ()


class Options(NamedTuple):
    """Options of the frontend.

    Attributes:
        stall_seconds: for a client to send a request, or to read a response.
        max_request_bytes: most bytes of one body.
        hosts: accepted host names besides those of the loopback; None: any, for a listener that
            other machines reach.
        max_connection_age_seconds: age at which a response closes its connection.
        most_connections: open connections; a further one replaces the oldest idle one.
        metrics_address: where `/metrics` is, for the message of a wrong path.
        cors_origins: origins whose pages may call this service; "*": all.
        any_model_name: whether requests of other tools may name a model that is not served.
        page: whether GET / is a page for browsers.
        grpc_port: port of gRPC, for the requests that the page writes to copy.
    """

    stall_seconds: float = 20.0
    max_request_bytes: int = 4 << 20
    hosts: frozenset[str] | None = frozenset()
    max_connection_age_seconds: float = 300.0
    most_connections: int = 4096
    metrics_address: str = "--metrics"
    cors_origins: frozenset[str] = frozenset()
    any_model_name: bool = False
    page: bool = True
    grpc_port: int = 50051


class Exchange:
    """One request and all that it holds until its response is sent.

    Attributes:
        door: the door that it came through.
        method: its method; GET for HEAD.
        path: its path, without doubled and trailing slashes.
        rest: what follows the path of a route that ends in `/*`.
        headers: its headers, by lower-case names; the last of each.
        query: its query string, decoded; the last of each name.
        body: its body; empty for another method than POST, and for a public route.
        request_id: the client's id, or a new one.
        deadline: deadline on time.monotonic; infinity for none.
        priority: interactive or bulk.
        waits: whether it waits for room in the queue, up to its deadline.
        client: its caller; see `Request`.
        trace: its spans.
        gone: whether the client disconnected.
        release_body: gives back the bytes that its body holds; the core takes those of a request.
    """

    def __init__(
        self,
        door: Door,
        method: str,
        path: str,
        headers: Mapping[str, str],
        query: bytes,
        request_id: str,
    ) -> None:
        self.door = door
        self.method, self.path, self.rest = method, path, ""
        self.headers = headers
        self.query = dict(urllib.parse.parse_qsl(query.decode("latin-1"))) if query else {}
        self.body = b""
        self.request_id = request_id
        self.deadline = math.inf
        self.priority: Priority = "interactive"
        self.waits = False
        self.client: str = ""
        self.trace: RequestTrace | None = None
        self.gone = False
        self.release_body: Callable[[], None] = _nothing
        self._waiting: Handle[Any] | None = None
        self._decoding: Future[Any] | None = None
        self._answered: list[Handle[Any]] = []

    async def decoded(self, make: Callable[[Exchange, dict[str, Any]], T]) -> T:
        """Return what `make` makes of the body, a JSON object.

        A large body is parsed on a thread, so that other requests go on, and its cost is charged to
        the client's quota.

        Args:
            make: called with this exchange and the parsed body, on any thread.

        Raises:
            InvalidInput: the body is not JSON, or no object, or too much; or an error of `make`.
            Shed: the client's quota is used up.
            DeadlineExceeded: other bodies were parsed until the deadline.
            ClientGone: the client disconnected.
        """
        size = len(self.body)
        if size <= INLINE_BYTES:
            return make(self, self._object())
        bucket = self.door.pipeline.bucket_of(self.client)
        if bucket is not None:
            bucket.charge(size / PARSED_PER_COMPUTED)
        self._decoding = work = self.door.pipeline.codec.submit(lambda: make(self, self._object()))
        if self.gone:
            work.cancel()
        try:
            left = None if self.deadline == math.inf else self.deadline - time.monotonic()
            async with asyncio.timeout(left):
                return await asyncio.wrap_future(work)
        except TimeoutError:
            raise DeadlineExceeded(Reason.EXPIRED_OVER_HTTP) from None
        except asyncio.CancelledError:
            if self.gone:
                raise ClientGone from None
            raise

    async def encoded(self, make: Callable[[], Response], size_bytes: int) -> Response:
        """Return the response that `make` makes of an answer of this size; on a thread if large."""
        if size_bytes <= INLINE_ANSWER_BYTES:
            return make()
        return await self.door.pipeline.codec.run(make)

    def _object(self) -> dict[str, Any]:
        value = parse(self.body, limits_of(self.door.pipeline.models.limits))
        if not isinstance(value, dict):
            raise InvalidInput("", Reason.BODY_NO_OBJECT)
        return value

    def read_options(self) -> None:
        """Read deadline and priority from the headers. Raises InvalidInput."""
        timeout = self.headers.get(TIMEOUT_HEADER)
        if timeout is not None:
            self.deadline = time.monotonic() + _seconds(timeout)
        priority = self.headers.get(PRIORITY_HEADER)
        if priority is not None:
            if priority not in ("interactive", "bulk"):
                raise InvalidInput(PRIORITY_HEADER, Reason.MUST_BE, kind=Phrase.PRIORITY)
            self.priority = "bulk" if priority == "bulk" else "interactive"
            self.waits = priority == "bulk"

    def known(self) -> dict[str, str]:
        """Return the log's fields of the request."""
        if self.trace is None:
            return {"request_id": self.request_id}
        self.trace.describe({"headlight.request_id": self.request_id})
        return {"request_id": self.request_id, "trace_id": self.trace.trace_id}

    def fill(self, request: Request) -> None:
        """Set what is the same in every dialect, unless the dialect has set it. Then submit it."""
        self.release_body()
        request.size_bytes = request.size_bytes or len(self.body)
        request.deadline = min(request.deadline, self.deadline)
        if self.priority == "bulk":
            request.priority = "bulk"
        request.waits = request.waits or self.waits
        request.client = self.client

    async def submit(self, request: Request, form: AnswerForm) -> Answer:
        """Return the core's answer to a request.

        Raises:
            HeadlightError: an error of the pipeline's steps, DeadlineExceeded among them.
            ClientGone: the client disconnected.
        """
        self.fill(request)
        return await self.wait(self.door.pipeline.submit(request, form, trace=self.trace))

    async def tokenize(self, request: Request, form: TokensForm) -> bytes:
        """Return the core's answer to a request for tokens. Raises as `submit`."""
        self.fill(request)
        return await self.wait(self.door.pipeline.tokenize(request, form, trace=self.trace))

    async def wait(self, handle: Handle[T]) -> T:
        """Return the answer of a started handle, which is closed once the response is sent."""
        self._waiting = handle
        if self.gone:
            handle.cancel()
        left = handle.request.deadline - time.monotonic()
        try:
            try:
                async with asyncio.timeout(None if left == math.inf else left):
                    await answered(handle)
            except TimeoutError:
                handle.expire()
                if not handle.future.done():  # an engine computes it
                    handle.cancel()
                    handle.close()  # it may be about to be answered
                    raise DeadlineExceeded(Reason.EXPIRED_OVER_HTTP) from None
            answer = handle.result()  # a failed request has given everything back
        except CancelledError:
            raise ClientGone from None
        except asyncio.CancelledError:
            handle.cancel(by_caller=False)
            handle.close()
            raise
        finally:
            self._waiting = None
        self._answered.append(handle)
        return answer

    def disconnect(self) -> None:
        """Cancel the work: the client disconnected. On the event loop."""
        self.gone = True
        if self._waiting is not None:
            self._waiting.cancel()
        if self._decoding is not None:
            self._decoding.cancel()

    def close(self, error: Exception | None = None) -> None:
        """Give back everything that the answers hold: the response is sent, or never will be.

        Args:
            error: the reason why it was not sent; None: it was.
        """
        answered, self._answered = self._answered, []
        for handle in answered:
            if isinstance(error, ReaderStalled):
                handle.close(Shed(Reason.NOT_READ, Shortage.STALLED_READER))
            elif isinstance(error, ClientGone):
                handle.count_cancelled("send")
                handle.close()
            else:
                handle.close(error)


Handler = Callable[[Exchange], Awaitable[Response]]
ErrorEncoder = Callable[[ErrorResponse], Response]


class Route(NamedTuple):
    """A path with a method.

    Attributes:
        path: the path; at the end `/*` takes all that follows.
        public: whether it needs no token.
    """

    method: str
    path: str
    handler: Handler
    public: bool = False


def json_response(value: Any, status: int = 200, headers: Headers = ()) -> Response:
    """Return a response of JSON. NumPy arrays must be contiguous and in native byte order."""
    return Response(orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY), status, headers=headers)


def _nothing() -> None:
    """Do nothing."""


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds <= LONGEST_TIMEOUT_SECONDS:
        raise InvalidInput(
            TIMEOUT_HEADER, Reason.TIMEOUT_RANGE, most=f"{LONGEST_TIMEOUT_SECONDS:g}"
        )
    return seconds
