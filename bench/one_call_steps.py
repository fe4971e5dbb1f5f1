"""Steps of one unary call in Headlight's process: time stamps at their borders.

The functions of the service are wrapped, so its code is unchanged. Calls must come one after
another. Stamps are nanoseconds of time.monotonic_ns, one clock for all processes of a machine.
"""

from __future__ import annotations

import functools
import time
from typing import Any, NamedTuple
from unittest import mock

from headlight.runtime.providers.cuda_session import CudaSession
from headlight.runtime.providers.onnx_session import OnnxSession
from headlight.runtime.providers.openvino_session import OpenVinoSession
from headlight_service.core import slices
from headlight_service.core.handle import Handle
from headlight_service.core.scheduler import scheduler
from headlight_service.frontends.contract.answer_forms import UnaryForm
from headlight_service.frontends.grpc import servicer
from headlight_service.frontends.grpc.transport.grpc_call import Call

SESSIONS = (OnnxSession, OpenVinoSession, CudaSession)
SESSION = "the session"
GRPC = "gRPC"


class Wrapped(NamedTuple):
    """A function, and the steps that end where it begins and where it returns; "": none does."""

    owner: Any  # a class, or the module that calls the function
    function: str
    before: str = ""
    after: str = ""


# In the order of a call.
WRAPPED = (
    Wrapped(Call, "__init__", f"{GRPC}: from the client to the call's thread"),
    Wrapped(Call, "receive", "count, limits, callbacks", f"{GRPC}: the message"),
    Wrapped(servicer, "decode_encode", "parse the message", "decode the request"),
    Wrapped(slices, "tokenized", "admission"),
    Wrapped(slices, "items_of", "tokenise"),
    Wrapped(scheduler.Scheduler, "submit", "items, header of the answer, queue tokens"),
    Wrapped(scheduler, "compute", "queue, form the batch", "cut the results out"),
    Wrapped(Handle, "_end", "", "deliver the results, metrics"),
    Wrapped(UnaryForm, "encode", "", "take and encode the answer"),
    Wrapped(Call, "give", "", "reply timeout, metrics"),
)
INSIDE = ("pad the inputs", SESSION)  # within `scheduler.compute`
LAST = f"{GRPC}: from the call's thread to the client"


def names() -> list[str]:
    """Return the steps in the order of a call."""
    steps = []
    for wrapped in WRAPPED:
        steps += [wrapped.before, *(INSIDE if wrapped.function == "compute" else ()), wrapped.after]
    return [*filter(None, steps), LAST]


def record() -> list[list[int]]:
    """Stamp the steps of each call from now on; return the stamps, one list for each call."""
    calls: list[list[int]] = []
    for wrapped in WRAPPED:
        _wrap(wrapped.owner, wrapped.function, calls, wrapped.before, wrapped.after)
    for session in SESSIONS:
        _wrap(session, "run", calls, *INSIDE)
    return calls


def _wrap(owner: Any, name: str, calls: list[list[int]], before: str, after: str) -> None:
    inner, first = getattr(owner, name), name == "__init__"

    @functools.wraps(inner)
    def stamped(*arguments: Any, **named: Any) -> Any:
        if first:
            calls.append([])
        if before and calls:  # batches of the start belong to no call
            calls[-1].append(time.monotonic_ns())
        result = inner(*arguments, **named)
        if after and calls:
            calls[-1].append(time.monotonic_ns())
        return result

    mock.patch.object(owner, name, stamped).start()
