"""The plan of `python -m bench.gpu`, with a simulated clock that models a GPU.

Every criterion must be measured.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from bench.frame.machine import flops
from bench.gpu import __main__ as program
from bench.gpu import parity, served, served_answers, speed
from bench.gpu.budget import Allowance
from bench.gpu.criteria import throughput
from bench.gpu.device import DTYPES, Device
from bench.gpu.field import BARE, ENGINE, Field
from bench.gpu.peers import COMPILED, FIXED, FUSED, PLAIN, UNMASKED, Compiled
from bench.gpu.sizes import BASE, CHECKPOINTS, MINILM, REAL_SIZES, SIZES, TRAINED

MOST_SECONDS = 480.0
PEAK = 800.0  # TFLOP/s, of fp16
OPENING = 0.5  # seconds a layer, for all contestants
# Of the peak.
REACHED = {
    ENGINE: 0.35,
    BARE: 0.4,
    PLAIN: 0.15,
    FUSED: 0.3,
    UNMASKED: 0.4,
    COMPILED: 0.4,
    FIXED: 0.5,
}
SLOWER = {"fp16": 1.0, "bf16": 1.0, "fp32": 15.0}
HANDED_OVER = 0.002


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class FakeGpu:
    """Simulated GPU with one encoder in one precision.

    Batches of all contestants take the modelled time and return the same vectors.
    """

    def __init__(self, clock: Clock, name: str, precision: str, compiling: float) -> None:
        self.clock, self.config, self.slower, self.compiling = (
            clock,
            SIZES[name],
            SLOWER[precision],
            compiling,
        )
        self.manifest: Any = SimpleNamespace(architecture=self.config)

    def batch(self, name: str, texts: int, length: int) -> torch.Tensor:
        [operations] = flops(self.manifest, [length])
        self.clock.now += (
            HANDED_OVER + self.slower * texts * operations / REACHED[name] / PEAK / 1e12
        )
        return torch.ones(texts, 8)

    def peer(self, name: str) -> Callable[..., Any]:
        return lambda ids, mask: self.batch(name, *ids.shape).numpy()

    def compile(self, _: Any, *, dynamic: bool, backend: str) -> Callable[..., Any]:
        """Compile as PyTorch does: for any batch of more than one text, or for each shape."""
        name, compiled = COMPILED if dynamic else FIXED, set[Any]()

        def run(ids: torch.Tensor, _mask: torch.Tensor, **_others: Any) -> Any:
            kind = len(ids) == 1 if dynamic else ids.shape
            if kind not in compiled:
                self.clock.now += self.compiling * self.config.layers
                compiled.add(kind)
            return SimpleNamespace(pooled=self.batch(name, *ids.shape))

        return run


class FakeBare:
    def __init__(self, gpu: FakeGpu) -> None:
        self.gpu = gpu

    def bind(self, inputs: Any, _outputs: Any) -> Any:
        return SimpleNamespace(
            shape=inputs["ids"].shape, pooled=lambda: np.ones((len(inputs["ids"]), 8))
        )

    def run(self, bound: Any) -> None:
        self.gpu.batch(BARE, *bound.shape)

    def run_all(self, batches: Any) -> None:
        for bound in batches:
            self.run(bound)

    shrink = launch = run


class FakeEngine:
    def __init__(self, gpu: FakeGpu) -> None:
        self.gpu = gpu

    def run(self, items: Any, *, wide: bool = False) -> list[Any]:
        rows = self.gpu.batch(ENGINE, len(items), max(len(item.ids) for item in items))
        return [SimpleNamespace(pooled=row) for row in rows.numpy()]

    def shrink(self) -> None:
        self.gpu.clock.now += HANDED_OVER


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def simulated(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, clock: Clock
) -> Callable[[float], dict[str, Any]]:
    """Run with the given compile seconds per layer;
    every other section except speed uses all its time.
    """
    given: dict[str, float] = {}

    def took(name: str, mine: Any, result: Any) -> Any:
        given[name] = mine.remaining
        clock.now += mine.remaining
        return result

    short = {"encoder": MINILM, "precisions": {}}
    monkeypatch.setattr(Device, "ceilings", lambda *_: dict.fromkeys(DTYPES, PEAK))
    monkeypatch.setattr(parity, "parity", lambda *given_: took("parity", given_[-1], {}))
    monkeypatch.setattr(
        served_answers, "short_text", lambda *given_: took("short", given_[-1], short)
    )
    monkeypatch.setattr(
        served_answers,
        "attention_cost",
        lambda deadline, **_: took("attention", deadline, []),
    )
    monkeypatch.setattr(served, "served", lambda *given_: took(served.SECTION, given_[-1], {}))

    def run(compiling: float) -> dict[str, Any]:
        def opened(
            bundle: Path,
            precision: str,
            device: Device,
            allowance: Allowance,
            backend: str,
            chief: int,
        ) -> Field:
            gpu = FakeGpu(clock, bundle.name, precision, compiling)
            clock.now += OPENING * gpu.config.layers
            monkeypatch.setattr(torch, "compile", gpu.compile)
            everyone: dict[str, Any] = {name: gpu.peer(name) for name in (PLAIN, FUSED, UNMASKED)}
            if precision != "fp32":
                expected = 3.0 * gpu.config.layers
                everyone[COMPILED] = Compiled(None, device, allowance, backend, expected)  # type: ignore[arg-type]
                everyone[FIXED] = Compiled(None, device, allowance, backend, expected, free=False)  # type: ignore[arg-type]
            tokenizer = CHECKPOINTS / TRAINED[0] / "tokenizer.json"
            bundle_ = SimpleNamespace(manifest=gpu.manifest, file=lambda _: tokenizer)
            runtime: Any = SimpleNamespace(engine=FakeEngine(gpu), bundle=bundle_)
            exact: Any = lambda ids, mask: SimpleNamespace(pooled=torch.ones(len(ids), 8))  # noqa: E731
            exact.config = gpu.config
            bare: Any = FakeBare(gpu)
            return Field(bundle.name, precision, runtime, bare, everyone, exact, device, chief)

        monkeypatch.setattr(speed, "opened", opened)
        options = program.parse(["--budget-seconds", "430", "--out", str(tmp_path)])
        options.provider = "cpu"
        run_ = program.Run(options, clock)
        run_.all()
        return run_.numbers | {"given": given}

    return run


def chief_rows(found: dict[str, Any]) -> list[dict[str, Any]]:
    pair = [row for row in found["speed"] if (row["size"], row["precision"]) == (BASE, "fp16")]
    return [
        row
        for row in pair
        if row.get("kind") == speed.DOCSTRINGS
        or (row.get("kind"), row.get("length")) == ("length", 512)
    ]


def test_every_criterion_is_measured_within_eight_minutes(
    simulated: Callable[[float], dict[str, Any]], clock: Clock
) -> None:
    found = simulated(2.5)  # a layer: half a minute for each of three kinds of batch of BERT-base
    assert found["failed"] == {}
    assert [one.what for one in throughput(found) if one.value is None] == []
    for row in chief_rows(found):
        assert {
            name: one["rounds"] >= speed.FEWEST_ROUNDS for name, one in row["times"].items()
        } == dict.fromkeys(row["times"], True)
    assert not [what for what in found["cut"][speed.SECTION] if what.startswith(f"{BASE} in fp16")]
    measured = {
        (row["size"], row["precision"])
        for row in found["speed"]
        if row.get("times", {}).get(ENGINE, {}).get("ms")
    }
    assert measured >= {(size, "fp16") for size in REAL_SIZES}
    # Three criteria before one.
    assert list(found).index(speed.SECTION) < list(found).index(served.SECTION)
    assert found["given"][served.SECTION] > 50
    assert clock.now < MOST_SECONDS


def test_engine_and_eager_pytorch_are_measured_however_slow_compilation_is(
    simulated: Callable[[float], dict[str, Any]], clock: Clock
) -> None:
    rows = chief_rows(simulated(12.0))  # more than all of the allowance, at once
    assert len(rows) == 3
    for row in rows:
        for name in (ENGINE, BARE, PLAIN, FUSED):
            assert row["times"][name]["rounds"] >= speed.FEWEST_ROUNDS
    assert clock.now < MOST_SECONDS
