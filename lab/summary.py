"""One comparison of the lab on the terminal, a line for each training."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lab.page.figures import GOAL, steps_to_goal
from lab.page.markdown_tables import steps_text
from lab.results import Range


def lines(results: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[str]:
    """Return the figures of each run; accuracies and shares are in per cent."""
    result = []
    for run in (run for runs in results.values() for run in runs):
        theta = f"theta {run['theta']:g}" if run["scheme"] == "rope" else ""
        name = " ".join(filter(None, (run["task"], run["scheme"], theta, run["variant"])))
        figures = list(leaves({key: run[key] for key in run if key not in ABOUT}))
        for order, curves in run.get("pruned", {}).items():
            means = (100 * sum(point) / len(curves) for point in zip(*curves, strict=True))
            figures.append(f"heads removed, {order}: {' '.join(f'{mean:.0f}' for mean in means)} %")
        if "curve" in run:
            steps = steps_text(Range.of([steps_to_goal(run)]))
            figures.append(f"steps until {100 * GOAL:g} %: {steps}")
        result.append(f"{name:34} {', '.join(figures)}")
    return result


ABOUT = ("task", "scheme", "theta", "variant", "seed")  # of the training, not figures


def leaves(value: Any, name: str = "") -> Iterator[str]:
    """Yield the numbers of a result, with their names. Lists (curves, maps) are left out."""
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield from leaves(each, f"{name} {key}".strip())
    elif isinstance(value, float):
        shown = f"{value:.2f}" if value > 1 else f"{100 * value:.1f} %"
        yield f"{name} {shown}"
    elif isinstance(value, int):
        yield f"{value:,} {name}"
    elif isinstance(value, str):
        yield f"{name} refused"
