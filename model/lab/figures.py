"""Figures as they are quoted: each read from results.json, over seeds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from model.lab.extrapolation import LENGTHS
from model.lab.results import Range, Run, select

Results = Mapping[str, Any]
GOAL = 0.99  # accuracy from which a task counts as learnt


def reversed_rightly(results: Results, scheme: str, *, measure: str = "accuracy", marked: bool = False) -> Range | None:
    """Accuracy of reversal; None where that was not trained. `measure`: "accuracy", or "blind" without positions at test time."""
    runs = select(results, "reversal", "reverse marked" if marked else "reverse", scheme)
    return Range.over(runs, lambda run: run[measure]) if runs else None


def steps_to_goal(run: Run) -> float:
    """After how many steps the accuracy of a window is GOAL for the first time; infinite where it never is."""
    return next((step for step, value in run["curve"] if value >= GOAL), float("inf"))


def copied(results: Results, scheme: str) -> Range:
    """Accuracy of copying."""
    return Range.over(select(results, "reversal", "copy", scheme), lambda run: run["accuracy"])


def learnt_after(results: Results, task: str, scheme: str) -> Range:
    """Steps to GOAL."""
    return Range.over(select(results, "reversal", task, scheme), steps_to_goal)


def mirrored_head(results: Results, scheme: str) -> Range:
    """Attention on the mirrored token, of the head that has most of it."""
    return Range.over(select(results, "reversal", "reverse", scheme), lambda run: max(map(max, run["antidiagonal"])))


def dearest_head(results: Results, scheme: str) -> Range:
    """Accuracy lost without the head that is missed most."""
    return Range.over(select(results, "reversal", "reverse", scheme), lambda run: max(map(max, run["lost"])))


def at_length(results: Results, scheme: str, question: str, length: int) -> Range | None:
    """Accuracy of "left" or "recall"; None where the encoder refuses the length."""
    runs = select(results, "extrapolation", "recall", scheme)
    found = [run["accuracy"][str(length)] for run in runs]
    return None if any(isinstance(each, str) for each in found) else Range.of([each[question] for each in found])


def over_lengths(results: Results, scheme: str, question: str) -> list[Range]:
    """The same at each length that the encoder accepts."""
    found = [at_length(results, scheme, question, length) for length in LENGTHS]
    return [each for each in found if each is not None]


def lost(run: Run, question: str) -> float:
    """Accuracy at the length of the training less that at the greatest."""
    first, last = (run["accuracy"][str(length)][question] for length in (LENGTHS[0], LENGTHS[-1]))
    return float(first - last)


def kept(results: Results, scheme: str, question: str) -> float:
    """Accuracy above the floor at the greatest length, as a share of that at the length of the training; of the means over seeds."""
    found = over_lengths(results, scheme, question)
    first, last = (
        each.mean - floor(results, question, length)
        for each, length in ((found[0], LENGTHS[0]), (found[-1], LENGTHS[-1]))
    )
    return max(0.0, last) / first if first > 0 else 0.0


def floor(results: Results, question: str, length: int) -> float:
    """Accuracy of who does not know where anything stands, see `tasks.floor`."""
    return float(results["extrapolation"][0]["floors"][str(length)][question])


def refusal(results: Results, scheme: str, length: int) -> str:
    """What the encoder said. Raises KeyError where it refused nothing."""
    said = select(results, "extrapolation", "recall", scheme)[0]["accuracy"][str(length)]
    if not isinstance(said, str):
        raise KeyError(f"{scheme} accepts {length} tokens")
    return said


def mirrored_answers(results: Results, scheme: str) -> Range:
    """Share of the questions for the left neighbour that are answered with the right one, at the length of the training."""
    return Range.over(select(results, "extrapolation", "recall", scheme), lambda run: run["mirrored"])


def stretched(results: Results, theta: float, kind: str, stage: str, length: int, question: str) -> Range:
    """Accuracy with rotary positions scaled. `stage`: "zero_shot" or "tuned"; `question`: "left", "recall" or "far"."""
    runs = [run for run in results["scaling"] if run["theta"] == theta]
    return Range.over(runs, lambda run: run[kind][stage][str(length)][question])
