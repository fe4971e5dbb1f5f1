"""Predictions of the lab, and whether they came true. The verdicts are computed."""

from __future__ import annotations

from collections.abc import Sequence

from lab.experiments.extrapolation import LENGTHS
from lab.page import figures as of
from lab.page.figures import Results
from lab.page.predictions_scaling import (
    linear_hurts,
    linear_recovers,
    local_survives,
    none_worst,
)
from lab.page.verdicts import (
    CRITERION,
    ERRORS,
    LEARNT,
    NEAR,
    NOISE,
    NOTES,
    OURS,
    Finding,
    Prediction,
    Unseen,
    Verdict,
    at_least,
    at_most,
    every,
    less,
    listed,
    percent,
    series,
)
from lab.results import Range, Run, select
from lab.training import SCHEMES

# Schemes that learn to recall, and accept any length.
RECALLING = ("sinusoidal", "rope", "alibi signed")


def _learnt(results: Results) -> Verdict:
    by_scheme = {scheme: _reversed(results, scheme) for scheme in ("learned", "sinusoidal")}
    return every(at_least(each, of.GOAL) for each in by_scheme.values()), listed(by_scheme)


def _nowhere(results: Results) -> Verdict:
    accuracy, lines = _reversed(results, "none"), results["baselines"]
    finding = every(
        (at_least(accuracy, lines["multiset"]), at_most(accuracy, lines["most frequent"] + NOISE))
    )
    return (
        finding,
        (
            f"{accuracy.percent()}; baselines: {percent(lines['multiset'])} and "
            f"{percent(lines['most frequent'])}"
        ),
    )


def _copying(results: Results) -> Verdict:
    by_scheme = {scheme: of.copied(results, scheme) for scheme in SCHEMES}
    return every(at_least(each, of.GOAL) for each in by_scheme.values()), listed(by_scheme)


def _blind(results: Results) -> Verdict:
    line = results["baselines"]["multiset"]
    by_scheme = {
        scheme: _reversed(results, scheme, measure="blind") for scheme in ("learned", "sinusoidal")
    }
    near = [
        (at_least(each, line - NEAR), at_most(each, line + NEAR)) for each in by_scheme.values()
    ]
    return every(
        finding for pair in near for finding in pair
    ), f"{listed(by_scheme)}; baseline: {percent(line)}"


def _marks(results: Results) -> Verdict:
    by_scheme = {
        "rope": _reversed(results, "rope"),
        "with the ends marked": _reversed(results, "rope", marked=True),
    }
    return less(by_scheme["rope"], by_scheme["with the ends marked"]), listed(by_scheme)


def _alibi_lower(results: Results) -> Verdict:
    by_scheme = {
        scheme: _reversed(results, scheme) for scheme in ("alibi", "rope", "sinusoidal", "learned")
    }
    return every(
        less(by_scheme["alibi"], each) for name, each in by_scheme.items() if name != "alibi"
    ), listed(by_scheme)


def _mirror(results: Results) -> Verdict:
    head = of.mirrored_head(results, "learned")
    return at_least(head, 0.8), head.percent()


def _flat(results: Results) -> Verdict:
    schemes = ("rope", "alibi signed")
    return _if_learnt(
        results,
        schemes,
        "left",
        every(at_most(_lost(results, each, "left"), NEAR) for each in schemes),
    )


def _symmetric(results: Results) -> Verdict:
    left, right = of.over_lengths(results, "alibi", "left"), of.mirrored_answers(results, "alibi")
    apart = Range.over(
        _runs(results, "alibi"),
        lambda run: abs(run["accuracy"][str(LENGTHS[0])]["left"] - run["mirrored"]),
    )
    torn = (at_most(apart, NEAR), less(of.floor(results, "left", LENGTHS[0]) + NEAR, left[0]))
    finding = every((*torn, *(at_most(each, 0.5 + NEAR) for each in left)))
    return (
        finding,
        f"{series({'alibi': left})}; answers that are the right neighbour: {right.percent()}",
    )


def _refuses(results: Results) -> Verdict:
    values = [of.at_length(results, "learned", "left", length) for length in LENGTHS]
    return values[0] is not None and not any(
        values[1:]
    ), f'"{of.refusal(results, "learned", LENGTHS[-1])}"'


def _sinusoidal(results: Results) -> Verdict:
    first, last = (str(length) for length in (LENGTHS[0], LENGTHS[-1]))
    runs = [run["accuracy"] for run in _runs(results, "sinusoidal")]
    left = Range.over(runs, lambda run: run[last]["left"] / max(run[first]["left"], NOISE))
    return _if_learnt(results, ("sinusoidal",), "left", less(left, 0.5))


def _decay(results: Results) -> Verdict:
    finding = every(less(NEAR, _lost(results, scheme, "recall")) for scheme in RECALLING)
    return _if_learnt(results, RECALLING, "recall", finding)


