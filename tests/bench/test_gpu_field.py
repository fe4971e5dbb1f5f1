"""The set of contestants of `python -m bench.gpu`.

Shared selections, order of compilation, and memory.
"""

from __future__ import annotations

import functools
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from bench.engine import read
from bench.gpu import speed
from bench.gpu.bare import Bare, batch
from bench.gpu.budget import Allowance, Deadline
from bench.gpu.device import Device
from bench.gpu.field import BARE, ENGINE, Field
from bench.gpu.peers import COMPILED, FIXED, FUSED, PLAIN, UNMASKED, NotMeasured, peers, reference
from bench.gpu.speed import Case
from headlight.runtime import EncodeItem, ItemResult, Runtime
from headlight.runtime.engine.batches import pad
from headlight.runtime.values import Ids
from tests.factory import sharpened, small_config

CPU = Device("cpu")
ENCODER = sharpened(small_config(layers=1))


def texts(*lengths: int) -> list[Ids]:
    return [np.arange(3, 3 + length) for length in lengths]


@pytest.fixture
def field(runtime: Runtime) -> Field:
    """Return the field of a small encoder; the engine has another encoder, so other vectors."""
    bare = Bare(runtime.bundle.file("embed.onnx"), CPU)
    everyone = peers(ENCODER, CPU, "bf16", Allowance(600), "eager", 0)
    return Field("small", "bf16", runtime, bare, everyone, reference(ENCODER, CPU), CPU, chief=4)


