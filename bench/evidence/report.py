"""Markdown report of the evaluation of evidence, and the picture of its deletion curves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from matplotlib import pyplot as plt

from bench.evidence import cost, planted
from bench.evidence.chunking import GAIN, RIGHT_DOCUMENT
from bench.evidence.deletion import RANDOM_ORDERS, SHARES
from bench.evidence.methods import DEPTHS, LENGTHS, OTHERS, PLACES, RANDOM, shown
from bench.frame.report import table
from bench.serving.plots import save

CRITERION = 1.3  # times the encoding alone, of late interaction evidence for 100 passages
INTERVALS = "In brackets: 95 % bootstrap intervals."
CHUNKING_COLUMNS = ("recall@1", "recall@5", "MRR@10", RIGHT_DOCUMENT)
Rows = Sequence[dict[str, Any]]


def page(run: dict[str, Any], picture: str) -> list[str]:
    """Return the lines of the page, of the parts that were measured.

    Args:
        run: the figures, by part.
        picture: name of the file of the deletion curves.
    """
    lines = ["# What evidence and span vectors find, and what they cost", ""]
    sections = {"planted": _planted, "deletion": _deletion, "chunking": _chunking, "cost": _cost}
    for name, section in sections.items():
        lines += section(run[name] | {"picture": picture}) if name in run else []
    return lines


def _origin(part: dict[str, Any]) -> list[str]:
    """Return how a part was measured."""
    return [f"`{part['command']}`, model {part['model']}, {part['machine']}.", ""]


def _planted(part: dict[str, Any]) -> list[str]:
    rows = part["rows"]
    lines = [
        "## Planted sentences: does the method find the answer?",
        "",
        *_origin(part),
        f"Each passage has {planted.SMALLEST} to {planted.LARGEST} sentences in random order. One "
        "of them is the",
        "answer. The others are of the same package, and of other functions. The texts are",
        "docstrings of packages and library modules that training held out. A method hits if the",
        "answer is among the sentences with the largest weights; ties are drawn. In the group",
        f'"{planted.DISJOINT}" query and answer have no word of {planted.LONG_WORD} or more '
        "letters in common;",
        f"words of one stem, or with the same first {planted.LONG_WORD} letters, count as common.",
        "BM25 takes the sentences of the passage as its collection. Distinct: the passage was",
        f"compared together with {OTHERS} passages of other cases. Passages that a model would",
        "cut are left out.",
        f"{INTERVALS} SHA-256 of the cases: `{part['digest']}`.",
        "",
    ]
    for model in dict.fromkeys(row["model"] for row in rows):
        lines += [
            f"### {model}",
            "",
            *_kinds([row for row in part["kinds"] if row["model"] == model]),
        ]
        for task, about in planted.TASKS.items():
            of_task = [row for row in rows if (row["model"], row["task"]) == (model, task)]
            lines += [f"{task.capitalize()}. {about}", ""] if of_task else []
            for group in dict.fromkeys(row["group"] for row in of_task):
                lines += [*_hits([row for row in of_task if row["group"] == group]), ""]
    return [*lines, *_no_better(part["kinds"]), *LIMITS]


def _kinds(rows: Rows) -> list[str]:
    kinds = (*LENGTHS, *PLACES)
    cells = [
        (
            *(row["name"], shown(row["all"]), shown(row["over random"], "+")),
            *(f"{row[kind]['mean']:.2f}" for kind in kinds),
        )
        for row in sorted(rows, key=lambda row: -row["all"]["mean"])
    ]
    heading = ("method", "hit@1", "over random", *kinds)
    return [
        f"All {rows[0]['cases']} cases; and by thirds of the answer's length, and of its place:",
        "",
        *table(heading, cells),
        "",
    ]


def _hits(rows: Rows) -> list[str]:
    columns = [name for depth in DEPTHS for name in (f"hit@{depth}", f"hit@{depth} over random")]
    cells = [
        (row["name"], *(shown(row[name], "+" if "over" in name else "") for name in columns))
        for row in rows
    ]
    return [
        f"Query and answer: {rows[0]['group']}; {rows[0]['cases']} cases.",
        "",
        *table(("method", *columns), cells),
    ]


def _no_better(rows: Rows) -> list[str]:
    """Return the methods whose gain over random may be none."""
    items = [
        f"- {row['model']}, {row['name']}: {shown(row['over random'], '+')}"
        for row in rows
        if row["name"] != RANDOM and row["over random"]["low"] <= 0
    ]
    none = ["- none"]
    return ["No better than random in hit@1 (the interval reaches 0):", "", *(items or none), ""]


LIMITS = [
    "Limits of these tasks:",
    "",
    "- docs-rope has 3.8 million weights. It was trained to match first sentences of docstrings",
    "  with words of code. It is no model of questions and answers.",
    "- A second sentence does not always continue the first. No reader would find every answer.",
    f"- Words of fewer than {planted.LONG_WORD} letters may be common in both groups. So BM25",
    "  finds some answers in the group without common words.",
    "- Distractors are drawn regardless of the words that they share with the query.",
    "- Weights that are sums over the tokens of a sentence favour long sentences; per token, short",
    "  ones. The columns by length show it.",
    "",
]


def _deletion(part: dict[str, Any]) -> list[str]:
    heading = ("model", "task", "group", "method", "cases")
    shares = [f"{share:.0%}" for share in (0, *SHARES)]
    rows = []
    for row in part["rows"]:
        points = [f"{point['mean']:.3f}" for point in row["curve"]]
        area = "" if row["name"] == RANDOM else shown(row["area"], "+")
        names = (row["model"], row["task"], row["group"], row["name"])
        rows.append((*names, str(row["cases"]), *points, area))
    return [
        "## Deletion curves: do the words with the largest weights carry the score?",
        "",
        *_origin(part),
        "The tokens of the words with the largest weights are hidden first: no token sees them,",
        "and pooling leaves them out. Each method hides as many tokens, whether its words are long",
        f"or short. Random: {RANDOM_ORDERS} random orders of the words. Area: the mean distance",
        f"below random from 0 to {SHARES[-1]:.0%} hidden; above 0 is better than random.",
        f"{INTERVALS} Occlusion hides one word at a time to find its weights, so it measures",
        "nearly what the curve measures.",
        "",
        f"![Score of the passage over the share of hidden tokens]({part['picture']})",
        "",
        *table((*heading, *shares, "area"), rows),
        "",
    ]


def _chunking(part: dict[str, Any]) -> list[str]:
    return [
        "## Late chunking: do span vectors help to find a section?",
        "",
        *_origin(part),
        f"{part['documents']} topics of `help()`, the language reference, of {part['sections']} "
        "sections in all.",
        f"Their median length is {part['tokens']['median']} tokens, the longest has "
        f"{part['tokens']['most']}; {part['beyond']} are longer than the",
        "model takes, and are encoded in overlapping windows. A query is the first plain sentence",
        "of a section, and is cut out of it. Every section of every document is a candidate.",
        f"SHA-256 of the sections: `{part['digest']}`. {INTERVALS}",
        "",
        *_metrics([row for row in part["rows"] if not row["name"].startswith(GAIN)], ""),
        "Gains, with intervals from drawing questions, and from drawing documents:",
        "",
        *_metrics([row for row in part["rows"] if row["name"].startswith(GAIN)], "+"),
        "The model was trained with texts of at most 128 tokens, and hidden tokens of these topics",
        "were part of its training. All kinds of vectors have that in common.",
        "",
    ]


def _metrics(rows: Rows, sign: str) -> list[str]:
    cells = [
        (
            *(row["group"], str(row["questions"]), row["name"]),
            *(shown(row[name], sign) for name in CHUNKING_COLUMNS),
        )
        for row in rows
    ]
    return [*table(("documents", "questions", "vectors", *CHUNKING_COLUMNS), cells), ""]


def _cost(part: dict[str, Any]) -> list[str]:
    lines = [
        "## Cost: a comparison beside encoding the same texts",
        "",
        *_origin(part),
        f"Passages of {cost.TOKENS} tokens, and a query of {part['query_tokens']}. Medians of "
        "interleaved rounds: milliseconds of a",
        f"call, and the ratio to {cost.ENCODE} in the same round, its least and largest. Other "
        "programs took",
        f"{100 * part['others']:.0f} % of the CPUs.",
        "",
    ]
    rows: Rows = part["rows"]
    for where, size in dict.fromkeys((row["place"], row["passages"]) for row in rows):
        lines += [f"### {where.capitalize()}, 1 query and {size} passages", ""]
        cells = [
            (
                *(row["name"], f"{row['ms']:.1f}", f"{row['ratio']:.2f}"),
                *(f"{row['least']:.2f} to {row['most']:.2f}", str(row["rounds"])),
            )
            for row in rows
            if (row["place"], row["passages"]) == (where, size)
        ]
        lines += [*table(("call", "ms", f"to {cost.ENCODE}", "range", "rounds"), cells), ""]
    return [*lines, *_criterion(rows), ""]


def _criterion(rows: Rows) -> Iterator[str]:
    """Yield the criterion of late interaction evidence, for the most passages of SIZES."""
    for row in rows:
        if row["name"] == cost.EVIDENCE and row["passages"] == max(cost.SIZES):
            met = "met" if row["ratio"] <= CRITERION else "NOT met"
            yield (
                f"Late interaction evidence, {row['place']}, {row['passages']} passages: "
                f"{row['ratio']:.2f} times {cost.ENCODE}, at most {CRITERION} wanted: {met}."
            )
            yield ""


DRAWN = {  # the best form of each method
    "span": "#2a9d5c",
    "contributions, per token": "#b3366b",
    "occlusion": "#c9772b",
    "occlusion, per token, at most 16 encodings": "#e6b422",
    "late interaction, distinct": "#1b6ca8",
    "attention": "#7a5195",
    RANDOM: "#888888",
}


def deletion_curves(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Draw the mean score over the share of hidden tokens, with its 95 % intervals."""
    models = list(dict.fromkeys(row["model"] for row in rows))
    panels = list(dict.fromkeys((row["task"], row["group"]) for row in rows))
    figure, axes = plt.subplots(
        len(models),
        len(panels),
        figsize=(3.6 * len(panels) + 0.8, 3.6 * len(models)),
        sharey="row",
        squeeze=False,
    )
    shares = [100 * share for share in (0.0, *SHARES)]
    for line, model in zip(axes, models, strict=True):
        for axis, (task, group) in zip(line, panels, strict=True):
            panel = (model, task, group)
            for row in (e for e in rows if (e["model"], e["task"], e["group"]) == panel):
                name, points = row["name"], row["curve"]
                if name not in DRAWN:
                    continue
                low, high = ([point[end] for point in points] for end in ("low", "high"))
                means = [point["mean"] for point in points]
                style, colour = "o--" if name == RANDOM else "o-", DRAWN[name]
                axis.plot(shares, means, style, color=colour, label=name, markersize=4)
                axis.fill_between(shares, low, high, color=colour, alpha=0.1, linewidth=0)
            axis.set_title(f"{model}, {task}:\n{group}", fontsize=10)
            axis.set_xlabel("tokens hidden, %")
            axis.grid(alpha=0.3)
            axis.spines[["top", "right"]].set_visible(False)
        line[0].set_ylabel("score of the passage")
    handles, names = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, names, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=4)
    save(figure, path)
