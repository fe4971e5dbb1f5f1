"""Predictions about scaled rotary positions, and whether they came true.

Scalings are compared within each seed.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from lab.experiments.scaling import FACTOR, KINDS, THETAS, TRAINED
from lab.page import figures as of
from lab.page.figures import Results
from lab.page.verdicts import (
    LEARNT,
    NEAR,
    NOISE,
    Finding,
    Unseen,
    Verdict,
    at_least,
    every,
    less,
    listed,
    percent,
    said,
)
from lab.pictures.measured import CALLED
from lab.results import Range

SHORT, LONG = TRAINED[1], TRAINED[1] * FACTOR


def linear_hurts(results: Results) -> Verdict:
    """Check that linear scaling hurts at once, at the training length."""

    def finding(theta: float) -> Finding:
        return less(of.ahead(results, theta, "linear", "none", SHORT, "left"), -NEAR)

    return _each_theta(results, finding, SHORT, "left")


def local_survives(results: Results) -> Verdict:
    """Check that NTK-aware scaling and YaRN keep the left neighbour at the training length."""

    def finding(theta: float) -> Finding:
        return every(
            at_least(of.ahead(results, theta, kind, "none", SHORT, "left"), -NEAR)
            for kind in ("ntk", "yarn")
        )

    return _each_theta(results, finding, SHORT, "left")


def none_worst(results: Results) -> Verdict:
    """Check that recall from further away than in training is worst without scaling.

    The difference must exceed the sampling error of the few questions.
    """

    def behind(theta: float, kind: str) -> Finding:
        means = (
            of.stretched(results, theta, each, "zero_shot", LONG, "far").mean
            for each in ("none", kind)
        )
        noise = math.hypot(*(of.noise(results, "scaling", "far", LONG, mean) for mean in means))
        return less(of.ahead(results, theta, "none", kind, LONG, "far"), -noise)

    return _each_theta(
        results,
        lambda theta: every(behind(theta, kind) for kind in KINDS if kind != "none"),
        LONG,
        "far",
    )


def linear_recovers(results: Results) -> Verdict:
    """Check that linear scaling regains the greatest share in a little more training.

    A share, because a scheme that lost more can gain more points.
    """
    findings, texts = {}, {}
    for theta in THETAS:
        before, after = (
            {kind: of.stretched(results, theta, kind, stage, LONG, "left") for kind in KINDS}
            for stage in ("zero_shot", "tuned")
        )
        shares = {kind: of.regained(results, theta, kind, LONG, "left") for kind in KINDS}
        others = zip(*(shares[kind] for kind in KINDS if kind != "linear"), strict=True)
        lead = Range.of(
            [linear - max(rest) for linear, rest in zip(shares["linear"], others, strict=True)]
        )
        room = min(1 - each.most for each in before.values())
        findings[theta] = less(0.0, lead) if room > NOISE else Unseen.AT_CEILING
        moves = (
            (
                f"{CALLED[kind]} {Range.of(shares[kind]).percent()}, from "
                f"{percent(before[kind].mean)} to {percent(after[kind].mean)}"
            )
            for kind in KINDS
        )
        texts[theta] = "; ".join(moves)
    verdict, moved = _over_thetas(results, findings, texts, "left")
    return verdict, (
        "share of the missing accuracy that is regained, and the accuracy before and after: "
        f"{moved}"
    )


def _each_theta(
    results: Results, finding: Callable[[float], Finding], length: int, question: str
) -> Verdict:
    """Return whether a finding holds for every theta, and the accuracies before more training."""
    texts = {}
    for theta in THETAS:
        by_theta = {
            CALLED[kind]: of.stretched(results, theta, kind, "zero_shot", length, question)
            for kind in KINDS
        }
        texts[theta] = listed(by_theta)
    return _over_thetas(results, {theta: finding(theta) for theta in THETAS}, texts, question)


def _over_thetas(
    results: Results, findings: dict[float, Finding], texts: dict[float, str], question: str
) -> Verdict:
    """Combine the findings of all thetas.

    A theta is NOT_LEARNT if a seed did not learn the question. Findings that differ are listed.
    """
    learnt = "recall" if question == "far" else question  # "far" is recall
    seen = {
        theta: finding
        if of.stretched(results, theta, "none", "zero_shot", SHORT, learnt).least >= LEARNT
        else Unseen.NOT_LEARNT
        for theta, finding in findings.items()
    }
    differ = len(set(seen.values())) > 1
    parts = (
        f"theta {theta:g}{f' ({said(seen[theta])})' if differ else ''}: {texts[theta]}"
        for theta in seen
    )
    return every(seen.values()), "; ".join(parts)
