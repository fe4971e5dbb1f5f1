"""What results.json holds, and how it is read.

One list of runs for each experiment, each run with its task, scheme, seed and theta.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

FILE = "results.json"
DIGITS = 4  # that count: seeds differ in the third
Results = dict[str, Any]
Run = Mapping[str, Any]


def load(folder: Path) -> Results:
    """Raises FileNotFoundError where `make lab` has written nothing there."""
    results: Results = json.loads((folder / FILE).read_text(encoding="utf-8"))
    return results


def save(results: Results, folder: Path) -> Path:
    """Write them, every float cut to DIGITS. Returns the file."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / FILE
    file.write_text(json.dumps(rounded(results), separators=(",", ":")) + "\n", encoding="utf-8")
    return file


def rounded(value: Any) -> Any:
    """The same with every float cut."""
    if isinstance(value, Mapping):
        return {key: rounded(each) for key, each in value.items()}
    if isinstance(value, list):
        return [rounded(each) for each in value]
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


def select(results: Mapping[str, Any], experiment: str, task: str, scheme: str) -> list[Run]:
    """The runs of one task and scheme, one for each seed."""
    return [run for run in results[experiment] if (run["task"], run["scheme"]) == (task, scheme)]


@dataclasses.dataclass(frozen=True)
class Range:
    """A figure over seeds."""

    least: float
    mean: float
    most: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Range:
        return cls(min(values), sum(values) / len(values), max(values))

    @classmethod
    def over(cls, runs: Sequence[Run], read: Callable[[Run], float]) -> Range:
        """Of what `read` finds in each run."""
        return cls.of([read(run) for run in runs])

    def percent(self) -> str:
        """As "97.1 (95.0–98.8)"; the mean alone where seeds do not differ in what is shown."""
        least, mean, most = (f"{100 * value:.1f}" for value in (self.least, self.mean, self.most))
        return mean if least == most else f"{mean} ({least}–{most})"
