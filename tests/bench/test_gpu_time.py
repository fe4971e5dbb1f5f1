"""`python -m bench.gpu` and time: shares of the budget, turns, and what becomes of a run that hangs."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch

from bench.gpu.budget import Allowance, Budget, Deadline
from bench.gpu.device import Device
from bench.gpu.peers import Compiled, NotMeasured
from bench.gpu.turns import Timing, take_turns
from bench.serving.processes import ROOT
from headlight.runtime.engine import pad
from tests.factory import sharpened, small_config


class Clock:
    """Goes on when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_section_takes_its_share_and_what_it_leaves_is_for_those_behind_it() -> None:
    clock = Clock()
    budget = Budget(100, {"first": 1, "second": 1, "third": 2}, clock)
    with budget.section("first") as mine:
        assert mine.left == 25
        clock.now += 10
    with budget.section("second") as mine:
        assert mine.left == pytest.approx(30)  # a third of 90
        clock.now += 60
        assert mine.over
    with budget.section("third") as mine:
        assert mine.left == pytest.approx(30)
        assert mine.part(0.5).left == pytest.approx(15)


def test_an_allowance_is_spent_even_by_what_fails() -> None:
    clock = Clock()
    allowance, taken = Allowance(10, clock), list[float]()

    def fail() -> None:
        with allowance.spent(taken):
            clock.now += 4
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert (allowance.left, taken) == (6, [4])


def test_a_contestant_that_fails_is_out_and_the_others_go_on() -> None:
    runs = {"sound": 0, "broken": 0}

    def run(name: str) -> None:
        runs[name] += 1
        if name == "broken":
            raise ValueError("no\nkernel")

    found = take_turns({name: lambda name=name: run(name) for name in runs}, Deadline(60, rounds=3))  # type: ignore[misc]
    assert found["broken"] == Timing(None, error="ValueError: no kernel")
    assert found["sound"].rounds == 3
    assert found["sound"].ms is not None
    assert runs == {"sound": 5, "broken": 1}


def test_without_time_one_round_is_run_and_nothing_counts() -> None:
    runs: list[int] = []
    assert take_turns({"one": lambda: runs.append(1)}, Deadline(0)) == {"one": Timing(None)}
    assert len(runs) == 1


def test_a_second_round_counts_where_half_the_time_is_gone() -> None:
    clock = Clock()

    def slow() -> None:
        clock.now += 6

    assert take_turns({"one": slow}, Deadline(10, clock))["one"].rounds == 1


def test_compiling_is_not_begun_without_an_allowance_for_it() -> None:
    encoder = sharpened(small_config(layers=1))
    refused = Compiled(encoder, Device("cpu"), Allowance(1), "eager", expected=2)
    ids, mask = pad([np.array([3, 4, 5])] * 2)
    with pytest.raises(NotMeasured, match="1 s are left to compile in, 2 are expected"):
        refused(ids, mask)
    assert refused.seconds == {}


def test_the_first_run_of_each_shape_is_charged_to_compiling(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, encoder = Clock(), sharpened(small_config(layers=1))

    def run(*inputs: Any, **options: Any) -> Any:
        clock.now += 3
        return encoder(*inputs, **options)

    monkeypatch.setattr(torch, "compile", lambda *_, **__: run)
    allowance = Allowance(8, clock)
    compiled = Compiled(encoder, Device("cpu"), allowance, "eager", expected=2)
    for length in (3, 3, 4):
        compiled(*pad([np.arange(3, 3 + length)] * 2))
    assert (compiled.seconds, allowance.left) == ({"batches": 6}, 2)
    with pytest.raises(NotMeasured):
        compiled(*pad([np.array([3, 4, 5])]))


HANGING = """
import subprocess, sys, threading
from bench.gpu import watchdog
child = "import signal; signal.alarm(50); signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True); signal.pause()"
with watchdog.watchdog(60):
    pass
subprocess.Popen([sys.executable, "-c", child])
watchdog.STOP_SECONDS = 1
with watchdog.watchdog(1):
    threading.Event().wait()
"""


def test_a_run_that_hangs_is_ended_with_the_processes_it_began() -> None:
    done = subprocess.run(
        [sys.executable, "-c", HANGING], cwd=ROOT, capture_output=True, text=True, timeout=40, check=False
    )
    assert done.returncode == 1
    assert "most recent call first" in done.stderr
    assert done.stderr.endswith("ended: not done after 1 s; what was measured is written\n")
