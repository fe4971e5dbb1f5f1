"""What was expected, and whether it came out so. The verdicts are computed, whatever they are."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from model.lab import figures as of
from model.lab.extrapolation import LENGTHS
from model.lab.figures import Results
from model.lab.pictures.measured import CALLED
from model.lab.results import Range, select
from model.lab.scaling import FACTOR, KINDS, THETAS, TRAINED
from model.lab.training import SCHEMES

SHORT, LONG = TRAINED[1], TRAINED[1] * FACTOR
NEAR = 0.05  # accuracies less far apart count as alike
NOISE = 0.01  # of an accuracy of thousands of answers
LEARNT = 0.8  # of what a scheme answers rightly at the length of its training; who answers less has nothing to lose
Verdict = tuple[
    bool | None, str
]  # whether it holds, None where a scheme has not learnt what it is about; and the figures
NOTES, CRITERION, OURS = "notes", "criterion", "ours"


@dataclasses.dataclass(frozen=True)
class Prediction:
    """One of them.

    Attributes:
        text: what was expected.
        source: NOTES, from before the lab; CRITERION, what it was asked to reach; OURS, while it was built.
        check: whether it holds in some results.
    """

    text: str
    source: str
    check: Callable[[Results], Verdict]


def _learnt(results: Results) -> Verdict:
    found = {scheme: _reversed(results, scheme) for scheme in ("learned", "sinusoidal")}
    return all(each.least >= of.GOAL for each in found.values()), _listed(found)


def _nowhere(results: Results) -> Verdict:
    found, lines = _reversed(results, "none"), results["baselines"]
    holds = lines["multiset"] <= found.least and found.most <= lines["most frequent"] + NOISE
    return holds, f"{found.percent()}; the lines: {_percent(lines['multiset'])} and {_percent(lines['most frequent'])}"


def _copying(results: Results) -> Verdict:
    found = {scheme: of.copied(results, scheme) for scheme in SCHEMES}
    return all(each.least >= of.GOAL for each in found.values()), _listed(found)


def _blind(results: Results) -> Verdict:
    line = results["baselines"]["multiset"]
    found = {scheme: _reversed(results, scheme, measure="blind") for scheme in ("learned", "sinusoidal")}
    holds = all(max(abs(each.least - line), abs(each.most - line)) <= NEAR for each in found.values())
    return holds, f"{_listed(found)}; the line: {_percent(line)}"


def _marks(results: Results) -> Verdict:
    found = {"rope": _reversed(results, "rope"), "with the ends marked": _reversed(results, "rope", marked=True)}
    return found["with the ends marked"].least > found["rope"].most, _listed(found)


def _alibi_lower(results: Results) -> Verdict:
    found = {scheme: _reversed(results, scheme) for scheme in ("alibi", "rope", "sinusoidal", "learned")}
    return found["alibi"].most < min(each.least for name, each in found.items() if name != "alibi"), _listed(found)


def _mirror(results: Results) -> Verdict:
    found = of.mirrored_head(results, "learned")
    return found.least >= 0.8, found.percent()


def _flat(results: Results) -> Verdict:
    schemes = ("rope", "alibi signed")
    lost = [of.lost(run, "left") for scheme in schemes for run in select(results, "extrapolation", "recall", scheme)]
    return _if_learnt(results, schemes, "left", max(lost) <= NEAR)


def _symmetric(results: Results) -> Verdict:
    left, right = of.over_lengths(results, "alibi", "left"), of.mirrored_answers(results, "alibi")
    torn = abs(left[0].mean - right.mean) <= NEAR and left[0].least > of.floor(results, "left", LENGTHS[0]) + NEAR
    holds = torn and max(each.most for each in left) <= 0.5 + NEAR
    return holds, f"{_series({'alibi': left})}; answers that are the right neighbour: {right.percent()}"


def _refuses(results: Results) -> Verdict:
    found = [of.at_length(results, "learned", "left", length) for length in LENGTHS]
    return found[0] is not None and not any(found[1:]), f'"{of.refusal(results, "learned", LENGTHS[-1])}"'


def _sinusoidal(results: Results) -> Verdict:
    left = of.over_lengths(results, "sinusoidal", "left")
    return _if_learnt(results, ("sinusoidal",), "left", left[-1].most < left[0].least / 2)


def _decay(results: Results) -> Verdict:
    schemes = ("sinusoidal", "rope", "alibi signed")
    found = [of.over_lengths(results, scheme, "recall") for scheme in schemes]
    return _if_learnt(results, schemes, "recall", all(each[-1].most < each[0].least - NEAR for each in found))


def _rope_most(results: Results) -> Verdict:
    schemes = ("sinusoidal", "rope", "alibi signed")
    kept = {scheme: of.kept(results, scheme, "recall") for scheme in schemes}
    return _if_learnt(results, schemes, "recall", kept["rope"] < min(kept["sinusoidal"], kept["alibi signed"]))


def _distance(results: Results) -> Verdict:
    return _if_learnt(results, ("alibi signed",), "recall", of.kept(results, "alibi signed", "recall") < 0.5)


def _if_learnt(results: Results, schemes: Sequence[str], question: str, holds: bool) -> Verdict:
    """None where one of the schemes has not learnt the question at the length of the training."""
    found = {scheme: of.over_lengths(results, scheme, question) for scheme in schemes}
    learnt = all(each[0].least >= LEARNT for each in found.values())
    return holds if learnt else None, _series(found)


def _linear_hurts(results: Results) -> Verdict:
    return _each_theta(results, lambda short: short["linear"].most < short["none"].least - NEAR, SHORT, "left")


def _local_kept(results: Results) -> Verdict:
    def holds(short: dict[str, Range]) -> bool:
        return all(short[kind].mean >= short["none"].mean - NEAR for kind in ("ntk", "yarn"))

    return _each_theta(results, holds, SHORT, "left")


def _none_worst(results: Results) -> Verdict:
    def holds(far: dict[str, Range]) -> bool:
        return all(far["none"].mean < far[kind].mean - NOISE for kind in KINDS if kind != "none")

    return _each_theta(results, holds, LONG, "far")


def _linear_recovers(results: Results) -> Verdict:
    verdicts, said = [], []
    for theta in THETAS:
        before, after = (
            {kind: of.stretched(results, theta, kind, stage, LONG, "left").mean for kind in KINDS}
            for stage in ("zero_shot", "tuned")
        )
        verdicts.append(max(KINDS, key=lambda kind: after[kind] - before[kind]) == "linear")
        moves = (f"{CALLED[kind]} {_percent(before[kind])} → {_percent(after[kind])}" for kind in KINDS)
        said.append(f"theta {theta:g}: " + ", ".join(moves))
    return all(verdicts), "; ".join(said)


def _each_theta(results: Results, holds: Callable[[dict[str, Range]], bool], length: int, question: str) -> Verdict:
    """Whether something holds of the accuracies by stretching, whatever theta; None where "left" was not learnt."""
    verdicts, learnt, said = [], [], []
    for theta in THETAS:
        found = {kind: of.stretched(results, theta, kind, "zero_shot", length, question) for kind in KINDS}
        verdicts.append(holds(found))
        learnt.append(of.stretched(results, theta, "none", "zero_shot", SHORT, "left").least >= LEARNT)
        said.append(f"theta {theta:g}: {_listed({CALLED[kind]: each for kind, each in found.items()})}")
    return all(verdicts) if all(learnt) else None, "; ".join(said)


def _reversed(results: Results, scheme: str, *, measure: str = "accuracy", marked: bool = False) -> Range:
    found = of.reversed_rightly(results, scheme, measure=measure, marked=marked)
    assert found is not None  # asked of what was trained
    return found


def _percent(value: float) -> str:
    return f"{100 * value:.1f}"


def _listed(found: dict[str, Range]) -> str:
    return ", ".join(f"{name} {each.percent()}" for name, each in found.items())


def _series(found: dict[str, list[Range]]) -> str:
    """Means by length."""
    return "; ".join(f"{name} {' → '.join(_percent(each.mean) for each in ranges)}" for name, ranges in found.items())


PREDICTIONS = (
    Prediction("Copying needs no positions: every scheme does it.", OURS, _copying),
    Prediction("Reversal of a fixed length: learned and sinusoidal reach 99 %.", CRITERION, _learnt),
    Prediction(
        "Without positions, reversal stays between the two lines of who knows symbols and not places.", NOTES, _nowhere
    ),
    Prediction(
        "Positions taken away at test time: within 5 points of naming one of the other symbols.", CRITERION, _blind
    ),
    Prediction("RoPE reverses better with the ends marked.", NOTES, _marks),
    Prediction("Symmetric ALiBi reverses worse than RoPE, sinusoidal and learned.", NOTES, _alibi_lower),
    Prediction("A head of the reversing model has 80 % of its attention on the mirrored token.", CRITERION, _mirror),
    Prediction(
        "The left neighbour: RoPE and signed ALiBi are flat, no more than 5 points lost at 16 times the length.",
        NOTES,
        _flat,
    ),
    Prediction(
        "The left neighbour: symmetric ALiBi fails at any length, torn between left and right.", NOTES, _symmetric
    ),
    Prediction("The left neighbour: sinusoidal collapses, to less than half.", NOTES, _sinusoidal),
    Prediction("Learned positions refuse what is longer than their table.", NOTES, _refuses),
    Prediction("Recall: every scheme that learnt it decays with length.", NOTES, _decay),
    Prediction("Recall: RoPE decays most.", NOTES, _rope_most),
    Prediction("Recall: distance hurts signed ALiBi, which keeps less than half.", NOTES, _distance),
    Prediction(
        "Linear interpolation hurts the left neighbour at once, at the length of the training.", NOTES, _linear_hurts
    ),
    Prediction(
        "Linear interpolation recovers most in a little more training (the left neighbour at 4 times the length).",
        NOTES,
        _linear_recovers,
    ),
    Prediction("NTK-aware and YaRN keep the left neighbour at the length of the training.", NOTES, _local_kept),
    Prediction("Recall from further away than any in training: worst without stretching.", NOTES, _none_worst),
)