def _rope_most(results: Results) -> Verdict:
    """Return the verdict at the greatest length at which a scheme is above the floor.

    If all are at the floor, none decays most.
    """
    above = [
        at
        for at in LENGTHS[1:]
        if any(of.above_floor(results, each, "recall", at) for each in RECALLING)
    ]
    if not above:
        return _if_learnt(results, RECALLING, "recall", Unseen.AT_FLOOR)
    furthest = above[-1]
    wide = {
        scheme: of.retained(results, scheme, "recall", furthest, errors=ERRORS)
        for scheme in RECALLING
    }
    finding = every(less(wide["rope"], wide[scheme]) for scheme in RECALLING if scheme != "rope")
    verdict, moves = _if_learnt(results, RECALLING, "recall", finding)
    kept = listed(
        {scheme: of.retained(results, scheme, "recall", furthest) for scheme in RECALLING}
    )
    beyond = (
        ""
        if furthest == LENGTHS[-1]
        else f"; beyond {furthest} tokens none of them is above the baseline"
    )
    share = f"share of the accuracy above the baseline that is kept at {furthest} tokens"
    return verdict, f"{moves}; {share}: {kept}{beyond}"


def _distance(results: Results) -> Verdict:
    finding = less(of.retained(results, "alibi signed", "recall", LENGTHS[-1]), 0.5)
    return _if_learnt(results, ("alibi signed",), "recall", finding)


def _if_learnt(
    results: Results, schemes: Sequence[str], question: str, finding: Finding
) -> Verdict:
    """Return `finding`, or NOT_LEARNT if a scheme fails the question at the training length."""
    by_scheme = {scheme: of.over_lengths(results, scheme, question) for scheme in schemes}
    learnt = all(each[0].least >= LEARNT for each in by_scheme.values())
    return finding if learnt else Unseen.NOT_LEARNT, series(by_scheme)


def _lost(results: Results, scheme: str, question: str) -> Range:
    return Range.over(_runs(results, scheme), lambda run: of.lost(run, question))


def _runs(results: Results, scheme: str) -> list[Run]:
    return select(results, "extrapolation", "recall", scheme)


def _reversed(
    results: Results, scheme: str, *, measure: str = "accuracy", marked: bool = False
) -> Range:
    accuracy = of.reversed_rightly(results, scheme, measure=measure, marked=marked)
    assert accuracy is not None  # called for trained schemes only
    return accuracy


PREDICTIONS = (
    Prediction("Copying needs no positions: every scheme does it.", OURS, _copying),
    Prediction(
        "Reversal of a fixed length: learned and sinusoidal reach 99 %.", CRITERION, _learnt
    ),
    Prediction(
        (
            "Without positions, reversal stays between two baselines: naming a random one of the "
            "other tokens, and naming the most frequent one."
        ),
        NOTES,
        _nowhere,
    ),
    Prediction(
        (
            "With positions removed at test time, accuracy is within 5 points of naming a random "
            "one of the other tokens."
        ),
        CRITERION,
        _blind,
    ),
    Prediction("RoPE reverses better with the ends marked.", NOTES, _marks),
    Prediction(
        "Symmetric ALiBi reverses worse than RoPE, sinusoidal and learned.", NOTES, _alibi_lower
    ),
    Prediction(
        (
            "A head of the model with learned positions has at least 80 % of its attention on the "
            "mirrored token."
        ),
        CRITERION,
        _mirror,
    ),
    Prediction(
        (
            "The left neighbour: RoPE and signed ALiBi are flat, no more than 5 points lost at 16 "
            "times the length."
        ),
        NOTES,
        _flat,
    ),
    Prediction(
        "The left neighbour: symmetric ALiBi fails at any length, torn between left and right.",
        NOTES,
        _symmetric,
    ),
    Prediction("The left neighbour: sinusoidal collapses, to less than half.", NOTES, _sinusoidal),
    Prediction("Learned positions refuse what is longer than their table.", NOTES, _refuses),
    Prediction("Recall: every scheme that learnt it decays with length.", NOTES, _decay),
    Prediction("Recall: RoPE decays most.", NOTES, _rope_most),
    Prediction(
        "Recall: distance hurts signed ALiBi, which keeps less than half.", NOTES, _distance
    ),
    Prediction(
        "Linear interpolation hurts the left neighbour at once, at the length of the training.",
        NOTES,
        linear_hurts,
    ),
    Prediction(
        "Linear interpolation recovers fastest: in a little more training it regains the greatest "
        "share of what it lacks (the left neighbour at 4 times the length).",
        NOTES,
        linear_recovers,
    ),
    Prediction(
        "NTK-aware and YaRN keep the left neighbour at the length of the training.",
        NOTES,
        local_survives,
    ),
    Prediction(
        "Recall from further away than any in training: worst without stretching.",
        NOTES,
        none_worst,
    ),
)
