"""What was expected before anything was trained, and whether it came out so. The verdicts are computed, whatever they are."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from model.lab import figures as of
from model.lab.extrapolation import LENGTHS
from model.lab.figures import Results
from model.lab.pictures.measured import CALLED
from model.lab.results import Range
from model.lab.scaling import FACTOR, KINDS, THETAS, TRAINED
from model.lab.training import SCHEMES

SHORT, LONG = TRAINED[1], TRAINED[1] * FACTOR
NEAR = 0.05  # accuracies less far apart count as alike
NOISE = 0.01  # of an accuracy of some 30,000 answers, and more
Verdict = tuple[bool, str]  # whether it holds, and the figures


@dataclasses.dataclass(frozen=True)
class Prediction:
    """One of them.

    Attributes:
        text: what was expected.
        source: of the expectation.
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
    found = {scheme: _over_lengths(results, scheme, "left") for scheme in ("rope", "alibi signed")}
    return all(each[0].least - each[-1].least <= NEAR for each in found.values()), _series(found)


def _symmetric(results: Results) -> Verdict:
    left, right = _over_lengths(results, "alibi", "left"), of.mirrored_answers(results, "alibi")
    holds = max(each.most for each in left) <= 0.5 + NEAR
    return holds, f"{_series({'alibi': left})}; answers that are the right neighbour: {right.percent()}"


def _refuses(results: Results) -> Verdict:
    found = [of.at_length(results, "learned", "left", length) for length in LENGTHS]
    return found[0] is not None and not any(found[1:]), f'"{of.refusal(results, "learned", LENGTHS[-1])}"'


def _sinusoidal(results: Results) -> Verdict:
    found = {question: _over_lengths(results, "sinusoidal", question) for question in ("left", "recall")}
    return all(each[-1].most < each[0].least / 2 for each in found.values()), _series(found)


def _decay(results: Results) -> Verdict:
    found = {
        scheme: _over_lengths(results, scheme, "recall") for scheme in ("sinusoidal", "rope", "alibi", "alibi signed")
    }
    return all(each[-1].most < each[0].least - NEAR for each in found.values()), _series(found)


def _dilution(results: Results) -> Verdict:
    lost = {}
    for scheme in ("rope", "alibi", "alibi signed"):
        found = _over_lengths(results, scheme, "recall")
        lost[scheme] = Range.of([found[0].mean - found[-1].mean])
    return lost["rope"].mean > max(lost["alibi"].mean, lost["alibi signed"].mean), f"points lost: {_listed(lost)}"


def _linear_hurts(results: Results) -> Verdict:
    return _each_theta(
        results, lambda short: short["linear"].most < short["none"].least - NEAR, "zero_shot", "left", SHORT
    )


def _linear_recovers(results: Results) -> Verdict:
    gained, said = [], []
    for theta in THETAS:
        found = {
            kind: of.stretched(results, theta, kind, "tuned", LONG, "recall").mean
            - of.stretched(results, theta, kind, "zero_shot", LONG, "recall").mean
            for kind in KINDS
        }
        gained.append(max(found, key=lambda kind: found[kind]) == "linear")
        said.append(
            f"theta {theta:g}: " + ", ".join(f"{CALLED[kind]} {100 * value:+.1f}" for kind, value in found.items())
        )
    return all(gained), "; ".join(said)


def _local_kept(results: Results) -> Verdict:
    def holds(short: dict[str, Range]) -> bool:
        return all(short[kind].mean >= short["none"].mean - NEAR for kind in ("ntk", "yarn"))

    return _each_theta(results, holds, "zero_shot", "left", SHORT)


def _none_worst(results: Results) -> Verdict:
    def holds(far: dict[str, Range]) -> bool:
        return all(far["none"].mean <= far[kind].mean for kind in KINDS)

    return _each_theta(results, holds, "zero_shot", "far", LONG)


def _each_theta(
    results: Results, holds: Callable[[dict[str, Range]], bool], stage: str, question: str, length: int
) -> Verdict:
    """Whether something holds of the accuracies by stretching, whatever theta."""
    verdicts, said = [], []
    for theta in THETAS:
        found = {kind: of.stretched(results, theta, kind, stage, length, question) for kind in KINDS}
        verdicts.append(holds(found))
        said.append(f"theta {theta:g}: {_listed({CALLED[kind]: each for kind, each in found.items()})}")
    return all(verdicts), "; ".join(said)


def _reversed(results: Results, scheme: str, *, measure: str = "accuracy", marked: bool = False) -> Range:
    found = of.reversed_rightly(results, scheme, measure=measure, marked=marked)
    assert found is not None  # asked of what was trained
    return found


def _over_lengths(results: Results, scheme: str, question: str) -> list[Range]:
    """At each length that is accepted."""
    found = [of.at_length(results, scheme, question, length) for length in LENGTHS]
    return [each for each in found if each is not None]


def _percent(value: float) -> str:
    return f"{100 * value:.1f}"


def _listed(found: dict[str, Range]) -> str:
    return ", ".join(f"{name} {each.percent()}" for name, each in found.items())


def _series(found: dict[str, list[Range]]) -> str:
    """Means by length."""
    return "; ".join(f"{name} {' → '.join(_percent(each.mean) for each in ranges)}" for name, ranges in found.items())


NOTES = "our own, before the first training"
PREDICTIONS = (
    Prediction("Copying needs no positions: every scheme does it.", NOTES, _copying),
    Prediction("Reversal of a fixed length: learned and sinusoidal reach 99 %.", NOTES, _learnt),
    Prediction(
        "Without positions, reversal stays between the two lines of who knows the symbols and not their places.",
        NOTES,
        _nowhere,
    ),
    Prediction("Positions taken away at test time: within 5 points of naming one of the other symbols.", NOTES, _blind),
    Prediction(
        "RoPE reverses better where the ends are marked: distances alone do not say where a token stands.",
        NOTES,
        _marks,
    ),
    Prediction("Symmetric ALiBi reverses worse than RoPE, sinusoidal and learned.", NOTES, _alibi_lower),
    Prediction("A head of the reversing model has 80 % of its attention on the mirrored token.", NOTES, _mirror),
    Prediction(
        "The left neighbour: RoPE and signed ALiBi lose no more than 5 points at 16 times the length.", NOTES, _flat
    ),
    Prediction(
        "The left neighbour: symmetric ALiBi cannot tell it from the right one, at any length.", NOTES, _symmetric
    ),
    Prediction("Learned positions refuse what is longer than their table.", NOTES, _refuses),
    Prediction("Sinusoidal positions lose more than half at 16 times the length.", NOTES, _sinusoidal),
    Prediction("Recall: every scheme decays with length.", NOTES, _decay),
    Prediction(
        "Recall: RoPE decays most, attention being diluted; ALiBi, which fades with distance, less.", NOTES, _dilution
    ),
    Prediction(
        "Linear interpolation hurts the left neighbour at once, at the length of the training.",
        "Chen et al. 2023",
        _linear_hurts,
    ),
    Prediction("NTK-aware and YaRN keep it.", "bloc97 2023; Peng et al. 2023", _local_kept),
    Prediction("Linear interpolation gains most from a little more training.", "Chen et al. 2023", _linear_recovers),
    Prediction("Recall from further away than any in training: worst without stretching.", NOTES, _none_worst),
)
