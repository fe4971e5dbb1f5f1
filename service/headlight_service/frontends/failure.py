"""Failures of requests as all protocols report them: kind, message, retry delay, field at fault.

The only place that limits the text a client receives: messages of intended errors, and for all
others an id under which the log has the details.
"""

from __future__ import annotations

import logging
import math
import uuid
from collections.abc import Callable, Mapping
from typing import NamedTuple

from headlight.errors import Code, HeadlightError, HostFull, NotFinite, Overloaded, Reason
from headlight.refusals import Refusal, text_of, to_metadata
from headlight_service.core.admission.shed_error import label_of
from headlight_service.telemetry.json_logs import describe

log = logging.getLogger("headlight_service.frontends.failure")
LONGEST_METADATA = 1000  # bytes: trailers may have 8 KiB in all
NO_THREAD = "can't start new thread"  # Python's message, if the limit of pids is reached


class Failure(NamedTuple):
    """A failed request.

    Attributes:
        refusal: what is wrong. A protocol maps its code to a status, and words it.
        retry_after_ms: delay before a retry; None: a retry cannot help, or may be made at once.
        label: one of a closed set of names; that of the metrics.
        request_id: its id in the log; empty: it is not logged.
        repeats: whether the same request fails again on every replica.
    """

    refusal: Refusal
    retry_after_ms: int | None
    label: str
    request_id: str = ""
    repeats: bool = False

    @property
    def metadata(self) -> dict[str, str]:
        """The reason in detail and its numbers, for machines; empty: none, or too long."""
        code, path, reason, _ = self.refusal
        if reason in (Reason.AS_IS, Reason.INTERNAL):
            return {}
        metadata = to_metadata(self.refusal)
        if path and code is not Code.INVALID_INPUT:
            metadata["field"] = text_of(path)
        size = sum(len(each.encode()) for each in metadata.values())
        return metadata if size <= LONGEST_METADATA else {}


def failure_of(
    error: Exception,
    known: Callable[[], Mapping[str, str]],
    status_of: Callable[[Code], object] = str,
) -> Failure:
    """Return the failure of a request. An unexpected error is logged; the client gets only its id.

    Args:
        error: the failure.
        known: returns the log's fields of the request: `request_id`, and `trace_id` if traced.
        status_of: returns the protocol's status of a kind of failure, for the log.
    """
    if isinstance(error, MemoryError):  # outside of the engine, such as while encoding an answer
        log.warning(
            "memory is short for an answer", extra={"event": "batch_memory_short", **known()}
        )
        error = HostFull()
    if isinstance(error, RuntimeError) and str(error).startswith(NO_THREAD):
        log.warning(
            "no thread can be started; allow the container more pids",
            extra={"event": "threads_exhausted", **known()},
        )
        error = HostFull()
    if not isinstance(error, HeadlightError):
        error_id, fields = uuid.uuid4().hex[:12], known()
        extra = {"event": "unexpected_failure", "error_id": error_id, **fields, **describe(error)}
        log.error("unexpected failure", extra=extra)
        refusal = Refusal(Code.INTERNAL, (), Reason.INTERNAL, {"id": error_id})
        return Failure(refusal, None, label_of(error), fields["request_id"])
    code, reason, request_id = error.code, label_of(error), ""
    serious = code in (Code.INTERNAL, Code.BUNDLE)
    if serious or log.isEnabledFor(logging.DEBUG):
        fields = known()
        extra = {
            "event": "request_failed",
            "status": status_of(code),
            "reason": reason,
            "problem": error.message,
            **fields,
        }
        log.log(logging.ERROR if serious else logging.DEBUG, "a request failed", extra=extra)
        request_id = fields["request_id"]
    seconds = error.retry_after_seconds if isinstance(error, Overloaded) else None
    return Failure(
        error.refusal,
        None if seconds is None else math.ceil(1000 * seconds),
        reason,
        request_id,
        isinstance(error, NotFinite),
    )
