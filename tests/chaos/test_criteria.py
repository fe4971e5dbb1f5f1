"""Criteria of `nox -s soak`: each fails if it should."""

from __future__ import annotations

import asyncio
import dataclasses
import random
from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from headlight import Client
from headlight.errors import NotFound, Unavailable
from tests.chaos.faults.frames import REACHED, judged
from tests.chaos.faults.replaced_models import ABSENT, Callers
from tests.chaos.findings import Findings
from tests.chaos.flat import MIB, Sample, flatness
from tests.chaos.mutations.scripts import script
from tests.chaos.traffic.ledger import Ledger, Wrong
from tests.chaos.traffic.probes import Ports, Probes
from tests.chaos.traffic.reference import check
from tests.chaos.watch import Quiet, held_of, problems
from tests.system.shelf import TEXTS


def samples(memory: Callable[[float], float], count: int = 300, noise: float = 8.0) -> list[Sample]:
    """Return memory in MiB as a function of the elapsed share of the run, with noise."""
    chance = random.Random(0)
    shares = [place / (count - 1) for place in range(count)]
    return [
        Sample(1800 * share, int(MIB * (memory(share) + chance.uniform(0, noise))))
        for share in shares
    ]


def test_a_plateau_is_flat_however_steep_the_warm_up() -> None:
    found = flatness(samples(lambda share: min(200.0, 100 + 400 * share)))
    assert found.problems() == []
    assert abs(found.end - found.begin) < 2 * MIB
    assert 200 * MIB < found.peak < 210 * MIB


def test_temporary_peaks_are_flat() -> None:
    assert (
        flatness(samples(lambda share: 700.0 if int(share * 1000) % 7 == 0 else 200.0)).problems()
        == []
    )


@pytest.mark.parametrize("leak", [60.0, 200.0])
def test_a_leak_is_not_flat(leak: float) -> None:
    [grown, *_] = flatness(samples(lambda share: 200 + leak * share)).problems()
    assert grown.startswith("memory grew from 2")


def test_a_step_late_in_the_run_is_not_flat() -> None:
    assert flatness(samples(lambda share: 200.0 if share < 0.8 else 240.0)).problems() != []


def test_a_leak_released_at_the_end_is_detected_by_the_slope() -> None:
    found = flatness(samples(lambda share: 200 + 100 * share if share < 0.86 else 200.0))
    assert [problem[:18] for problem in found.problems()] == ["memory rises by 55"]


def test_the_allowance_is_five_percent_for_a_large_process() -> None:
    assert flatness(samples(lambda share: 1000 + 40 * share)).problems() == []
    assert flatness(samples(lambda share: 1000 + 110 * share)).problems() != []


def test_too_few_samples_are_refused() -> None:
    with pytest.raises(ValueError, match="13 samples after the warm-up"):
        flatness(samples(lambda share: 200.0, count=20))
    with pytest.raises(ValueError, match="0 samples"):
        flatness([])


async def test_every_call_failure_is_a_problem() -> None:
    ledger = Ledger()

    async def fine() -> str:
        return "OK"

    async def wrong() -> str:
        raise Wrong("vectors differ by 0.1")

    async def broken() -> str:
        raise KeyError("bug")

    await ledger.call("embed", fine(), {"OK"})
    assert ledger.problems() == []
    await ledger.call("embed", wrong(), {"OK"})
    await ledger.call("embed", fine(), {"CANCELLED"})
    await ledger.call("embed", broken(), {"OK"})
    assert ledger.started == ledger.ended == 4
    assert ledger.problems() == [
        "embed: vectors differ by 0.1",
        "embed ended as OK, not as CANCELLED",
        "embed ended as KeyError, not as OK",
    ]


async def test_a_call_that_does_not_end_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.chaos.traffic.ledger.END_SECONDS", 0.01)
    ledger = Ledger()
    never: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def hang() -> str:
        return await never

    await ledger.call("attend", hang(), {"OK"})
    assert (ledger.started, ledger.ended) == (1, 0)
    assert ledger.problems() == [
        "attend ended as NEVER ENDED, not as OK",
        "1 calls were started, 0 ended",
    ]


def test_a_non_finite_number_is_wrong() -> None:
    right = np.ones(3, np.float32)
    check(right, right, 1e-6, "a vector")
    for other in (right * 1.001, right * np.nan, right[:2]):
        with pytest.raises(Wrong):
            check(other, right, 1e-6, "a vector")


QUIET = Quiet(seconds=60.0, resident=200 * MIB, descriptors=16, threads=14, held={"calls": 0.0})


def test_released_resources_are_no_problem() -> None:
    assert problems([QUIET, dataclasses.replace(QUIET, threads=17, descriptors=15)]) == []


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"descriptors": 17}, "file descriptors grew from 16 to 17"),
        ({"threads": 99}, "threads grew from 14 to 99"),
        (
            {"held": {"calls": 1.0}},
            "after 60 s, with nobody calling, there are left: {'calls': 1.0}",
        ),
    ],
)
def test_unreleased_resources_are_a_problem(change: dict[str, object], told: str) -> None:
    # The change may be of any field.
    assert problems([QUIET, dataclasses.replace(QUIET, **change)]) == [told]  # type: ignore[arg-type]


