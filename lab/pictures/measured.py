"""Plots of the trained models: accuracy over steps and lengths, and scaled rotary positions.

Drawn from results.json alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lab.experiments import extrapolation, scaling
from lab.page.figures import floor
from lab.pictures.style import (
    GREY,
    SERIES,
    SMALL,
    band,
    figure,
    legend_below,
    lengths,
    mark,
    save,
    spread,
)
from lab.results import select
from lab.training import SCHEMES

Results = Mapping[str, Any]
PERCENT = 100.0
CALLED = {"none": "not stretched", "linear": "linear", "ntk": "NTK-aware", "yarn": "YaRN"}
QUESTIONS = {"left": "the left neighbour", "recall": "what followed the same key earlier"}


def draw(results: Results, folder: Path) -> list[Path]:
    """Draw all of them into a folder. Return their paths."""
    return [
        reversal(results, folder / "reversal.png"),
        learning(results, folder / "learning.png"),
        extrapolated(results, folder / "extrapolation.png"),
        stretched(results, folder / "scaling.png"),
    ]


def reversal(results: Results, path: Path) -> Path:
    """Draw the accuracy of reversal as trained, blinded at test time, and with the ends marked.

    Each is a point with its range over seeds.
    """
    made, [[axes]] = figure(height=3.8)
    for at, scheme in enumerate(SCHEMES):
        plain, marked = (
            select(results, "reversal", "reverse", scheme),
            select(results, "reversal", "reverse marked", scheme),
        )
        spread(axes, at - 0.2, _percent(plain, "accuracy"), "as trained", SERIES[0])
        spread(
            axes,
            at,
            _percent(plain, "blind"),
            "the same, without positions at test time",
            SERIES[1],
        )
        if marked:
            spread(
                axes,
                at + 0.2,
                _percent(marked, "accuracy"),
                "trained with the ends marked",
                SERIES[2],
            )
    lines = {
        "multiset": "naming one of the other symbols",
        "most frequent": "naming the most frequent of them",
    }
    for (name, text), dash in zip(lines.items(), (":", "--"), strict=True):
        axes.axhline(
            PERCENT * results["baselines"][name],
            color=GREY,
            linestyle=dash,
            linewidth=1.4,
            label=text,
        )
    axes.set_xticks(range(len(SCHEMES)), SCHEMES)
    axes.set_ylabel("tokens reversed rightly, %")
    axes.set_ylim(-2, 104)
    handles, labels = axes.get_legend_handles_labels()
    once = dict(zip(labels, handles, strict=True))
    made.legend(
        list(once.values()),
        list(once),
        loc="outside lower center",
        ncols=2,
        frameon=False,
        fontsize=SMALL,
    )
    return save(made, path)


def learning(results: Results, path: Path) -> Path:
    """Draw accuracy over steps, on sequences new to the model: copying and reversing."""
    made, [row] = figure(1, 2, height=3.6, share_y=True)
    for axes, task in zip(row, ("copy", "reverse"), strict=True):
        for scheme in SCHEMES:
            curves = np.array(
                [each["curve"] for each in select(results, "reversal", task, scheme)]
            )  # [seeds, points, 2]
            band(axes, curves[0, :, 0], PERCENT * curves[:, :, 1], scheme)
            axes.lines[-1].set(markevery=max(1, curves.shape[1] // 8))
        axes.set_title(task)
        axes.set_xlabel("steps of 64 sequences of 16 tokens")
    row[0].set_ylabel("right answers, %")
    legend_below(made, row[1], len(SCHEMES))
    return save(made, path)


def extrapolated(results: Results, path: Path) -> Path:
    """Draw accuracy by length, up to sixteen times the training length."""
    made, [row] = figure(1, 2, height=3.8, share_y=True)
    at = extrapolation.LENGTHS
    for axes, question in zip(row, QUESTIONS, strict=True):
        for scheme in SCHEMES:
            runs = select(results, "extrapolation", "recall", scheme)
            values = [
                [_accuracy(each["accuracy"][str(length)], question) for length in at]
                for each in runs
            ]
            band(axes, at, values, scheme)
        floors = [PERCENT * floor(results, question, length) for length in at]
        axes.plot(at, floors, color=GREY, linewidth=1.4, linestyle="--", label="no positions")
        mark(axes, extrapolation.TRAINED[1], "longest of the training")
        lengths(axes, at)
        axes.set_title(f"{question}: {QUESTIONS[question]}")
    row[0].set_ylabel("right answers, %")
    row[0].set_ylim(-2, 104)
    legend_below(made, row[1], 4)
    return save(made, path)


def stretched(results: Results, path: Path) -> Path:
    """Draw accuracy by length for each scaling and theta.

    As scaled (above), and after a few more steps (below).
    """
    columns = [(theta, question) for theta in scaling.THETAS for question in QUESTIONS]
    made, rows = figure(2, len(columns), height=5.2, share_x=True, share_y=True)
    for row, (stage, title) in zip(
        rows, (("zero_shot", "as stretched"), ("tuned", "100 steps later")), strict=True
    ):
        for axes, (theta, question) in zip(row, columns, strict=True):
            for kind, style in zip(scaling.KINDS, SERIES, strict=False):
                band(
                    axes,
                    scaling.LENGTHS,
                    _stretched(results, theta, kind, stage, question),
                    CALLED[kind],
                    style,
                )
            mark(axes, scaling.TRAINED[1], "longest of the training")
            lengths(axes, scaling.LENGTHS)
            if row is rows[0]:
                axes.set_xlabel("")
                axes.set_title(f"{question}, $\\theta$ = {theta:g}")
        row[0].set_ylabel(f"{title}:\nright answers, %")
    rows[0][0].set_ylim(-2, 104)
    legend_below(made, rows[0][0], 5)
    return save(made, path)


def _stretched(
    results: Results, theta: float, kind: str, stage: str, question: str
) -> list[list[float]]:
    """Return per cent, [seeds][lengths]."""
    runs = [each for each in results["scaling"] if each["theta"] == theta]
    return [
        [PERCENT * each[kind][stage][str(length)][question] for length in scaling.LENGTHS]
        for each in runs
    ]


def _percent(runs: Sequence[Mapping[str, Any]], name: str) -> list[float]:
    return [PERCENT * each[name] for each in runs]


def _accuracy(measured: Mapping[str, float] | str, question: str) -> float:
    """Return per cent; NaN if the length was rejected."""
    return float("nan") if isinstance(measured, str) else PERCENT * measured[question]
