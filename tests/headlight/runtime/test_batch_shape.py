from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from headlight.runtime import Runtime, batch_shape
from headlight.runtime.batch_shape import USUAL, BatchShape, choices, fastest, kept
from headlight.runtime.encode_items import EncodeItem

SHAPES = choices(None, None, 1)


class Processor:
    """Processor that takes time for each padded token and for each new shape; a clock.

    It keeps what it compiled for the last 32 shapes.
    """

    def __init__(self, token: float, shape: float) -> None:
        self.now = 0.0
        self._token, self._shape = token, shape
        self.shapes: list[tuple[int, int]] = []

    def clock(self) -> float:
        return self.now

    def run(self, items: Sequence[EncodeItem]) -> None:
        size = len(items), max(len(item.ids) for item in items)
        self.now += self._token * size[0] * size[1]
        self.now += self._shape * (size not in self.shapes[-32:])
        self.shapes.append(size)


def test_rounding_pays_where_compiling_takes_long_beside_computing() -> None:
    compiling, computing = Processor(2e-6, 5e-3), Processor(1e-4, 1e-4)
    assert fastest(compiling.run, SHAPES, 256, 1, compiling.clock).multiple == 16
    assert fastest(computing.run, SHAPES, 256, 1, computing.clock) == USUAL


def test_a_model_too_slow_to_measure_has_the_usual_shape() -> None:
    slow = Processor(1e-3, 5.0)
    assert fastest(slow.run, SHAPES, 256, 1, slow.clock) == USUAL
    assert slow.now < batch_shape.WARM_UP + batch_shape.SECONDS + 2 * 5.6, "two batches beyond"


def test_no_batch_is_longer_than_the_model_takes() -> None:
    processor = Processor(2e-6, 5e-3)
    fastest(processor.run, SHAPES, 20, 1, processor.clock)
    assert max(length for _, length in processor.shapes) == 20


@pytest.mark.parametrize(
    ("tokens", "multiple", "least", "expected"),
    [
        (None, None, 1, [(512, 1), (512, 16), (1024, 16)]),
        (None, None, 16, [(512, 16), (1024, 16)]),
        (None, 8, 1, [(512, 8), (1024, 8)]),
        (256, None, 1, [(256, 1), (256, 16)]),
        (256, 24, 16, [(256, 48)]),
    ],
)
def test_an_option_of_the_operator_wins(
    tokens: int | None, multiple: int | None, least: int, expected: list[tuple[int, int]]
) -> None:
    assert choices(tokens, multiple, least) == expected


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HEADLIGHT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_shape_is_measured_once_for_the_same_facts(
    cache: Path, caplog: pytest.LogCaptureFixture
) -> None:
    measured: list[BatchShape] = []

    def find() -> BatchShape:
        measured.append(BatchShape(1024, 16))
        return measured[-1]

    with caplog.at_level(logging.INFO, logger="headlight.engine"):
        assert [kept({"model": 1}, SHAPES, find) for _ in range(3)] == [(1024, 16)] * 3
        kept({"model": 2}, SHAPES, find)
    assert len(measured) == 2
    lines = [record.getMessage() for record in caplog.records]
    assert lines[1] == "batches of 1024 tokens, lengths rounded up to 16, as measured"
    for content in (
        *("", "{", '{"tokens": 0, "multiple": 1}', '{"tokens": 512, "multiple": 7}'),
        *('{"tokens": "x"}', '{"tokens": Infinity, "multiple": 1}', "[" * 1000, "[]" * 10_000),
    ):
        for file in cache.rglob("*.json"):
            file.write_text(content)
        assert kept({"model": 1}, SHAPES, find) == (1024, 16), "a damaged file is as none"


def test_a_cache_that_cannot_be_written_costs_only_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADLIGHT_CACHE", "/proc/none")
    assert kept({"model": 1}, SHAPES, lambda: USUAL) == USUAL


def test_openvino_has_the_shape_that_was_found(
    bundle_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_shape, "WARM_UP", 0)
    monkeypatch.setattr(batch_shape, "SECONDS", 0)
    first = Runtime(bundle_path, provider="openvino", streams=2)
    [file] = cache.rglob("*.json")
    assert json.loads(file.read_text()) == {"tokens": 512, "multiple": 1}, "no time to measure"
    file.write_text('{"tokens": 1024, "multiple": 16}')
    other = Runtime(bundle_path, provider="openvino", streams=2)
    assert (other.engine.batch_tokens, other.engine.rounding.multiple) == (1024, 16)
    chosen = Runtime(bundle_path, provider="openvino", streams=2, batch_tokens=64, round_lengths=8)
    assert (chosen.engine.batch_tokens, chosen.engine.rounding.multiple) == (64, 8)
    texts = ["join two paths", "a", "read lines of a file and close it"] * 40
    for runtime in (other, chosen):
        np.testing.assert_allclose(runtime.encode(texts), first.encode(texts), atol=1e-6)


def test_the_cpu_provider_is_not_measured(bundle_path: Path, cache: Path) -> None:
    runtime = Runtime(bundle_path, provider="cpu")
    assert (runtime.engine.batch_tokens, runtime.engine.rounding.multiple) == (512, 1)
    assert not cache.exists()