def test_unhandled_calls_count_as_held_except_health_checks() -> None:
    def sample_line(name: str, service: str, value: int) -> str:
        return f'grpc_server_{name}_total{{grpc_service="{service}"}} {value}\n'

    lines = [
        sample_line("started", "headlight.v1.HeadlightService", 7),
        sample_line("handled", "headlight.v1.HeadlightService", 5),
    ]
    lines += [
        sample_line("started", "grpc.health.v1.Health", 3),
        'headlight_queue_tokens{model="m"} 12\n',
    ]
    held = held_of("".join(lines))
    assert (held["calls"], held["headlight_queue_tokens"], held["headlight_held_output_bytes"]) == (
        2.0,
        12.0,
        0.0,
    )


class SaidProbes(Probes):
    """Probes and calls with scripted answers."""

    def __init__(self, before: bool, ended: str, after: bool) -> None:
        super().__init__(Ports("", ""), "", np.zeros(1, np.float32))
        self._before_and_after, self._ended = [before, after], ended

    async def _ask(self) -> dict[str, bool]:
        return {"/readyz": self._before_and_after.pop(0)}

    async def _call(self) -> str:
        return self._ended


@pytest.mark.parametrize(
    ("before", "ended", "after", "problems"),
    [
        (True, "OK", True, []),
        (False, "UNAVAILABLE", False, []),
        (True, "UNAVAILABLE", False, []),  # it changed meanwhile
        (True, "UNAVAILABLE", True, ["/readyz says ready, a call ends as UNAVAILABLE"]),
        (True, "WRONG", True, ["/readyz says ready, a call ends as WRONG"]),
        (False, "OK", False, ["/readyz says not ready, a call ends as OK"]),
    ],
)
async def test_a_probe_contradicted_by_a_call_is_a_problem(
    before: bool, ended: str, after: bool, problems: list[str]
) -> None:
    probes = SaidProbes(before, ended, after)
    assert await probes.look() == ended
    assert probes.problems() == problems


def test_a_seed_of_the_frame_fuzzer_sends_the_same_bytes_again() -> None:
    scripts = [script(seed) for seed in range(200)]
    assert scripts == [script(seed) for seed in range(200)]
    assert len({each.data for each in scripts}) > 150
    assert len({name for each in scripts for name in each.changed}) > 30


def test_ineffective_frames_and_unreleased_resources_are_problems() -> None:
    quiet = [
        Quiet(1.0, 100 * MIB, 16, 18, {"calls": 0.0}),
        Quiet(2.0, 100 * MIB, 17, 18, {"calls": 1.0}),
    ]
    found = Findings(Counter({group[0]: 100 for group in REACHED}))
    found.memory = samples(lambda share: 100.0, count=40)
    assert judged(found, [quiet[0]] * 2, "").problems == []
    found.ends = Counter({"left": 990, "answered": 100, "hung up": 100})
    assert judged(found, quiet, "").problems == [
        "after 2 s, with nobody calling, there are left: {'calls': 1.0}",
        "file descriptors grew from 16 to 17",
        "0 of 1190 ended as refused: too coarse or too fine",
    ]
    found.broken = ["a call was lost"]
    assert judged(found, quiet, "").problems == ["a call was lost"]


def test_answers_that_leak_and_ends_that_are_not_allowed_are_problems() -> None:
    found = Findings(Counter({"OK": 99, "UNKNOWN": 1}))
    found.search("a request", [b"fine", b"Traceback (most recent call last)"])
    assert found.broken == ["b'Traceback (most recent call last)' came back of 'a request'"]
    assert found.unexpected({"OK"}) == ["1 ended as UNKNOWN"]


def answer_of(version: str, number: float) -> Any:
    model = SimpleNamespace(version=version)
    return SimpleNamespace(vectors=np.full((2, 1), number, np.float32), model=model)


@pytest.mark.parametrize(
    ("version", "answer", "end"),
    [
        ("", answer_of("v1", 1.0), "v1"),
        ("v2", answer_of("v2", 2.0), "v2"),
        ("", answer_of("v1", 2.0), "a wrong answer of v1"),
        ("", answer_of("v1", np.nan), "a wrong answer of v1"),
        ("v2", answer_of("v1", 1.0), "a wrong answer of v1"),
        ("", Unavailable("no"), "Unavailable: no"),
        ("", NotFound("no"), "NotFound: no"),
        ("v1", NotFound("no"), "NotFound: no"),
        ("v2", NotFound("no"), ABSENT),
    ],
)
def test_mixed_versions_and_failed_calls_of_replaced_models_are_problems(
    version: str, answer: Any, end: str
) -> None:
    expected = {f"v{factor}": np.full((len(TEXTS), 1), factor, np.float32) for factor in (1, 2)}
    callers = Callers("", expected, {}, count=0, seed=1)
    callers.served["v1"] = 0.0
    client = Mock(spec=Client, encode_with_info=Mock(side_effect=[answer]))
    assert callers.end_of(client, version, 2) == end
    callers.ends = Counter({"v1": 1, "v2": 1} | {end: 3})
    assert callers.problems() == ([] if end in ("v1", "v2", ABSENT) else [f"3 calls: {end}"])


def test_a_version_that_never_answers_is_a_problem() -> None:
    callers = Callers("", {"v1": np.ones(1, np.float32)}, {}, count=0, seed=1)
    assert callers.problems() == ["no answer of v1"]
