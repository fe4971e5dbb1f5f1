"""Tables of a plan: workers, hours, money, network, failures, and sizes of an index."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Sequence

from bench.bulk.measured_rates import Measured, Rate
from headlight.cli.tables.table_options import PART_ROWS
from headlight.spec import VECTOR_BITS, VectorType

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


def rates(found: Measured) -> str:
    """Return what was measured, as a list and a table."""
    about = [
        f"Machine: {found.machine}.",
        f"Input: {found.rows:,} rows of {number(found.mean_tokens)} tokens on average.",
        f"Model: {found.model}, {found.dimensions} dimensions.",
        f"Command: `{found.command}`.",
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
        for each in found.rates
    ]
    return f"{listed(about)}\n\n{table(head, rows)}"


def costs(found: Measured, core_hour: float, documents: Sequence[float]) -> str:
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
        for each in found.rates
    ]
    return f"A core hour costs {core_hour:g}.\n\n{table(head, rows)}"


def network(found: Measured, documents: Sequence[float]) -> str:
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
        for each in found.rates
    ]
    return table(head, rows)


def failures(found: Measured, core_hour: float) -> str:
    """Return what a worker that is killed computes again, at most."""
    head = ("way", "seconds lost, start-up included", "share at one kill an hour", "money per kill")
    rows = []
    for each in found.rates:
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
