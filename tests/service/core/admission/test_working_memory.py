"""Estimate of working memory for the longest texts.

A warning if a container has too little.
"""

from __future__ import annotations

import dataclasses
import logging
from pathlib import Path

import pytest

from headlight.runtime import Runtime
from headlight_service.app import model_versions
from headlight_service.app.lifecycle import Server
from headlight_service.config.options import Config
from headlight_service.core.admission.working_memory import (
    LIMITS,
    batches_at_once,
    memory_limit,
    text_bytes,
    warn_if_short,
)
from tests.service.fakes import ARCHITECTURE
from tests.service.logged import logged

MIB = 1 << 20
# In MiB, for one text of 2,048 tokens and 6 heads: the growth of a process beyond twice its
# answer, as in docs/performance.md.
MEASURED = [
    ("cpu", "rope", 3, False, 313),
    ("cpu", "rope", 3, True, 537),
    ("cpu", "rope", 12, True, 1410),
    ("cpu", "alibi", 3, False, 409),
    ("cpu", "alibi", 3, True, 658),
    ("cpu", "learned+relative", 3, False, 418),
    ("openvino", "rope", 3, False, 87),
    ("openvino", "rope", 3, True, 1394),
    ("openvino", "rope", 12, True, 4795),
    ("cpu", "disentangled", 3, False, 866),
    ("openvino", "alibi", 3, False, 203),
    ("openvino", "alibi", 3, True, 1469),
    ("openvino", "disentangled", 3, False, 778),
    ("openvino", "learned+relative", 3, False, 204),
]


@pytest.mark.parametrize(("provider", "positions", "layers", "attend", "grown"), MEASURED)
def test_the_estimate_is_at_least_the_measurement_and_not_a_multiple(
    provider: str, positions: str, layers: int, attend: bool, grown: int
) -> None:
    architecture = dataclasses.replace(ARCHITECTURE, positions=positions, layers=layers, heads=6)
    assert (
        grown * MIB <= text_bytes(architecture, 2048, provider, attend=attend) < 1.5 * grown * MIB
    )


@pytest.mark.parametrize(("positions", "grown"), [("learned", 112), ("rope", 98)])
def test_fused_attention_grows_with_the_length_alone(positions: str, grown: int) -> None:
    architecture = dataclasses.replace(ARCHITECTURE, positions=positions, heads=16, dim=1024)

    def estimate(length: int, *, attend: bool) -> int:
        return text_bytes(architecture, length, "cpu", attend=attend, fused=True)

    assert grown * MIB <= estimate(2048, attend=False) < 1.5 * grown * MIB
    assert estimate(8192, attend=False) == 4 * estimate(2048, attend=False)
    assert estimate(2048, attend=True) == text_bytes(architecture, 2048, "cpu", attend=True)


def test_concurrent_batches_include_bulk_except_with_openvino() -> None:
    assert [batches_at_once(4, provider) for provider in ("cpu", "openvino")] == [8, 4]


@pytest.mark.parametrize(("text", "limit"), [("1048576\n", MIB), ("max\n", None)])
def test_the_container_memory_limit_is_read(text: str, limit: int | None, tmp_path: Path) -> None:
    second, first = tmp_path / "memory.limit_in_bytes", tmp_path / "memory.max"
    first.write_text(text, encoding="ascii")
    assert memory_limit((first, second)) == limit
    first.unlink()
    assert memory_limit((first, second)) is None
    second.write_text("4096\n", encoding="ascii")
    assert memory_limit((first, second)) == 4096
    assert [path.name for path in LIMITS] == ["memory.max", "memory.limit_in_bytes"]


def test_too_little_memory_is_warned_of_once_with_remedies(
    bundle_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    runtime = Runtime(bundle_path, streams=1, threads=2)
    manifest = runtime.bundle.manifest
    text = text_bytes(manifest.architecture, manifest.max_length, "cpu", attend=True)
    warn_if_short(runtime, None)
    warn_if_short(runtime, 1 << 50)
    assert logged(caplog) == []
    warn_if_short(runtime, 2 * text)  # the resident memory no longer fits
    [record] = logged(caplog)
    told = vars(record)
    assert (record.levelno, told["event"]) == (logging.WARNING, "memory_short")
    assert (told["tokens"], told["text_bytes"], told["batches"]) == (manifest.max_length, text, 2)
    assert (told["estimate_bytes"], told["limit_bytes"]) == (2 * text, 2 * text)
    assert told["resident_bytes"] > 0
    message = record.getMessage()
    assert f"a text of {manifest.max_length} tokens" in message
    for remedy in ("raise the limit", "--max-length", "--attention off"):
        assert remedy in message
    assert "--streams" not in message, "there is but one"


def test_fewer_slots_are_suggested_if_there_are_several(
    bundle_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    warn_if_short(Runtime(bundle_path, provider="cpu", threads=1, streams=3, attend=False), 1)
    [record] = logged(caplog)
    assert vars(record)["batches"] == 6
    assert "HEADLIGHT_STREAMS" in record.getMessage()
    assert "--attention" not in record.getMessage()


async def test_the_memory_limit_is_checked_after_warm_up(
    bundle_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    limits = iter([None, MIB])  # before and after the model is loaded
    monkeypatch.setattr(model_versions, "memory_limit", lambda: next(limits))
    assert await Server(Config(bundle=bundle_path, provider="cpu"))._load() is not None
    assert [
        vars(record)["event"] for record in logged(caplog) if record.levelno == logging.WARNING
    ] == ["memory_short"]
