"""What a service allows unless it is told."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from service.config import Config
from service.loading import limits
from tests.service.fakes import ARCHITECTURE, manifest

MIB = 1 << 20


@pytest.mark.parametrize(
    ("layers", "heads", "length", "least", "most"),
    [
        (6, 12, 256, 64 * MIB, 64 * MIB),
        (8, 6, 2048, 768 * MIB, 800 * MIB),  # all of a longest text
        (24, 16, 8192, 1024 * MIB, 1024 * MIB),  # which would be 96 GiB
        (28, 16, 32768, 1024 * MIB, 1024 * MIB),
    ],
)
def test_an_answer_is_no_larger_than_a_process_can_hold(
    layers: int, heads: int, length: int, least: int, most: int
) -> None:
    architecture = dataclasses.replace(ARCHITECTURE, layers=layers, heads=heads)
    described = manifest(architecture=architecture, max_length=length)
    config = Config(bundle=Path("b"))
    assert least <= limits(config, described).max_stream_output_bytes <= most
    told = dataclasses.replace(config, max_stream_output_bytes=5 << 30)
    assert limits(told, described).max_stream_output_bytes == 5 << 30
