from __future__ import annotations

import logging
import typing

import grpc
import pytest
from google.rpc.status_pb2 import Status

# Brings every module of the service: its errors belong to the tree too.
import headlight_service.app.lifecycle  # noqa: F401
from headlight.errors import Code, HeadlightError, InvalidInput, Overloaded
from headlight_service.core.admission.shed_error import Shed, Shortage, label_of
from headlight_service.core.scheduler.engine_health import EngineLost
from headlight_service.frontends.grpc.calls.request_stream import ReaderStalled
from headlight_service.frontends.grpc.grpc_status import (
    DETAILS,
    PUSHBACK,
    STATUS_BY_CODE,
    ErrorStatus,
    error_status,
)
from tests.service.calls import unpacked
from tests.service.logged import logged


def tree(root: type[HeadlightError]) -> list[type[HeadlightError]]:
    """Return a class and all its subclasses except those of other tests."""
    ours = [child for child in root.__subclasses__() if not child.__module__.startswith("tests.")]
    return [root, *(kind for child in ours for kind in tree(child))]


def make(kind: type[HeadlightError]) -> HeadlightError:
    if kind is InvalidInput:
        return InvalidInput("field", "problem")
    if kind is Shed:
        return Shed("problem", Shortage.QUEUE_TOKENS)
    return ReaderStalled(7) if kind is ReaderStalled else kind("problem")


def parts_of(refused: ErrorStatus) -> dict[str, typing.Any]:
    """Return the unpacked details, by their type's name."""
    metadata = dict(refused.trailing_metadata)
    status = Status.FromString(typing.cast(bytes, metadata[DETAILS]))
    assert (status.code, status.message) == (refused.number, refused.message)
    return unpacked(status)


def test_the_table_has_every_code() -> None:
    assert set(STATUS_BY_CODE) == set(Code)
    assert {kind.code for kind in tree(HeadlightError)} == set(Code)
    assert {Shed, ReaderStalled, EngineLost} <= set(tree(HeadlightError)), (
        "the walk has been where it matters"
    )


@pytest.mark.parametrize("kind", tree(HeadlightError))
def test_every_error_has_a_status_a_reason_and_keeps_its_message(
    kind: type[HeadlightError],
) -> None:
    error = make(kind)
    refused = error_status(error)
    assert refused.status is STATUS_BY_CODE[kind.code]
    assert refused.message == error.message
    assert refused.status not in (grpc.StatusCode.UNKNOWN, grpc.StatusCode.OK)
    assert refused.number == refused.status.value[0]
    info = parts_of(refused)["ErrorInfo"]
    assert (info.domain, info.reason) == ("headlight", label_of(error).upper())
    assert PUSHBACK not in dict(refused.trailing_metadata)


@pytest.mark.parametrize("shortage", Shortage)
def test_the_reason_of_a_shed_request_is_the_short_resource(shortage: Shortage) -> None:
    assert error_status(Shed("problem", shortage)).reason == shortage.value


def test_a_retry_delay_becomes_pushback_and_retry_info() -> None:
    refused = error_status(Shed("full", Shortage.QUEUE_TOKENS, 1.2501))
    assert dict(refused.trailing_metadata)[PUSHBACK] == "1251"
    assert parts_of(refused)["RetryInfo"].retry_delay.ToMilliseconds() == 1251
    assert "RetryInfo" not in parts_of(error_status(Overloaded("too large")))


def test_a_bad_request_names_its_field_in_the_details() -> None:
    [violation] = parts_of(error_status(InvalidInput("inputs[3].text", "is empty")))[
        "BadRequest"
    ].field_violations
    assert (violation.field, violation.description) == ("inputs[3].text", "is empty")
    assert "BadRequest" not in parts_of(error_status(InvalidInput("", "cannot be decoded")))


def test_a_long_message_is_truncated_to_fit_the_trailers() -> None:
    refused = error_status(InvalidInput("inputs[0]", "x" * 5000))
    assert sum(len(value) for _, value in refused.trailing_metadata) < 4096


def test_unexpected_errors_leak_nothing(caplog: pytest.LogCaptureFixture) -> None:
    try:
        raise ValueError("the caller's secret text in /etc/passwd")
    except ValueError as error:
        with caplog.at_level(logging.ERROR):
            refused = error_status(error)
    assert refused.status is grpc.StatusCode.INTERNAL
    assert "secret" not in refused.message
    assert b"secret" not in refused.details.SerializeToString()
    [record] = logged(caplog)
    assert vars(record)["error_id"] in refused.message
    assert vars(record)["kind"] == "builtins.ValueError"
    assert "test_grpc_status.py" in vars(record)["stack"][-1]
    assert "secret" not in str(vars(record))
