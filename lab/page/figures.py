"""Figures that the page quotes: read from results.json, over seeds."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

from lab.experiments.extrapolation import LENGTHS
from lab.page.verdicts import ERRORS
from lab.results import Range, Run, select

Results = Mapping[str, Any]
GOAL = 0.99  # accuracy from which a task counts as learnt


def reversed_rightly(
    results: Results, scheme: str, *, measure: str = "accuracy", marked: bool = False
) -> Range | None:
    """Return the accuracy of reversal; None if it was not trained.

    `measure`: "accuracy", or "blind" without positions at test time.
    """
    runs = select(results, "reversal", "reverse marked" if marked else "reverse", scheme)
    return Range.over(runs, lambda run: run[measure]) if runs else None


def steps_to_goal(run: Run) -> float:
    """Return the number of steps at which the accuracy of a window first reaches GOAL.

    Infinity if it never does.
    """
    return next((step for step, value in run["curve"] if value >= GOAL), float("inf"))


def copied(results: Results, scheme: str) -> Range:
    """Return the accuracy of copying."""
    return Range.over(select(results, "reversal", "copy", scheme), lambda run: run["accuracy"])


def learnt_after(results: Results, task: str, scheme: str) -> Range:
    """Return the steps to GOAL."""
    return Range.over(select(results, "reversal", task, scheme), steps_to_goal)


def mirrored_head(results: Results, scheme: str) -> Range:
    """Return the attention on the mirrored token of the head with the most."""
    return Range.over(
        select(results, "reversal", "reverse", scheme),
        lambda run: max(map(max, run["antidiagonal"])),
    )


def dearest_head(results: Results, scheme: str) -> Range:
    """Return the accuracy lost without the most important head."""
    return Range.over(
        select(results, "reversal", "reverse", scheme), lambda run: max(map(max, run["lost"]))
    )


def at_length(results: Results, scheme: str, question: str, length: int) -> Range | None:
    """Return the accuracy of "left" or "recall"; None if the encoder rejects the length."""
    runs = select(results, "extrapolation", "recall", scheme)
    return unless_refused(runs, "accuracy", length, question)


def unless_refused(
    runs: Sequence[Run], measure: str, length: int, question: str | None = None
) -> Range | None:
    """Return a measurement at a length; None if the encoder rejects it.

    `question`: None if the measurement is one number.
    """
    values: list[Any] = [run[measure][str(length)] for run in runs]
    if any(isinstance(each, str) for each in values):
        return None
    return Range.of([each if question is None else each[question] for each in values])


def over_lengths(results: Results, scheme: str, question: str) -> list[Range]:
    """Return the same at each length that the encoder accepts."""
    values = [at_length(results, scheme, question, length) for length in LENGTHS]
    return [each for each in values if each is not None]


def lost(run: Run, question: str) -> float:
    """Return the accuracy at the training length minus that at the greatest length."""
    first, last = (run["accuracy"][str(length)][question] for length in (LENGTHS[0], LENGTHS[-1]))
    return float(first - last)


def retained(
    results: Results, scheme: str, question: str, length: int, *, errors: float = 0.0
) -> Range:
    """Return accuracy above the floor at a length, as a share of that at the training length.

    Negative if the accuracy is below the floor.

    Args:
        errors: number of standard errors by which the range is widened at each end.
    """
    runs, questions = (
        select(results, "extrapolation", "recall", scheme),
        question_count(results, "extrapolation", question, length),
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
    """Return the accuracy without positions, see `extrapolation.floors`."""
    return float(results["floors"][str(length)][question])


def question_count(results: Results, experiment: str, question: str, length: int) -> int:
    """Return how many questions an accuracy rests on.

    They are the same for every seed, so a range over seeds leaves out their sampling error.
    """
    return int(results["asked"][experiment][str(length)][question])


def sampling_error(share: float, questions: int) -> float:
    """Standard error of a share of right answers."""
    return math.sqrt(share * (1 - share) / questions)


def noise(results: Results, experiment: str, question: str, length: int, share: float) -> float:
    """Return the possible sampling error of an accuracy: ERRORS standard errors."""
    return ERRORS * sampling_error(share, question_count(results, experiment, question, length))


def above_floor(results: Results, scheme: str, question: str, length: int) -> bool:
    """Return whether every seed is above the floor by more than noise."""
    value, line = at_length(results, scheme, question, length), floor(results, question, length)
    return value is not None and value.least > line + noise(
        results, "extrapolation", question, length, line
    )


def refusal(results: Results, scheme: str, length: int) -> str:
    """Return the encoder's error message. Raise KeyError if it accepted the length."""
    accuracy = select(results, "extrapolation", "recall", scheme)[0]["accuracy"][str(length)]
    if not isinstance(accuracy, str):
        raise KeyError(f"{scheme} accepts {length} tokens")
    return accuracy


def mirrored_answers(results: Results, scheme: str) -> Range:
    """Return the share of questions for the left neighbour answered with the right neighbour.

    Measured at the training length.
    """
    return Range.over(
        select(results, "extrapolation", "recall", scheme), lambda run: run["mirrored"]
    )


def stretched(
    results: Results, theta: float, kind: str, stage: str, length: int, question: str
) -> Range:
    """Return the accuracy with scaled rotary positions.

    `stage`: "zero_shot" or "tuned"; `question`: "left", "recall" or "far".
    """
    return Range.over(_scaled(results, theta), lambda run: run[kind][stage][str(length)][question])


def ahead(
    results: Results, theta: float, kind: str, than: str, length: int, question: str
) -> Range:
    """Return how much more accurate one scaling is than another, by seed, before more training."""
    runs = _scaled(results, theta)
    return Range.over(
        runs,
        lambda run: (
            run[kind]["zero_shot"][str(length)][question]
            - run[than]["zero_shot"][str(length)][question]
        ),
    )


def regained(results: Results, theta: float, kind: str, length: int, question: str) -> list[float]:
    """Return the gain of the training after scaling, by seed, as a share of the possible gain.

    NaN if nothing could be gained.
    """
    before, after = (
        [run[kind][stage][str(length)][question] for run in _scaled(results, theta)]
        for stage in ("zero_shot", "tuned")
    )
    return [(b - a) / (1 - a) if a < 1 else math.nan for a, b in zip(before, after, strict=True)]


def _scaled(results: Results, theta: float) -> list[Run]:
    return [run for run in results["scaling"] if run["theta"] == theta]
