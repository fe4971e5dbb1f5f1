"""Reading and writing of results.json.

It holds one list of runs for each experiment, each run with its task, scheme, seed, theta and
variant.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

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
