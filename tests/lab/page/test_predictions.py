"""Verdicts that depend on noise, on floors and ceilings, and on what a seed has learnt."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from lab.experiments.extrapolation import LENGTHS
from lab.experiments.scaling import KINDS
from lab.page import figures
from lab.page.predictions import PREDICTIONS
from lab.page.verdicts import Finding, Unseen
from lab.results import load

ROPE_MOST = "Recall: RoPE decays most"
FAR = "Recall from further away"
RECOVERS = "Linear interpolation recovers"


@pytest.fixture
def results() -> dict[str, Any]:
    """Return the committed results."""
    return copy.deepcopy(load(Path(__file__).resolve().parents[3] / "docs/positions"))


def verdict(results: dict[str, Any], begins: str) -> tuple[Finding, str]:
    [prediction] = [each for each in PREDICTIONS if each.text.startswith(begins)]
    return prediction.check(results)


def recall(results: dict[str, Any], **by_scheme: tuple[float, ...]) -> dict[str, Any]:
    """Give every seed of these schemes the same recall, by length."""
    for run in results["extrapolation"]:
        for length, value in zip(
            LENGTHS, by_scheme.get(run["scheme"].replace(" ", "_"), ()), strict=False
        ):
            run["accuracy"][str(length)]["recall"] = value
    return results


def at(results: dict[str, Any], theta: float) -> list[dict[str, Any]]:
    return [run for run in results["scaling"] if run["theta"] == theta]


def far(results: dict[str, Any], **by_kind: float) -> dict[str, Any]:
    """Make every seed learn recall, and give it the same distant recall, by stretching."""
    for run in results["scaling"]:
        run["none"]["zero_shot"]["64"]["recall"] = 1.0
        for kind, value in by_kind.items():
            run[kind]["zero_shot"]["256"]["far"] = value
    return results


def tuned(results: dict[str, Any], **moves: tuple[float, float]) -> dict[str, Any]:
    """Give every seed the same left-neighbour accuracy before and after more training."""
    for run in results["scaling"]:
        for kind, (before, after) in moves.items():
            run[kind]["zero_shot"]["256"]["left"], run[kind]["tuned"]["256"]["left"] = before, after
    return results


def test_distant_recall_has_no_verdict_if_recall_was_not_learnt(
    results: dict[str, Any],
) -> None:
    """At theta = 10000 a seed recalls 18.4 % at the length of the training,
    and names 99.9 % of left neighbours.
    """
    finding, told = verdict(results, FAR)
    assert finding is Unseen.NOT_LEARNT
    assert "theta 100 (yes): " in told
    assert "theta 10000 (not learnt, so not seen): " in told


def test_a_dissenting_seed_prevents_a_verdict(results: dict[str, Any]) -> None:
    for run in at(results, 10000):
        run["none"]["zero_shot"]["64"]["recall"] = 1.0
    means = [
        figures.stretched(results, 10000, kind, "zero_shot", 256, "far").mean for kind in KINDS
    ]
    assert means[0] < min(means[1:]) - 0.01
    assert verdict(results, FAR)[0] is Unseen.DISAGREE
    for run in at(results, 10000):
        run["none"]["zero_shot"]["256"]["far"] = 0.01
    assert verdict(results, FAR) == (True, verdict(results, FAR)[1])
    assert "(yes)" not in verdict(results, FAR)[1], "both thetas say the same"


@pytest.mark.parametrize(("others", "finding"), [(0.2, True), (0.115, False), (0.05, False)])
def test_worse_means_worse_beyond_the_sampling_error(
    results: dict[str, Any], others: float, finding: Finding
) -> None:
    assert verdict(far(results, none=0.1, linear=others, ntk=0.5, yarn=0.5), FAR)[0] is finding


def test_the_strongest_decay_is_judged_at_lengths_above_the_floor(results: dict[str, Any]) -> None:
    """At 512 tokens all three are at the floor: at 128 sinusoidal has lost more."""
    finding, told = verdict(results, ROPE_MOST)
    assert finding is False
    assert "above the baseline that is kept at 128 tokens: " in told
    assert "beyond 128 tokens none" in told


@pytest.mark.parametrize(
    ("rope", "sinusoidal", "alibi_signed", "finding"),
    [
        # Visible at 128 tokens, not at 512.
        ((1, 0.8, 0.2, 0.05), (1, 0.9, 0.5, 0.05), (0.9, 0.9, 0.5, 0.05), True),
        ((1, 0.8, 0.5, 0.05), (1, 0.9, 0.2, 0.05), (0.9, 0.9, 0.5, 0.05), False),
        # At 512: one scheme above the floor is enough to compare with.
        ((1, 0.8, 0.5, 0.04), (1, 0.9, 0.2, 0.5), (0.9, 0.9, 0.3, 0.5), True),
        # They differ only by noise.
        ((1, 0.8, 0.5, 0.04), (1, 0.9, 0.5, 0.05), (0.9, 0.9, 0.5, 0.5), Unseen.DISAGREE),
        ((1, 0.09, 0.07, 0.05), (1, 0.08, 0.06, 0.04), (0.9, 0.09, 0.07, 0.05), Unseen.AT_FLOOR),
        ((0.5, 0.8, 0.2, 0.05), (1, 0.9, 0.5, 0.05), (0.9, 0.9, 0.5, 0.05), Unseen.NOT_LEARNT),
    ],
)
def test_verdicts_on_decay(
    results: dict[str, Any],
    rope: tuple[float, ...],
    sinusoidal: tuple[float, ...],
    alibi_signed: tuple[float, ...],
    finding: Finding,
) -> None:
    changed = recall(results, rope=rope, sinusoidal=sinusoidal, alibi_signed=alibi_signed)
    assert verdict(changed, ROPE_MOST)[0] is finding


def test_retained_accuracy_is_not_clipped_at_the_floor(results: dict[str, Any]) -> None:
    changed = recall(results, rope=(1, 0.8, 0.5, 0.01))
    assert figures.retained(changed, "rope", "recall", 512).most < 0
    wide = figures.retained(changed, "rope", "recall", 128, errors=2)
    plain = figures.retained(changed, "rope", "recall", 128)
    assert (wide.least, wide.most) == pytest.approx(
        (plain.mean - 0.0357, plain.mean + 0.0357), abs=1e-4
    )


def test_recovery_is_measured_relative_to_the_possible_gain(results: dict[str, Any]) -> None:
    """Linear interpolation gains most points because it lost most,
    and regains the smallest share of its loss.
    """
    moves = [
        figures.stretched(results, 100, kind, stage, 256, "left").mean
        for kind in KINDS
        for stage in ("zero_shot", "tuned")
    ]
    gained = dict(
        zip(
            KINDS,
            (after - before for before, after in zip(moves[::2], moves[1::2], strict=True)),
            strict=True,
        )
    )
    assert max(gained, key=gained.__getitem__) == "linear"
    finding, told = verdict(results, RECOVERS)
    assert finding is False
    assert "linear 79.1 (74.0–82.7), from 14.7 to 82.2" in told
    rest: dict[str, tuple[float, float]] = {
        "none": (0.8, 0.9),
        "ntk": (0.9, 0.95),
        "yarn": (0.9, 0.95),
    }
    assert verdict(tuned(results, linear=(0.1, 0.9), **rest), RECOVERS)[0] is True
    [one, *_] = at(results, 100)
    one["linear"]["tuned"]["256"]["left"] = 0.2
    assert verdict(results, RECOVERS)[0] is Unseen.DISAGREE


def test_a_scheme_without_loss_has_no_recovery(results: dict[str, Any]) -> None:
    assert verdict(tuned(results, yarn=(1.0, 1.0)), RECOVERS)[0] is Unseen.AT_CEILING


def test_overlapping_ranges_decide_nothing(results: dict[str, Any]) -> None:
    """One seed reverses better with marked ends than any without, and the others do not."""
    assert verdict(results, "RoPE reverses better")[0] is Unseen.DISAGREE
