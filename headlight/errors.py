"""Every error that Headlight raises on purpose, for servers and clients alike.

    HeadlightError
    ├── InvalidInput        the caller's input: names the field and the remedy     text, ids, selection -> item
    ├── Unauthenticated     the caller did not say who it is, or cannot prove it    call -> text
    ├── NotFound            the caller named a model that is not served            model name -> engine
    ├── Overloaded          shed before any work; may carry a retry delay          item -> queue
    │   └── DeviceFull      a GPU has not the memory for the batch                 engine -> result
    │       └── HostFull    nor has the process, for a batch or an answer          engine -> result, result -> wire
    ├── Unavailable         starting, draining, connection or device lost          any arrow
    │   └── MixedWeights    replicas with different weights answered one call      client only
    ├── DeadlineExceeded    the caller's time ran out before the work was started  queue -> engine
    ├── EngineError         the model failed on a batch: our bug, or the device's  engine -> result
    │   ├── NotFinite       on some of its inputs alone: they overflow             engine -> result
    │   ├── DeviceLost      and the GPU is not to be asked again                   engine -> the end of the process
    │   └── BadAnswer       an answer that breaks the contract or does not fit     client only
    │                       the request: no data of it is returned
    └── BundleError         a bundle is incomplete, altered or does not fit        files -> engine (start-up only)

The service adds leaves of its own: Shed below Overloaded, which knows what there was too little of, and EngineLost, never sent.
Each class has a transport-free `code`; the service maps codes to gRPC statuses in one table, the client maps them back in another.
Messages may reach a caller: they never hold input text, paths of the server or the text of foreign exceptions. (BundleError, which
names files, ends the process at start-up and is never sent.)
"""

from __future__ import annotations

import copyreg
import enum
from collections.abc import Sequence
from typing import Any


class Code(enum.StrEnum):
    """What kind of failure, without reference to a transport."""

    INVALID_INPUT = "invalid_input"
    UNAUTHENTICATED = "unauthenticated"
    NOT_FOUND = "not_found"
    OVERLOADED = "overloaded"
    UNAVAILABLE = "unavailable"
    DEADLINE_EXCEEDED = "deadline_exceeded"
    INTERNAL = "internal"
    BUNDLE = "bundle"


class HeadlightError(Exception):
    """The root. `message` is fit for the caller's eyes.

    Attributes:
        code: the kind of failure.
        message: what is wrong and what to do about it.
    """

    code: Code = Code.INTERNAL

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    def __reduce__(self) -> tuple[Any, ...]:
        # What Exception has calls the class with the message: of no use where it takes something else, and a pool of processes that
        # cannot read an error waits for ever.
        return copyreg.__newobj__, (type(self), *self.args), self.__dict__  # type: ignore[attr-defined]  # unknown to the stubs


class InvalidInput(HeadlightError):
    """A value the caller sent cannot be served.

    Attributes:
        field: its path in the request, as "inputs[3].text".
        problem: what is wrong with it; the message without the path.
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
    """There is no such model here."""

    code = Code.NOT_FOUND


class Overloaded(HeadlightError):
    """Refused before any work, because the queue is full or the answer too large to hold.

    Attributes:
        retry_after_seconds: when to try again; None where trying again cannot help.
    """

    code = Code.OVERLOADED

    def __init__(self, message: str, retry_after_seconds: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class DeviceFull(Overloaded):
    """A GPU has not the memory that a batch needs. With smaller ones it goes on."""


class HostFull(DeviceFull):
    """An allocation failed: the process has not the memory for a batch or an answer. With smaller ones it goes on."""

    def __init__(
        self,
        message: str = "there is not enough memory for this request; ask for less at once: fewer texts, shorter texts or less"
        " attention, or allow the service more memory",
    ) -> None:
        super().__init__(message)


class Unavailable(HeadlightError):
    """The service cannot answer now; another replica, or this one later, can."""

    code = Code.UNAVAILABLE


class MixedWeights(Unavailable):
    """Parts of one call were answered by different weights, as while replicas are being replaced: vectors would not compare."""


class DeadlineExceeded(HeadlightError):
    """The caller's deadline passed."""

    code = Code.DEADLINE_EXCEEDED


class EngineError(HeadlightError):
    """The model failed. The message holds an id under which the log has the details."""

    code = Code.INTERNAL


class NotFinite(EngineError):
    """Results of some inputs of a batch are not finite, by the fault of these inputs and not of the device: of the others there are.

    Attributes:
        results: of each input of the batch; None for those.
    """

    def __init__(self, message: str, results: Sequence[Any] = ()) -> None:
        super().__init__(message)
        self.results = results


class DeviceLost(EngineError):
    """A GPU failed: nothing that it computes for this process can be believed any more."""


class BadAnswer(EngineError):
    """The server's answer breaks the contract or does not fit the request; nothing of it is returned, and nothing is repeated.

    The message names the field, what was expected and what came. Text of the server is in it only with control
    characters escaped.
    """


class BundleError(HeadlightError):
    """A bundle cannot be trusted or cannot be run.

    Attributes:
        file: the file at fault, relative to the bundle; None where it is the whole.
    """

    code = Code.BUNDLE

    def __init__(self, problem: str, file: str | None = None) -> None:
        super().__init__(f"{file}: {problem}" if file else problem)
        self.file = file
