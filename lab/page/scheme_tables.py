"""Tables and sentences of the page that compare the position schemes."""

from __future__ import annotations

import math

from lab.exact.properties import PROPERTIES
from lab.experiments.extrapolation import LENGTHS, TRAINED
from lab.experiments.scaling import KINDS
from lab.page import figures as of
from lab.page.figures import Results
from lab.page.markdown_tables import steps_text, table
from lab.page.predictions_scaling import LONG, SHORT
from lab.page.verdicts import percent
from lab.pictures.measured import CALLED
from lab.results import Range
from lab.training import SCHEMES

WORTH_SAYING = 0.005  # smallest standard error to print; below it the range over seeds counts
NAMES = {
    "none": "no positions",
    "sinusoidal": "sinusoidal positions",
    "learned": "learned positions",
    "rope": "RoPE",
    "alibi": "symmetric ALiBi",
    "alibi signed": "signed ALiBi",
}  # of the schemes, in a sentence
ASKED = {
    "left": "naming the left neighbour",
    "recall": "recall, the symbol that followed a key earlier",
}


def properties(results: Results) -> str:
    """Return the table of properties by scheme: distance from holding, bold if it holds."""
    rows = results["properties"]
    schemes = list(dict.fromkeys(row["scheme"] for row in rows))
    by_name = {(row["property"], row["scheme"]): row for row in rows}
    lines = []
    for name, each in PROPERTIES.items():
        cells = [by_name.get((name, scheme)) for scheme in schemes]
        lines.append(
            [
                each.text,
                *(
                    "–" if cell is None else _cell(cell["delta"], holds=cell["holds"])
                    for cell in cells
                ),
            ]
        )
    return table(["", *schemes], lines)


def reversal(results: Results) -> str:
    """Return the table of copying and reversing, by scheme."""
    lines = []
    for scheme in SCHEMES:
        marked = of.reversed_rightly(results, scheme, marked=True)
        plain, blind = (
            of.reversed_rightly(results, scheme),
            of.reversed_rightly(results, scheme, measure="blind"),
        )
        after = of.learnt_after(results, "reverse", scheme)
        lines.append(
            [
                scheme,
                *map(range_text, (of.copied(results, scheme), plain, blind, marked)),
                steps_text(after),
            ]
        )
    return table(
        [
            "right tokens, % (–: not trained)",
            "copy",
            "reverse",
            "reverse, blinded",
            "reverse, ends marked",
            "steps until reverse has 99 %",
        ],
        lines,
    )


def heads(results: Results) -> str:
    """Return the table of the heads of the reversing models."""
    lines = [
        [
            scheme,
            of.mirrored_head(results, scheme).percent(),
            of.dearest_head(results, scheme).percent(),
        ]
        for scheme in SCHEMES
    ]
    return table(
        [
            "",
            "largest share of a head's attention on the mirrored token, %",
            "largest loss of accuracy by removing one head, points",
        ],
        lines,
    )


def lengths(results: Results, question: str) -> str:
    """Return the table of accuracy by length, with the number of questions."""
    titles = [f"{length} ({length // TRAINED[1]}×)" for length in LENGTHS]
    lines = [
        [scheme, *(_length(results, scheme, question, length) for length in LENGTHS)]
        for scheme in SCHEMES
    ]
    lines.append(
        [
            "*no positions*",
            *(f"*{percent(of.floor(results, question, length))}*" for length in LENGTHS),
        ]
    )
    counts = (of.question_count(results, "extrapolation", question, length) for length in LENGTHS)
    lines.append(["*questions*", *(f"*{count:,}*" for count in counts)])
    return table(["", *titles], lines)


def distance(results: Results, name: str, scheme: str) -> float:
    """Return the distance of a scheme from holding a property."""
    [row] = [
        row for row in results["properties"] if (row["property"], row["scheme"]) == (name, scheme)
    ]
    return float(row["delta"])


def longest(results: Results, question: str) -> str:
    """Return the means at the training length and at the greatest, of two schemes."""
    moves = []
    for scheme in ("sinusoidal", "rope"):
        values = of.over_lengths(results, scheme, question)
        moves.append(f"{NAMES[scheme]} {percent(values[0].mean)} → {percent(values[-1].mean)} %")
    return ", ".join(moves)


def few_keys(results: Results) -> str:
    """Return the accuracy on the left neighbour at the greatest length, with few keys."""
    by_scheme = {
        scheme: of.at_length(results, scheme, "left, few keys", LENGTHS[-1]) for scheme in SCHEMES
    }
    return ", ".join(
        f"{scheme} {each.percent()}" for scheme, each in by_scheme.items() if each is not None
    )


def furthest(results: Results, question: str) -> str:
    """Return a clause with the best scheme at the greatest length, and its accuracy.

    If it is not above the floor by more than noise, the clause says so instead.
    """
    by_scheme = {scheme: of.at_length(results, scheme, question, LENGTHS[-1]) for scheme in SCHEMES}
    best = max(
        (scheme for scheme in SCHEMES if by_scheme[scheme]),
        key=lambda scheme: _mean(by_scheme[scheme]),
    )
    if not of.above_floor(results, best, question, LENGTHS[-1]):
        return (
            "no scheme is better than without positions "
            f"({percent(of.floor(results, question, LENGTHS[-1]))} %) at {ASKED[question]}"
        )
    return (
        f"{NAMES[best]} is best at {ASKED[question]}: "
        f"{_length(results, best, question, LENGTHS[-1])} %"
    )


def _mean(value: Range | None) -> float:
    return -math.inf if value is None else value.mean


def scaling(results: Results, theta: float) -> str:
    """Return the table of scaled rotary positions."""
    columns = [(SHORT, "left"), (SHORT, "recall"), (LONG, "left"), (LONG, "recall"), (LONG, "far")]
    lines = []
    for kind in KINDS:
        for stage, title in (("zero_shot", ""), ("tuned", ", 100 steps later")):
            cells = [
                of.stretched(results, theta, kind, stage, length, question).percent()
                for length, question in columns
            ]
            lines.append([CALLED[kind] + title, *cells])
    return table(
        [
            f"theta = {theta:g}; right answers, %",
            *(
                f"{question} at {length}{' tokens' if question == 'left' else ''}"
                for length, question in columns
            ),
        ],
        lines,
    )


def range_text(value: Range | None) -> str:
    """Format a range of shares; a dash if nothing was trained."""
    return "–" if value is None else value.percent()


def _length(results: Results, scheme: str, question: str, length: int) -> str:
    value = of.at_length(results, scheme, question, length)
    if value is None:
        return "refused"
    error = of.sampling_error(
        value.mean, of.question_count(results, "extrapolation", question, length)
    )
    return f"{value.percent()} ± {percent(error)}" if error >= WORTH_SAYING else value.percent()


def worst_error(results: Results, question: str) -> str:
    """Return the largest sampling error after scaling, at the greatest length: that of 50 %."""
    count = of.question_count(results, "scaling", question, LONG)
    return f"{percent(of.sampling_error(0.5, count))} points on {count:,} questions"


def _cell(delta: float, *, holds: bool) -> str:
    return f"**{delta:.0e}**".replace("0e+00", "0") if holds else f"{delta:.2g}"