def test_all_items_share_one_selection(field: Field, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shared selection makes the engine take the batch path of the service."""
    seen, run = set[int](), field.runtime.engine.run

    def watched(items: list[EncodeItem], **others: Any) -> list[ItemResult]:
        seen.update(id(item.selection) for item in items)
        return run(items, **others)

    monkeypatch.setattr(field.runtime.engine, "run", watched)
    field.torch = {UNMASKED: field.torch[UNMASKED]}
    field.cosines([texts(4, 3)])
    field.contestants([texts(4, 3), texts(5)])[ENGINE]()
    assert len(seen) == 1


def test_the_items_of_the_engine_bench_share_one_selection(runtime: Runtime) -> None:
    assert runtime.tokenizer is not None
    items = read(runtime.tokenizer, ["one text", "another text"])
    assert items[0].selection is items[1].selection


def test_batches_are_compiled_first_and_single_texts_last(
    field: Field,
) -> None:
    seen = list[tuple[str, tuple[int, ...]]]()
    for name in (COMPILED, FIXED):
        call = field.torch[name]
        monkey: Any = lambda ids, mask, name=name: seen.append((name, ids.shape))  # noqa: E731
        call._run = monkey  # type: ignore[union-attr]
    field.warm([[texts(6)], [texts(4, 4)], [texts(5, 3), texts(2, 2, 2)]])
    batches = [(COMPILED, (2, 4)), (COMPILED, (2, 5)), (COMPILED, (3, 2))]
    assert seen == [*batches, (FIXED, (2, 4)), (COMPILED, (1, 6))]


def test_a_contestant_refused_during_compilation_is_not_measured_when_timed(field: Field) -> None:
    field.torch = peers(ENCODER, CPU, "bf16", Allowance(1), "eager", expected=2)
    field.warm([[texts(4, 4)]])
    with pytest.raises(NotMeasured):
        field.contestants([texts(4, 4)])[COMPILED]()


def test_a_contestant_that_found_no_memory_beside_the_others_is_tried_alone(
    field: Field, monkeypatch: pytest.MonkeyPatch
) -> None:
    released, whole = list[bool](), field.torch[FUSED]

    def crowded(ids: Ids, mask: Ids) -> Any:
        if not released:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return whole(ids, mask)

    def never(ids: Ids, mask: Ids) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory")

    field.torch = {PLAIN: never, FUSED: crowded, UNMASKED: field.torch[UNMASKED]}
    monkeypatch.setattr(field, "release", lambda *, cycles: released.append(cycles))
    cosines = field.cosines([texts(4, 3)])
    assert isinstance(cosines[FUSED], float)
    assert "out of memory" in str(cosines[PLAIN])
    released.clear()
    found = speed._timed(field, Case("mix", 4, (tuple(texts(4, 3)),)), Deadline(60, rounds=2), 1)
    assert (found[FUSED].rounds, found[FUSED].error) == (2, "")
    assert "out of memory" in found[PLAIN].error
    assert released == [True, True]


def test_compilation_within_a_case_does_not_count_as_its_time(
    field: Field, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SimpleNamespace(now=0.0)
    allowance = Allowance(100, lambda: clock.now)

    def compiling(_: Any) -> dict[str, Any]:
        with allowance.timed([]):
            clock.now += 30
        return {}

    monkeypatch.setattr(field, "cosines", compiling)
    monkeypatch.setattr(
        field, "contestants", lambda _: {ENGINE: lambda: setattr(clock, "now", clock.now + 1)}
    )
    case = Case("mix", 4, (tuple(texts(4, 3)),))
    row = speed._measured(field, case, Deadline(10, lambda: clock.now, rounds=3), allowance, 0)
    assert row["times"][ENGINE]["rounds"] == 3


def test_a_contestant_that_was_not_compiled_is_not_tried_again(
    field: Field, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(field, "release", pytest.fail)
    field.torch = peers(ENCODER, CPU, "bf16", Allowance(1), "eager", expected=2)
    assert str(field.cosines([texts(4, 3)])[COMPILED]).startswith("NotMeasured")
    found = speed._timed(field, Case("mix", 4, (tuple(texts(4, 3)),)), Deadline(60, rounds=1), 1)
    assert found[COMPILED].error.startswith("NotMeasured")


def test_contestants_of_the_longest_case_run_one_by_one(
    field: Field, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three write a layer's maps, some of them at once.

    Here 3 x 6 x 4 bytes x heads x texts x tokens squared.
    """
    needed, seen = 3 * 6 * 4 * ENCODER.config.heads * 2 * 16, list[str]()
    everyone = {name: functools.partial(seen.append, name) for name in (ENGINE, BARE)}
    monkeypatch.setattr(field, "contestants", lambda _: everyone)
    monkeypatch.setattr(field, "release", lambda: seen.append(""))
    for memory, expected in ((needed, 0), (needed - 1, 2)):
        monkeypatch.setattr(Device, "memory", memory)
        speed._timed(field, Case("length", 4, (tuple(texts(4, 4)),)), Deadline(60, rounds=3), 1)
        assert seen.count("") == expected
    assert seen[-12:] == ["", *[ENGINE] * 5, "", *[BARE] * 5]


def test_a_session_with_a_shrunk_arena_returns_the_same_vectors(field: Field) -> None:
    bound = field.bare.bind(*batch(CPU, *pad(texts(4, 3)), ENCODER.config.pooled_dim))
    field.bare.run(bound)
    expected = bound.pooled().copy()
    field.release()
    field.bare.run(bound)
    np.testing.assert_array_equal(bound.pooled(), expected)


class Slow:
    """Bare session whose every run takes a fixed time by its own clock."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.now, self.launched = seconds, 0.0, 0

    def launch(self, _: Any) -> None:
        self.now, self.launched = self.now + self.seconds, self.launched + 1


@pytest.mark.parametrize(
    ("seconds", "left", "launched", "told"),
    [(0.01, 60, 20, 10.0), (0.01, 0, 3, 10.0), (0.1, 60, 2, None)],
)
def test_launch_overhead_is_measured_only_while_time_is_left(
    seconds: float, left: float, launched: int, told: float | None
) -> None:
    slow: Any = Slow(seconds)
    everyone: Any = SimpleNamespace(bare=slow, bound=lambda _: [None], device=CPU)
    found = speed.launch_ms(everyone, pad(texts(4)), Deadline(left, lambda: slow.now))
    assert slow.launched == launched
    assert found == (None if told is None else pytest.approx(told))
