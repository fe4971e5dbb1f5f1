"""Measured rates of jobs over many texts: bench/results/bulk.json."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path

DAY_SECONDS = 86_400
WAYS = ("local", "service", "Ray")  # the measurement also has the engine alone, and peers


@dataclass(frozen=True)
class Rate:
    """Measured rate of one way to compute.

    Attributes:
        name: of the way, with its precision.
        cores: of the worker, the service included.
        startup_seconds: from the start to the first text; None: not measured.
        bytes_in, bytes_out: of a text, read and written.
    """

    name: str
    texts_per_second: float
    cores: int
    startup_seconds: float | None
    bytes_in: float
    bytes_out: float

    def hours(self, documents: float, workers: int) -> float:
        """Return the hours of some workers, each with an equal share, start-up included."""
        seconds = documents / workers / self.texts_per_second + (self.startup_seconds or 0)
        return seconds / 3600

    def core_hours(self, documents: float) -> float:
        """Return the core hours of the computing alone."""
        return documents / self.texts_per_second * self.cores / 3600

    def workers_of_a_day(self, documents: float) -> int:
        """Return the workers that end within a day."""
        seconds = DAY_SECONDS - (self.startup_seconds or 0)
        return math.ceil(documents / self.texts_per_second / seconds)


@dataclass(frozen=True)
class Measured:
    """The measurement: its machine, command and input, with the rates of Headlight's ways."""

    machine: str
    command: str
    rows: int
    mean_tokens: float
    dimensions: int
    model: str
    rates: tuple[Rate, ...]


def read(path: Path) -> Measured:
    """Read a measurement.

    Raises:
        ValueError: a field is missing; the message names it.
    """
    found = json.loads(path.read_text(encoding="utf-8"))
    try:
        rates = tuple(
            Rate(
                name=f"{each['name']}, {each['precision']}",
                texts_per_second=each["texts_per_second"],
                cores=each["cores"],
                startup_seconds=each["startup_seconds"],
                bytes_in=each["bytes_per_text_in"],
                bytes_out=each["bytes_per_text_out"],
            )
            for each in found.pop("rates")
            if each["name"].startswith(WAYS)
        )
        names = ("machine", "command", "rows", "mean_tokens", "dimensions", "model")
        return Measured(**{name: found[name] for name in names}, rates=rates)
    except KeyError as error:
        raise ValueError(f"{path}: has no {error}; measure again") from None
