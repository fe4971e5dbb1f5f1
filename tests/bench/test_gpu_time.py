"""Time limits of `python -m bench.gpu`: shares of the budget, interleaving, and hanging runs."""

from __future__ import annotations

import functools
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch

from bench.frame.processes import ROOT
from bench.gpu.budget import Allowance, Budget, Deadline
from bench.gpu.device import Device
from bench.gpu.interleaved import Timing, interleave, one_by_one
from bench.gpu.peers import Compiled, NotMeasured
from headlight.runtime.engine.batches import pad
from tests.factory import sharpened, small_config


class Clock:
    """Clock that advances only when told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_unused_time_of_a_section_goes_to_later_sections() -> None:
    clock = Clock()
    budget = Budget(100, {"first": 1, "second": 1, "third": 2}, clock)
    with budget.section("first") as mine:
        assert mine.remaining == 25
        clock.now += 10
    with budget.section("second") as mine:
        assert mine.remaining == pytest.approx(30)  # a third of 90
        clock.now += 60
        assert mine.over
    with budget.section("third") as mine:
        assert mine.remaining == pytest.approx(30)
        assert mine.part(0.5).remaining == pytest.approx(15)


def test_failed_work_counts_against_the_allowance() -> None:
    clock = Clock()
    allowance, taken = Allowance(10, clock), list[float]()

    def fail() -> None:
        with allowance.timed(taken):
            clock.now += 4
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert (allowance.remaining, taken) == (6, [4])


def test_a_failing_contestant_drops_out_and_the_others_continue() -> None:
    runs = {"sound": 0, "broken": 0}

    def run(name: str) -> None:
        runs[name] += 1
        if name == "broken":
            raise ValueError("no\nkernel")

    found = interleave({name: lambda name=name: run(name) for name in runs}, Deadline(60, rounds=3))  # type: ignore[misc]
    assert found["broken"] == Timing(None, error="ValueError: no kernel")
    assert found["sound"].rounds == 3
    assert found["sound"].ms is not None
    assert runs == {"sound": 5, "broken": 1}


def test_without_time_one_round_runs_and_no_result_counts() -> None:
    runs: list[int] = []
    assert interleave({"one": lambda: runs.append(1)}, Deadline(0)) == {"one": Timing(None)}
    assert len(runs) == 1


def test_a_second_round_counts_after_half_the_time_has_passed() -> None:
    clock = Clock()

    def slow() -> None:
        clock.now += 6

    assert interleave({"one": slow}, Deadline(10, clock))["one"].rounds == 1


def test_compilation_does_not_start_without_an_allowance() -> None:
    encoder = sharpened(small_config(layers=1))
    refused = Compiled(encoder, Device("cpu"), Allowance(1), "eager", expected=2)
    ids, mask = pad([np.array([3, 4, 5])] * 2)
    with pytest.raises(NotMeasured, match="1 s are left to compile in; 2 are expected"):
        refused(ids, mask)
    assert refused.seconds == {}


def of_three_seconds(monkeypatch: pytest.MonkeyPatch) -> tuple[Compiled, Allowance]:
    """Return a contestant whose every call takes three seconds, with 8 s to compile in."""
    clock, encoder = Clock(), sharpened(small_config(layers=1))

    def run(*inputs: Any, **options: Any) -> Any:
        clock.now += 3
        return encoder(*inputs, **options)

    monkeypatch.setattr(torch, "compile", lambda *_, **__: run)
    allowance = Allowance(8, clock)
    return Compiled(encoder, Device("cpu"), allowance, "eager", expected=2), allowance


def test_the_first_run_of_each_shape_counts_as_compilation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compiled, allowance = of_three_seconds(monkeypatch)
    for length in (3, 3, 4):
        compiled(*pad([np.arange(3, 3 + length)] * 2))
    assert (compiled.seconds, allowance.remaining) == ({"batches": 6}, 2)
    with pytest.raises(NotMeasured):
        compiled(*pad([np.array([3, 4, 5])]))


def test_later_shapes_are_not_compiled_beyond_the_allowance(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compiled, allowance = of_three_seconds(monkeypatch)
    for length in (3, 4):
        compiled(*pad([np.arange(3, 3 + length)] * 2))
    with pytest.raises(NotMeasured, match="2 s are left to compile in; 3 are expected"):
        compiled(*pad([np.arange(3, 8)] * 2))
    compiled(*pad([np.arange(3, 6)] * 2))  # known
    assert allowance.remaining == 2


def test_failed_compilation_is_not_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()

    def run(*_: Any, **__: Any) -> Any:
        clock.now += 3
        raise RuntimeError("no\nbackend")

    monkeypatch.setattr(torch, "compile", lambda *_, **__: run)
    allowance = Allowance(100, clock)
    compiled = Compiled(
        sharpened(small_config(layers=1)), Device("cpu"), allowance, "eager", expected=2
    )
    with pytest.raises(RuntimeError, match="no\nbackend"):
        compiled(*pad([np.arange(3, 6)] * 2))
    with pytest.raises(NotMeasured, match="RuntimeError: no backend"):
        compiled(*pad([np.arange(3, 7)] * 2))
    assert allowance.used == 3


def test_compilation_is_limited_to_the_time_left_in_the_section() -> None:
    clock = Clock()
    section = Deadline(10, clock)
    allowance = Allowance(8, clock, section)
    assert allowance.remaining == 8
    clock.now += 7
    assert allowance.remaining == 3


def test_time_spent_elsewhere_extends_the_deadline() -> None:
    clock = Clock()
    deadline = Deadline(10, clock)
    clock.now += 12
    assert deadline.over
    deadline.extend(5)
    assert deadline.remaining == 3


def test_the_requested_rounds_count_even_after_time_is_up() -> None:
    clock = Clock()

    def slow() -> None:
        clock.now += 6

    assert interleave({"one": slow}, Deadline(0, clock), fewest=3)["one"] == Timing(
        6000, 6000, 6000, 3
    )
    assert interleave({"one": slow}, Deadline(0, clock, rounds=1), fewest=3)["one"].rounds == 1


def test_one_by_one_each_contestant_finishes_all_rounds_before_the_next() -> None:
    seen = list[str]()
    contestants: Any = {name: functools.partial(seen.append, name) for name in ("first", "second")}
    found = one_by_one(contestants, Deadline(60, rounds=1), lambda: seen.append("emptied"))
    assert seen == ["emptied", *["first"] * 3, "emptied", *["second"] * 3]
    assert {name: one.rounds for name, one in found.items()} == {"first": 1, "second": 1}


HANGING = """
import subprocess, sys, threading
from bench.gpu import budget
child = '''
import signal
signal.alarm(50)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
signal.pause()
'''
with budget.watchdog(60):
    pass
subprocess.Popen([sys.executable, "-c", child])
budget.STOP_SECONDS = 1
with budget.watchdog(1):
    threading.Event().wait()
"""


def test_a_hanging_run_is_killed_with_its_child_processes() -> None:
    done = subprocess.run(
        [sys.executable, "-c", HANGING],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=40,
        check=False,
    )
    assert done.returncode == 1
    assert "most recent call first" in done.stderr
    assert done.stderr.endswith("ended: not done after 1 s; what was measured is written\n")
