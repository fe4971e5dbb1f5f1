"""Predictions of the comparisons of one change each, of pruning, and of the causal model."""

from __future__ import annotations

from lab.experiments import causal, variants
from lab.page import figures as of
from lab.page.comparisons import removable, reversing, runs
from lab.page.figures import Results
from lab.page.verdicts import (
    LEARNT,
    NEAR,
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
)
from lab.results import Range, Run, select

CLOSE = 1.1  # perplexities whose ratio is below this count as equal


def concatenated(results: Results) -> Verdict:
    """Return whether reversal is learnt with added and with concatenated positions."""
    by_name = {name: _reversed(results, name) for name in ("plain", "concat 48", "concat 32")}
    return every(at_least(each, of.GOAL) for each in by_name.values()), listed(by_name)


def scaled(results: Results) -> Verdict:
    """Return whether the factor sqrt(d) on standard normal embeddings hides the positions."""
    by_name = {name: _reversed(results, name) for name in ("plain", "scaled")}
    learnt = by_name["plain"].least >= LEARNT
    finding = less(by_name["scaled"], by_name["plain"]) if learnt else Unseen.NOT_LEARNT
    return finding, listed(by_name)


def small_base(results: Results) -> Verdict:
    """Return whether a base of 100 answers "left" at the training length best."""
    names = ("base 100", "plain", "base 1e+06")
    by_name = {name: _neighbour(runs(results, name, task="recall")) for name in names}
    return every(better(by_name["base 100"], by_name[name]) for name in names[1:]), listed(by_name)


def one_head(results: Results) -> Verdict:
    """Return whether one head answers "left" as well as four, by seed."""
    one, four = (runs(results, variant, task="recall") for variant in ("heads 1", "plain"))
    by_name = {"one head": _neighbour(one), "four": _neighbour(four)}
    length = str(variants.ASKED["recall"][0])
    behind = Range.of(
        [
            b["accuracy"][length]["left"] - a["accuracy"][length]["left"]
            for a, b in zip(one, four, strict=True)
        ]
    )
    learnt = by_name["four"].least >= LEARNT
    return at_most(behind, NEAR) if learnt else Unseen.NOT_LEARNT, listed(by_name)


def better(one: Range, other: Range) -> Finding:
    """Return whether one accuracy is above the other; AT_CEILING if both are as good as can be."""
    return Unseen.AT_CEILING if min(one.least, other.least) >= of.GOAL else less(other, one)


def importance(results: Results) -> Verdict:
    """Return whether more heads can go in order of importance than in random order."""
    findings: list[Finding] = []
    figures = []
    for name, of_task in reversing(results).items():
        ranked, random = removable(of_task, "least first"), removable(of_task, "random")
        if ranked is None or random is None:
            findings.append(Unseen.NOT_LEARNT)
            figures.append(f"{name} not learnt")
        else:
            findings.append(less(random, ranked))
            figures.append(f"{name} {ranked.number(1)} against {random.number(1)} heads")
    return every(findings), "; ".join(figures)


def deeper(results: Results) -> Verdict:
    """Return whether six layers reverse better than two with RoPE."""
    two, six = (_reversed(results, f"layers {layers}") for layers in (2, variants.DEEP))
    return better(six, two), listed({"2 layers": two, f"{variants.DEEP} layers": six})


def marked_ends(results: Results) -> Verdict:
    """Return whether RoPE reverses sequences of varied length better with marked ends."""
    by_name = {
        name: _at(runs(results, "varied", task=task, scheme="rope"), variants.VARIED[1], "reverse")
        for name, task in (("without marks", "reverse"), ("with marks", "reverse marked"))
    }
    return better(by_name["with marks"], by_name["without marks"]), listed(by_name)


def order_without_positions(results: Results) -> Verdict:
    """Return whether a causal model without positions is within CLOSE of one with RoPE."""
    by_scheme = {
        scheme: _perplexity(results, scheme, causal.TRAINED) for scheme in ("none", "rope")
    }
    ratio = Range.of(
        [
            one["perplexity"][str(causal.TRAINED)] / other["perplexity"][str(causal.TRAINED)]
            for one, other in zip(
                *(select(results, "causal", "next", scheme) for scheme in by_scheme), strict=True
            )
        ]
    )
    figures = ", ".join(f"{scheme} {each.number(2)}" for scheme, each in by_scheme.items())
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
    values = of.unless_refused(select(results, "causal", "next", scheme), "perplexity", length)
    assert values is not None  # asked at the training length only
    return values


def _reversed(results: Results, variant: str) -> Range:
    return _at(
        [run for run in runs(results, variant) if run["task"] == "reverse"],
        variants.REVERSED,
        "reverse",
    )


def _neighbour(selected: list[Run]) -> Range:
    return _at(selected, variants.ASKED["recall"][0], "left")


def _at(selected: list[Run], length: int, question: str) -> Range:
    measured = of.unless_refused(selected, "accuracy", length, question)
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
