"""Writer of docs/positions.md: the template page.md with figures from results.json."""

from __future__ import annotations

import string
from pathlib import Path

from lab.experiments.extrapolation import FLOOR_QUESTIONS
from lab.experiments.scaling import THETAS
from lab.page import comparisons, predictions_comparisons
from lab.page import figures as of
from lab.page import scheme_tables as by_scheme
from lab.page.figures import Results
from lab.page.markdown_tables import steps_text, table
from lab.page.predictions import PREDICTIONS
from lab.page.verdicts import ERRORS, LEARNT, said
from lab.pictures.attention import mirroring_head, reversing_layer, shown
from lab.runner import comparisons as comparison_names
from lab.training import SCHEMES

TEMPLATE = Path(__file__).with_name("page.md")


def write(results: Results, page: Path, pictures: Path) -> Path:
    """Fill in the template.

    Args:
        results: what results.json holds.
        page: the file to write.
        pictures: their folder, below that of the page.
    """
    parts = {
        "about": about(results),
        "pictures": pictures.relative_to(page.parent).as_posix(),
        "properties": by_scheme.properties(results),
        "reversal": by_scheme.reversal(results),
        "heads": by_scheme.heads(results),
        "left": by_scheme.lengths(results, "left"),
        "recall": by_scheme.lengths(results, "recall"),
        "mirrored": ", ".join(
            f"{scheme} {of.mirrored_answers(results, scheme).percent()}" for scheme in SCHEMES
        ),
        "few_keys": by_scheme.few_keys(results),
        "furthest_left": by_scheme.furthest(results, "left"),
        "furthest_recall": by_scheme.furthest(results, "recall"),
        "steps_sinusoidal": steps_text(of.learnt_after(results, "reverse", "sinusoidal")),
        "steps_learned": steps_text(of.learnt_after(results, "reverse", "learned")),
        "none_reversed": by_scheme.range_text(of.reversed_rightly(results, "none")),
        "blind_learned": by_scheme.range_text(
            of.reversed_rightly(results, "learned", measure="blind")
        ),
        "mirror_head": of.mirrored_head(results, "learned").percent(),
        "layer": str(reversing_layer(shown(results, "learned"))),
        "head": str(mirroring_head(shown(results, "learned"))),
        "floor_questions": f"{FLOOR_QUESTIONS:,}",
        "errors": f"{ERRORS:g}",
        "learnt": f"{100 * LEARNT:g}",
        "error_recall": by_scheme.worst_error(results, "recall"),
        "error_far": by_scheme.worst_error(results, "far"),
        **{f"scaling_{theta:g}": by_scheme.scaling(results, theta) for theta in THETAS},
        "predictions": predictions(results),
        "names": ", ".join(f"`{name}`" for name in comparison_names()),
        "closest": f"{by_scheme.distance(results, 'repeated', 'sinusoidal'):.2g}",
        "recall_error": comparisons.recall_error(results),
        "longest_left": by_scheme.longest(results, "left"),
        **results["claims"],
        **comparisons.quoted(results),
        **{name: make(results) for name, make in comparisons.TABLES.items()},
        **{
            name.replace(" ", "_"): f"{100 * value:.1f}"
            for name, value in results["baselines"].items()
        },
    }
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(
        string.Template(TEMPLATE.read_text(encoding="utf-8")).substitute(parts), encoding="utf-8"
    )
    return page


def about(results: Results) -> str:
    """Return the origin of the figures, in a sentence or two."""
    facts = results["about"]
    seeds = len(facts["seeds"])
    text = f"{seeds} seed{'s'[: seeds > 1]}, {facts['machine']}, {facts['versions']}"
    if facts["quick"]:
        return (
            "**A quick run, which shows that everything works and nothing else: its figures mean "
            f"nothing.** {text}."
        )
    return f"Figures: {text}."


def predictions(results: Results) -> str:
    """Return the table of predictions and outcomes."""
    lines = []
    for each in (*PREDICTIONS, *predictions_comparisons.PREDICTIONS):
        finding, figures = each.check(results)
        lines.append(
            [each.text, each.source, "**no**" if finding is False else said(finding), figures]
        )
    return table(["expected", "source", "confirmed", "figures, % unless named"], lines)
