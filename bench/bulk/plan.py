"""python -m bench.bulk.plan: workers, hours, money, network and index sizes for many texts.

Reads the measured rates of bench/results/bulk.json, and writes the tables of docs/serving/scale.md
between their markers. Without that file, only the sizes of an index are written: they are
arithmetic.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from headlight.cli.tables.table_options import PART_ROWS
from headlight.spec import VECTOR_BITS, VectorType

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
    fields = json.loads(path.read_text(encoding="utf-8"))
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
            for each in fields.pop("rates")
            if each["name"].startswith(WAYS)
        )
        names = ("machine", "command", "rows", "mean_tokens", "dimensions", "model")
        return Measured(**{name: fields[name] for name in names}, rates=rates)
    except KeyError as error:
        raise ValueError(f"{path}: has no {error}; measure again") from None


WORKERS = (10, 100)
BLOCK = 512  # texts of a request: the service's --max-items, by default
PARTS_LOST = 2  # at most, by a worker that is killed
TYPES: tuple[VectorType, ...] = ("float32", "float16", "int8", "binary")
COLUMNS = 100
DIMENSIONS = (256, 384, 768)


def number(value: float) -> str:
    """Return a number with three digits: 0.0123, 1.23, 123, 12,300."""
    if value == 0:
        return "0"
    rounded = float(f"{value:.2e}")
    digits = max(0, 2 - math.floor(math.log10(rounded)))
    return f"{rounded:,.{digits}f}"


def size(count: float) -> str:
    """Return bytes in decimal units, as disks and networks are sold."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{number(count)} {unit}"
        count /= 1000
    return f"{number(count)} TB"


def power(documents: float) -> str:
    """Return a number of documents: 10⁸, or 250,000,000."""
    exponent = round(math.log10(documents))
    if documents == 10**exponent:
        return "10" + "".join("⁰¹²³⁴⁵⁶⁷⁸⁹"[int(digit)] for digit in str(exponent))
    return f"{documents:,.0f}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def listed(items: Iterable[str]) -> str:
    """Return a Markdown list, in lines that fit the page."""
    wrapped = (
        textwrap.fill(
            item, COLUMNS, initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False
        )
        for item in items
    )
    return "\n".join(wrapped)


def rates(run: Measured) -> str:
    """Return what was measured, as a list and a table."""
    about = [
        f"Machine: {run.machine}.",
        f"Input: {run.rows:,} rows of {number(run.mean_tokens)} tokens on average.",
        f"Model: {run.model}, {run.dimensions} dimensions.",
        f"Command: `{run.command}`.",
    ]
    head = ("way", "texts per second", "cores", "per core", "start-up, s")
    rows = [
        (
            each.name,
            number(each.texts_per_second),
            str(each.cores),
            number(each.texts_per_second / each.cores),
            "–" if each.startup_seconds is None else number(each.startup_seconds),
        )
        for each in run.rates
    ]
    return f"{listed(about)}\n\n{table(head, rows)}"


def costs(run: Measured, core_hour: float, documents: Sequence[float]) -> str:
    """Return workers, hours and money for each number of documents."""
    head = (
        "documents",
        "way",
        "core hours",
        *(f"hours with {workers} workers" for workers in WORKERS),
        "workers for one day",
        "money",
        "money per million",
    )
    rows = [
        (
            power(count),
            each.name,
            number(each.core_hours(count)),
            *(number(each.hours(count, workers)) for workers in WORKERS),
            f"{each.workers_of_a_day(count):,}",
            number(each.core_hours(count) * core_hour),
            number(each.core_hours(1e6) * core_hour),
        )
        for count in documents
        for each in run.rates
    ]
    return f"A core hour costs {core_hour:g}.\n\n{table(head, rows)}"


def network(run: Measured, documents: Sequence[float]) -> str:
    """Return bytes read and written, in all and per worker."""
    head = (
        "way",
        "a text, in + out",
        f"a request of {BLOCK} texts, in + out",
        "a worker, Mbit/s",
        *(f"{power(count)} documents, in + out" for count in documents),
    )

    def both(each: Rate, count: float) -> str:
        return f"{size(each.bytes_in * count)} + {size(each.bytes_out * count)}"

    rows = [
        (
            each.name,
            both(each, 1),
            both(each, BLOCK),
            number(8e-6 * each.texts_per_second * (each.bytes_in + each.bytes_out)),
            *(both(each, count) for count in documents),
        )
        for each in run.rates
    ]
    return table(head, rows)


def failures(run: Measured, core_hour: float) -> str:
    """Return what a worker that is killed computes again, at most."""
    head = ("way", "seconds lost, start-up included", "share at one kill an hour", "money per kill")
    rows = []
    for each in run.rates:
        seconds = PARTS_LOST * PART_ROWS / each.texts_per_second + (each.startup_seconds or 0)
        rows.append(
            (
                each.name,
                number(seconds),
                f"{number(100 * seconds / 3600)} %",
                number(seconds * each.cores / 3600 * core_hour),
            )
        )
    return table(head, rows)


def index_sizes(documents: Sequence[float]) -> str:
    """Return the bytes of all vectors, by type and dimensions."""
    head = ("dimensions", "type", *(f"{power(count)} documents" for count in documents))
    rows = [
        (str(width), name, *(size(count * width * VECTOR_BITS[name] / 8) for count in documents))
        for width in DIMENSIONS
        for name in TYPES
    ]
    return table(head, rows)


ROOT = Path(__file__).resolve().parents[2]
RATES = ROOT / "bench" / "results" / "bulk.json"
PAGE = ROOT / "docs" / "serving" / "scale.md"
NOT_MEASURED = "*Not measured yet.*"
DOCUMENTS = (1e8, 1e9)
CORE_HOUR = 0.05


def parts(source: Path, core_hour: float, documents: Sequence[float]) -> dict[str, str]:
    """Return the generated parts of the page, by the name of their markers."""
    sizes = {"index": index_sizes(documents)}
    if not source.exists():
        return dict.fromkeys(("rates", "costs", "network", "failures"), NOT_MEASURED) | sizes
    run = read(source)
    return {
        "rates": rates(run),
        "costs": costs(run, core_hour, documents),
        "network": network(run, documents),
        "failures": failures(run, core_hour),
        **sizes,
    }


def written(page: str, parts: dict[str, str]) -> str:
    """Return a page with the parts between their markers.

    Raises:
        ValueError: the page lacks a marker.
    """
    for name, text in parts.items():
        begin, end = f"<!-- plan: {name} -->", f"<!-- end of {name} -->"
        pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
        if not pattern.search(page):
            raise ValueError(f"the page has no markers {begin} and {end}; add them")
        whole = f"{begin}\n{text}\n{end}"
        page = pattern.sub(whole.replace("\\", r"\\"), page)
    return page


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command."""
    made = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    made.add_argument("--core-hour", type=float, default=CORE_HOUR, metavar="PRICE")
    made.add_argument("--documents", type=float, nargs="+", default=DOCUMENTS, metavar="COUNT")
    made.add_argument("--rates", type=Path, default=RATES, metavar="FILE")
    made.add_argument("--page", type=Path, default=PAGE, metavar="FILE")
    options = made.parse_args(arguments)
    made_parts = parts(options.rates, options.core_hour, options.documents)
    page = written(options.page.read_text(encoding="utf-8"), made_parts)
    options.page.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
