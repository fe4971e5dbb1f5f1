"""Requests of text-embeddings-inference as requests of the core."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from headlight_service.core.models import ServedModel
from headlight_service.frontends.tei.tei_requests import pooled_output, truncation_of


def model(truncation: str) -> ServedModel:
    return cast(ServedModel, SimpleNamespace(truncation=truncation))


@pytest.mark.parametrize(
    ("truncate", "direction", "service", "expected"),
    [
        (None, None, "refuse", None),
        (None, None, "cut_start", None),
        (None, "left", "refuse", None),
        (None, "left", "cut_end", "cut_start"),
        (False, "left", "cut_end", "refuse"),
        (True, None, "refuse", "cut_end"),
        (True, "right", "cut_start", "cut_end"),
        (True, "left", "refuse", "cut_start"),
    ],
)
def test_truncation(truncate: Any, direction: Any, service: str, expected: Any) -> None:
    assert truncation_of(truncate, direction, model(service)) == expected


def test_equal_outputs_are_one_object() -> None:
    assert pooled_output(normalize=True, dimensions=8) is pooled_output(
        normalize=True, dimensions=8
    )
