"""Figures as they are quoted: each read from results.json, over seeds."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import Any

from headlight_model.lab.extrapolation import LENGTHS
from headlight_model.lab.page.verdicts import ERRORS
from headlight_model.lab.results import Range, Run, select

Results = Mapping[str, Any]
GOAL = 0.99  # accuracy from which a task counts as learnt


def reversed_rightly(
    results: Results, scheme: str, *, measure: str = "accuracy", marked: bool = False
) -> Range | None:
    """Accuracy of reversal; None where that was not trained.

    `measure`: "accuracy", or "blind" without positions at test time.
    """
    runs = select(results, "reversal", "reverse marked" if marked else "reverse", scheme)
    return Range.over(runs, lambda run: run[measure]) if runs else None


def steps_to_goal(run: Run) -> float:
    """After how many steps the accuracy of a window is GOAL for the first time.

    Infinite where it never is.
    """
    return next((step for step, value in run["curve"] if value >= GOAL), float("inf"))


def copied(results: Results, scheme: str) -> Range:
    """Accuracy of copying."""
    return Range.over(select(results, "reversal", "copy", scheme), lambda run: run["accuracy"])


def learnt_after(results: Results, task: str, scheme: str) -> Range:
    """Steps to GOAL."""
    return Range.over(select(results, "reversal", task, scheme), steps_to_goal)


def mirrored_head(results: Results, scheme: str) -> Range:
    """Attention on the mirrored token, of the head that has most of it."""
    return Range.over(
        select(results, "reversal", "reverse", scheme),
        lambda run: max(map(max, run["antidiagonal"])),
    )


def dearest_head(results: Results, scheme: str) -> Range:
    """Accuracy lost without the head that is missed most."""
    return Range.over(
        select(results, "reversal", "reverse", scheme), lambda run: max(map(max, run["lost"]))
    )


def at_length(results: Results, scheme: str, question: str, length: int) -> Range | None:
    """Accuracy of "left" or "recall"; None where the encoder refuses the length."""
    runs = select(results, "extrapolation", "recall", scheme)
    found = [run["accuracy"][str(length)] for run in runs]
    return (
        None
        if any(isinstance(each, str) for each in found)
        else Range.of([each[question] for each in found])
    )


def over_lengths(results: Results, scheme: str, question: str) -> list[Range]:
    """The same at each length that the encoder accepts."""
    found = [at_length(results, scheme, question, length) for length in LENGTHS]
    return [each for each in found if each is not None]


def lost(run: Run, question: str) -> float:
    """Accuracy at the length of the training less that at the greatest."""
    first, last = (run["accuracy"][str(length)][question] for length in (LENGTHS[0], LENGTHS[-1]))
    return float(first - last)


def retained(
    results: Results, scheme: str, question: str, length: int, *, errors: float = 0.0
) -> Range:
    """Accuracy above the floor at a length, as a share of that at the length of the training.

    Below 0 where it is below the floor.

    Args:
        errors: by how many standard errors the ends are moved apart.
    """
    runs, questions = (
        select(results, "extrapolation", "recall", scheme),
        asked(results, "extrapolation", question, length),
    )

    def share(run: Run, more: float = 0.0) -> float:
        first, last = (run["accuracy"][str(at)][question] for at in (LENGTHS[0], length))
        gained = first - floor(results, question, LENGTHS[0])
        moved = last + more * sampling_error(last, questions) - floor(results, question, length)
        return float(moved / gained) if gained > 0 else 0.0

    ends = [
        Range.over(runs, functools.partial(share, more=more)) for more in (-errors, 0.0, errors)
    ]
    return Range(ends[0].least, ends[1].mean, ends[2].most)


def floor(results: Results, question: str, length: int) -> float:
    """Accuracy of who does not know where anything stands, see `extrapolation.floors`."""
    return float(results["floors"][str(length)][question])


def asked(results: Results, experiment: str, question: str, length: int) -> int:
    """How many questions an accuracy rests on.

    The same ones for every seed, so no range over seeds holds what that leaves open.
    """
    return int(results["asked"][experiment][str(length)][question])


def sampling_error(share: float, questions: int) -> float:
    """Standard error of a share of right answers."""
    return math.sqrt(share * (1 - share) / questions)


def noise(results: Results, experiment: str, question: str, length: int, share: float) -> float:
    """What an accuracy may be off by."""
    return ERRORS * sampling_error(share, asked(results, experiment, question, length))


def above_floor(results: Results, scheme: str, question: str, length: int) -> bool:
    """Whether every seed answers better than who knows no places, by more than noise."""
    found, line = at_length(results, scheme, question, length), floor(results, question, length)
    return found is not None and found.least > line + noise(
        results, "extrapolation", question, length, line
    )


def refusal(results: Results, scheme: str, length: int) -> str:
    """What the encoder said. Raises KeyError where it refused nothing."""
    said = select(results, "extrapolation", "recall", scheme)[0]["accuracy"][str(length)]
    if not isinstance(said, str):
        raise KeyError(f"{scheme} accepts {length} tokens")
    return said


def mirrored_answers(results: Results, scheme: str) -> Range:
    """Share of the questions for the left neighbour that are answered with the right one.

    Measured at the length of the training.
    """
    return Range.over(
        select(results, "extrapolation", "recall", scheme), lambda run: run["mirrored"]
    )


def stretched(
    results: Results, theta: float, kind: str, stage: str, length: int, question: str
) -> Range:
    """Accuracy with rotary positions scaled.

    `stage`: "zero_shot" or "tuned"; `question`: "left", "recall" or "far".
    """
    return Range.over(_scaled(results, theta), lambda run: run[kind][stage][str(length)][question])


def ahead(
    results: Results, theta: float, kind: str, than: str, length: int, question: str
) -> Range:
    """By how much one stretching answers better than another of the same seed, as stretched."""
    runs = _scaled(results, theta)
    return Range.over(
        runs,
        lambda run: (
            run[kind]["zero_shot"][str(length)][question]
            - run[than]["zero_shot"][str(length)][question]
        ),
    )


def regained(results: Results, theta: float, kind: str, length: int, question: str) -> list[float]:
    """What the training after stretching gained, as a share of what could be gained, by seed.

    NaN where that was nothing.
    """
    before, after = (
        [run[kind][stage][str(length)][question] for run in _scaled(results, theta)]
        for stage in ("zero_shot", "tuned")
    )
    return [(b - a) / (1 - a) if a < 1 else math.nan for a, b in zip(before, after, strict=True)]


def _scaled(results: Results, theta: float) -> list[Run]:
    return [run for run in results["scaling"] if run["theta"] == theta]
