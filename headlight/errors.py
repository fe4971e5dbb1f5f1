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

import contextlib
import copyreg
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from headlight.reasons import Phrase, Reason
from headlight.refusals import Argument, Code, Edge, Path, Refusal, moved, path_of

# What is from the modules below belongs to an error, and is imported from here.
__all__ = [
    "PYTHON",
    "BadAnswer",
    "BundleError",
    "Code",
    "DeadlineExceeded",
    "DeviceFull",
    "DeviceLost",
    "EngineError",
    "HeadlightError",
    "HostFull",
    "InvalidInput",
    "MixedWeights",
    "NotFinite",
    "NotFound",
    "Overloaded",
    "Phrase",
    "Reason",
    "Unauthenticated",
    "Unavailable",
    "renamed",
]


# Names and words of Python's arguments, where the contract has others.
PYTHON = Edge(
    {Phrase.USE_PROMPT: "use prompt"},
    {
        "inputs[*].head_mask": "head_mask",
        "matrix.dtype": "matrix",
        "matrix.max_bytes": "matrix_max_bytes",
        "matrix.kind": "matrix_kind",
        "passage_prompt_text": "passage_prompt",
        "prompt_text": "prompt",
        "query_prompt_text": "query_prompt",
        "target_text": "target",
        "target_vector": "target",
    },
)


class HeadlightError(Exception):
    """Base class of all errors. `message` is fit for the caller.

    Attributes:
        code: the kind of failure.
        refusal: what is wrong, as data.
        message: the same in words: the problem and its remedy.
    """

    code: Code = Code.INTERNAL

    def __init__(self, problem: Reason | str, field: str | Path = "", /, **args: Argument) -> None:
        """Make the error of a reason and its arguments, or of words that have none."""
        path = path_of(field)
        self.refusal = (
            Refusal(self.code, path, Reason.AS_IS, {"problem": problem})
            if isinstance(problem, str)
            else Refusal(self.code, path, problem, args)
        )
        self.message = PYTHON.message(self.refusal)
        super().__init__(self.message)

    def __reduce__(self) -> tuple[Any, ...]:
        # Exception's own method calls the class with the message, which fails if the class takes
        # other arguments. A process pool that cannot unpickle an error waits forever.
        # The type stubs lack `__newobj__`.
        return copyreg.__newobj__, (type(self), *self.args), self.__dict__  # type: ignore[attr-defined]


class InvalidInput(HeadlightError):
    """A value from the caller cannot be served.

    Attributes:
        field: its path in the request, as "inputs[3].text"; or the name of an argument.
        problem: the message without the path.
    """

    code = Code.INVALID_INPUT

    def __init__(self, field: str | Path, problem: Reason | str, /, **args: Argument) -> None:
        super().__init__(problem, field, **args)

    @property
    def field(self) -> str:
        return PYTHON.name(self.refusal.path)

    @property
    def problem(self) -> str:
        return PYTHON.problem(self.refusal)

    def at(self, path: Path) -> InvalidInput:
        """Return the same problem of another field."""
        return InvalidInput(path, self.refusal.reason, **self.refusal.args)


@contextlib.contextmanager
def renamed(moves: Mapping[Path, Path]) -> Iterator[None]:
    """Name the fields of invalid input otherwise: the longest prefix of a table is replaced."""
    try:
        yield
    except InvalidInput as error:
        raise error.at(moved(error.refusal.path, moves)) from None


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

    def __init__(
        self,
        problem: Reason | str,
        retry_after_seconds: float | None = None,
        field: str | Path = "",
        /,
        **args: Argument,
    ) -> None:
        super().__init__(problem, field, **args)
        self.retry_after_seconds = retry_after_seconds


class DeviceFull(Overloaded):
    """A GPU has too little memory for a batch. Smaller batches still work."""


class HostFull(DeviceFull):
    """An allocation failed: the process has too little memory for a batch or an answer.

    Smaller ones still work.
    """

    def __init__(self, problem: Reason | str = Reason.MEMORY, /, **args: Argument) -> None:
        super().__init__(problem, **args)


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
