from __future__ import annotations

import logging

import grpc
import pytest

from headlight import errors
from headlight.errors import Code, HeadlightError, InvalidInput, Overloaded
from service.batcher import EngineLost
from service.status import PUSHBACK, STATUS_BY_CODE, refusal

KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, HeadlightError)]


def test_the_table_has_every_code() -> None:
    assert set(STATUS_BY_CODE) == set(Code)


def make(kind: type[HeadlightError]) -> HeadlightError:
    return InvalidInput("field", "problem") if kind is InvalidInput else kind("problem")


@pytest.mark.parametrize("kind", [*KINDS, EngineLost])
def test_every_error_has_a_status_and_keeps_its_message(kind: type[HeadlightError]) -> None:
    refused = refusal(make(kind))
    assert refused.status is STATUS_BY_CODE[kind.code]
    assert "problem" in refused.message
    assert refused.status not in (grpc.StatusCode.UNKNOWN, grpc.StatusCode.OK)
    assert refused.number == refused.status.value[0]
    assert refused.trailing_metadata == ()


def test_a_retry_delay_becomes_pushback() -> None:
    assert refusal(Overloaded("full", 0.2501)).trailing_metadata == ((PUSHBACK, "251"),)
    assert refusal(Overloaded("too large")).trailing_metadata == ()


def test_unexpected_errors_leak_nothing(caplog: pytest.LogCaptureFixture) -> None:
    try:
        raise ValueError("the caller's secret text in /etc/passwd")
    except ValueError as error:
        with caplog.at_level(logging.ERROR):
            refused = refusal(error)
    assert refused.status is grpc.StatusCode.INTERNAL
    assert "secret" not in refused.message
    [record] = caplog.records
    assert vars(record)["error_id"] in refused.message
    assert vars(record)["kind"] == "builtins.ValueError"
    assert "test_status.py" in vars(record)["stack"][-1]
    assert "secret" not in str(vars(record))
