"""Reading and writing of results.json, and a summary of it.

It holds one list of runs for each experiment, each run with its task, scheme, seed, theta and
variant.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lab.page.figures import GOAL, steps_text, steps_to_goal

FILE = "results.json"
DIGITS = 4  # significant ones; seeds differ in the third
Results = dict[str, Any]
Run = Mapping[str, Any]


def load(folder: Path) -> Results:
    """Read the results. Raise FileNotFoundError if `nox -s lab` has not written them."""
    results: Results = json.loads((folder / FILE).read_text(encoding="utf-8"))
    return results


def save(results: Results, folder: Path) -> Path:
    """Write the results, every float rounded to DIGITS. Return the file."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / FILE
    file.write_text(json.dumps(rounded(results), separators=(",", ":")) + "\n", encoding="utf-8")
    return file


def rounded(value: Any) -> Any:
    """Return the same with every float rounded to DIGITS."""
    if isinstance(value, Mapping):
        return {key: rounded(each) for key, each in value.items()}
    if isinstance(value, list):
        return [rounded(each) for each in value]
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


def select(results: Mapping[str, Any], experiment: str, task: str, scheme: str) -> list[Run]:
    """Return the runs of one task and scheme, one for each seed."""
    return [run for run in results[experiment] if (run["task"], run["scheme"]) == (task, scheme)]


@dataclasses.dataclass(frozen=True)
class Range:
    """Least, mean and greatest value of a figure over seeds."""

    least: float
    mean: float
    most: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Range:
        return cls(min(values), sum(values) / len(values), max(values))

    @classmethod
    def over(cls, runs: Sequence[Run], read: Callable[[Run], float]) -> Range:
        """Return the range of what `read` returns for each run."""
        return cls.of([read(run) for run in runs])

    def percent(self) -> str:
        """Format as "97.1 (95.0–98.8)", or as the mean alone if the seeds do not visibly differ."""
        return Range(100 * self.least, 100 * self.mean, 100 * self.most).number(1)

    def number(self, digits: int) -> str:
        """Format like `percent`, but as they are, with so many decimals."""
        least, mean, most = (f"{value:.{digits}f}" for value in (self.least, self.mean, self.most))
        return mean if least == most else f"{mean} ({least}–{most})"


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
