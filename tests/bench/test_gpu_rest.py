"""Other sections of `python -m bench.gpu`: ceilings, and starting the service."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from bench.gpu import device as devices
from bench.gpu import served
from bench.gpu.budget import Deadline
from bench.gpu.device import Device
from bench.serving.served import Headlight
from tests.factory import small_config

CPU, CONFIG = Device("cpu"), small_config(layers=1)


def test_a_smaller_copy_is_tried_if_memory_is_short_and_peaks_are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes, make = list[int](), torch.randint

    def full(low: int, high: int, size: tuple[int, ...], **others: Any) -> torch.Tensor:
        sizes.extend(size)
        if len(sizes) == 1:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return make(low, high, size, **others)

    monkeypatch.setattr(devices, "SMALL_COPIES", (1 << 12, 1 << 10))
    monkeypatch.setattr(torch, "randint", full)
    assert set(CPU.ceilings(0.001, small=True)) == {"fp32", "fp16", "bf16", "copy"}
    assert sizes == [1 << 12, 1 << 10]


def test_the_service_is_started_once_within_the_remaining_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    given, clock = list[float](), 0.0
    monkeypatch.setattr(Headlight, "serve", lambda _, seconds: given.append(seconds))
    plan = served.Plan(tmp_path, "fp16", CPU, 8, (8,), 1, 1, 1, tmp_path)
    setting: Any = SimpleNamespace(python="python", bundle=tmp_path, work=tmp_path)
    served.Unchecked(plan, setting, Deadline(40, lambda: clock)).start()
    assert given == [40]
    assert plan.workloads[0].name == served.BATCHES  # which a criterion is about
