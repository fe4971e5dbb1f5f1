"""Errors that Headlight raises on purpose, in servers and clients.

    HeadlightError
    ├── InvalidInput       the caller's input: names field and remedy
    ├── Unauthenticated    the caller's credentials are missing or wrong
    ├── NotFound           the caller named a model that is not served
    ├── Overloaded         a resource is short; may carry a retry delay
    │   └── DeviceFull     a GPU has too little memory for the batch
    │       └── HostFull   the process lacks memory for a batch or an answer
    ├── Unavailable        starting, draining, connection or device lost
    │   └── MixedWeights   replicas with different weights answered one call (client only)
    ├── DeadlineExceeded   the caller's deadline passed before the work
    ├── EngineError        the model failed on a batch: a bug, or the device
    │   ├── NotFinite      only on some of its inputs: their results overflow, or are zeros
    │   ├── DeviceLost     a GPU failed and must not be used again
    │   └── BadAnswer      an answer breaks the contract or does not fit the request: no data of it
    │                      is returned (client only)
    └── BundleError        a bundle is incomplete, altered or does not fit (start-up only)

The service adds classes of its own: Shed below Overloaded, which names the scarce resource, and
EngineLost, never sent. Each class has a transport-free `code`. The service maps codes to gRPC
statuses in one table, and the client maps them back in another. Messages may reach a caller: they
never hold input text, paths of the server or the text of foreign exceptions. (BundleError names
files; it ends the process at start-up and is never sent.)
"""

from __future__ import annotations

import copyreg
import enum
from collections.abc import Sequence
from typing import Any


class Code(enum.StrEnum):
    """Kind of failure, without reference to a transport."""

    INVALID_INPUT = "invalid_input"
    UNAUTHENTICATED = "unauthenticated"
    NOT_FOUND = "not_found"
    OVERLOADED = "overloaded"
    UNAVAILABLE = "unavailable"
    DEADLINE_EXCEEDED = "deadline_exceeded"
    INTERNAL = "internal"
    BUNDLE = "bundle"


class HeadlightError(Exception):
    """Base class of all errors. `message` is fit for the caller.

    Attributes:
        code: the kind of failure.
        message: the problem and its remedy.
    """

    code: Code = Code.INTERNAL

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    def __reduce__(self) -> tuple[Any, ...]:
        # Exception's own method calls the class with the message, which fails if the class takes
        # other arguments. A process pool that cannot unpickle an error waits forever.
        # The type stubs lack `__newobj__`.
        return copyreg.__newobj__, (type(self), *self.args), self.__dict__  # type: ignore[attr-defined]


class InvalidInput(HeadlightError):
    """A value from the caller cannot be served.

    Attributes:
        field: its path in the request, as "inputs[3].text".
        problem: the message without the path.
    """

    code = Code.INVALID_INPUT

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}" if field else problem)
        self.field = field
        self.problem = problem


class Unauthenticated(HeadlightError):
    """The call has no token, or one that the service does not know."""

    code = Code.UNAUTHENTICATED


class NotFound(HeadlightError):
    """The service has no such model."""

    code = Code.NOT_FOUND


class Overloaded(HeadlightError):
    """Refused because a resource is short; nothing is returned.

    Attributes:
        retry_after_seconds: delay before a retry; None: a retry cannot help.
    """

    code = Code.OVERLOADED

    def __init__(self, message: str, retry_after_seconds: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class DeviceFull(Overloaded):
    """A GPU has too little memory for a batch. Smaller batches still work."""


class HostFull(DeviceFull):
    """An allocation failed: the process has too little memory for a batch or an answer.

    Smaller ones still work.
    """

    def __init__(
        self,
        message: str = (
            "there is not enough memory for this request; ask for less at once: fewer texts, "
            "shorter texts or less attention, or allow the service more memory"
        ),
    ) -> None:
        super().__init__(message)


class Unavailable(HeadlightError):
    """The service cannot answer now; another replica, or this one later, can."""

    code = Code.UNAVAILABLE


class MixedWeights(Unavailable):
    """Different weights answered parts of one call, as in a roll-out: vectors do not compare."""


class DeadlineExceeded(HeadlightError):
    """The caller's deadline passed."""

    code = Code.DEADLINE_EXCEEDED


class EngineError(HeadlightError):
    """The model failed. The message has the id under which the log has the details."""

    code = Code.INTERNAL


class NotFinite(EngineError):
    """Some inputs of a batch have no usable result: the inputs are the cause, not the device.

    Numbers are not finite, or a vector of zeros has no unit length. The other inputs have results.

    Attributes:
        results: results of all inputs of the batch; None for the inputs at fault.
    """

    def __init__(self, message: str, results: Sequence[Any] = ()) -> None:
        super().__init__(message)
        self.results = results


class DeviceLost(EngineError):
    """A GPU failed: none of its later results for this process can be trusted."""


class BadAnswer(EngineError):
    """The server's answer breaks the contract or does not fit the request: no data, no retry.

    The message names the field, the expected and the actual value. Text of the server has its
    control characters escaped.
    """


class BundleError(HeadlightError):
    """A bundle cannot be trusted or cannot be run.

    Attributes:
        file: the file at fault, relative to the bundle; None: the bundle as a whole.
    """

    code = Code.BUNDLE

    def __init__(self, problem: str, file: str | None = None) -> None:
        super().__init__(f"{file}: {problem}" if file else problem)
        self.file = file
