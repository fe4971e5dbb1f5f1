"""Predictions of the comparisons of one change each, of pruning, and of the causal model."""

from __future__ import annotations

from headlight_model.lab.experiments import causal, variants
from headlight_model.lab.page import figures as of
from headlight_model.lab.page.comparisons import accuracy, perplexity, removable, runs
from headlight_model.lab.page.figures import Results
from headlight_model.lab.page.verdicts import (
    NEAR,
    OURS,
    Prediction,
    Verdict,
    at_least,
    at_most,
    every,
    less,
    listed,
)
from headlight_model.lab.results import Range, Run, select

CLOSE = 1.1  # perplexities whose ratio is below this count as equal


def concatenated(results: Results) -> Verdict:
    """Return whether reversal is learnt with added and with concatenated positions."""
    found = {name: _reversed(results, name) for name in ("plain", "concat 48", "concat 32")}
    return every(at_least(each, of.GOAL) for each in found.values()), listed(found)


def scaled(results: Results) -> Verdict:
    """Return whether the factor sqrt(d) on standard normal embeddings hides the positions."""
    found = {name: _reversed(results, name) for name in ("plain", "scaled")}
    return every(
        (at_least(found["plain"], of.GOAL), less(found["scaled"], found["plain"]))
    ), listed(found)


def small_base(results: Results) -> Verdict:
    """Return whether a base of 100 answers "left" at the training length best."""
    found = {
        name: _neighbour(runs(results, name, task="recall"))
        for name in ("base 100", "plain", "base 1e+06")
    }
    return every(less(found[name], found["base 100"]) for name in ("plain", "base 1e+06")), listed(
        found
    )


def one_head(results: Results) -> Verdict:
    """Return whether one head answers "left" as well as four."""
    found = {
        name: _neighbour(runs(results, variant, task="recall"))
        for name, variant in (("one head", "heads 1"), ("four", "plain"))
    }
    return less(found["four"].mean - NEAR, found["one head"]), listed(found)


def importance(results: Results) -> Verdict:
    """Return whether more heads can go in order of importance than in random order."""
    models = {
        scheme: select(results, "reversal", "reverse", scheme)
        for scheme in ("sinusoidal", "learned", "rope")
    }
    findings, figures = [], []
    for name, found in models.items():
        ranked, random = removable(found, "least first"), removable(found, "random")
        findings.append(less(random, ranked))
        figures.append(f"{name} {ranked.number(1)} against {random.number(1)} heads")
    return every(findings), "; ".join(figures)


def deeper(results: Results) -> Verdict:
    """Return whether six layers reverse better than two with RoPE."""
    found = {
        f"{layers} layers": _reversed(results, f"layers {layers}") for layers in (2, variants.DEEP)
    }
    return less(*found.values()), listed(found)


def marked_ends(results: Results) -> Verdict:
    """Return whether RoPE reverses sequences of varied length better with marked ends."""
    found = {
        name: _at(runs(results, "varied", task=task, scheme="rope"), variants.VARIED[1], "reverse")
        for name, task in (("without marks", "reverse"), ("with marks", "reverse marked"))
    }
    return less(*found.values()), listed(found)


def order_without_positions(results: Results) -> Verdict:
    """Return whether a causal model without positions is within CLOSE of one with RoPE."""
    found = {scheme: _perplexity(results, scheme, causal.TRAINED) for scheme in ("none", "rope")}
    ratio = Range.of(
        [
            one["perplexity"][str(causal.TRAINED)] / other["perplexity"][str(causal.TRAINED)]
            for one, other in zip(
                *(select(results, "causal", "next", scheme) for scheme in found), strict=True
            )
        ]
    )
    figures = ", ".join(f"{scheme} {each.number(2)}" for scheme, each in found.items())
    return at_most(ratio, CLOSE), f"perplexity: {figures}"


def longer_text(results: Results) -> Verdict:
    """Return whether, at 4 times the length, only sinusoidal positions are clearly worse."""
    growth = {
        scheme: Range.over(select(results, "causal", "next", scheme), _growth)
        for scheme in ("sinusoidal", "alibi")
    }
    finding = every((less(CLOSE, growth["sinusoidal"]), at_most(growth["alibi"], CLOSE)))
    figures = ", ".join(f"{scheme} {each.number(2)}" for scheme, each in growth.items())
    return finding, f"perplexity at 512, as a multiple of that at 128: {figures}"


def _growth(run: Run) -> float:
    first, last = (run["perplexity"][str(length)] for length in causal.LENGTHS)
    return float(last / first)


def _perplexity(results: Results, scheme: str, length: int) -> Range:
    found = perplexity(select(results, "causal", "next", scheme), length)
    assert found is not None  # asked at the training length only
    return found


def _reversed(results: Results, variant: str) -> Range:
    return _at(
        [run for run in runs(results, variant) if run["task"] == "reverse"],
        variants.REVERSED,
        "reverse",
    )


def _neighbour(found: list[Run]) -> Range:
    return _at(found, variants.ASKED["recall"][0], "left")


def _at(found: list[Run], length: int, question: str) -> Range:
    measured = accuracy(found, length, question)
    assert measured is not None  # asked at lengths of the training only
    return measured


PREDICTIONS = (
    Prediction(
        "Reversal is learnt with added and with concatenated positions.",
        OURS,
        concatenated,
    ),
    Prediction(
        "√d on standard normal embeddings hides sinusoidal positions: reversal is worse.",
        OURS,
        scaled,
    ),
    Prediction(
        "Texts of 32 tokens: the base 100 is better than 10,000 and 1,000,000 at the left "
        "neighbour.",
        OURS,
        small_base,
    ),
    Prediction("One head names the left neighbour as well as four.", OURS, one_head),
    Prediction(
        "More heads can be removed in order of importance than in random order.",
        OURS,
        importance,
    ),
    Prediction("Six layers reverse better than two with RoPE.", OURS, deeper),
    Prediction("Varied length: RoPE reverses better with the ends marked.", OURS, marked_ends),
    Prediction(
        "A causal model without positions is within 10 % of the perplexity of RoPE.",
        OURS,
        order_without_positions,
    ),
    Prediction(
        "A causal model at 4 times its length: sinusoidal is more than 10 % worse, ALiBi is not.",
        OURS,
        longer_text,
    ),
)
