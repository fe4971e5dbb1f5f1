"""python -m bench.bulk.plan: workers, hours, money, network and index sizes for many texts.

Reads the measured rates of bench/results/bulk.json, and writes the tables of docs/serving/scale.md
between their markers. Without that file, only the sizes of an index are written: they are
arithmetic.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path

from bench.bulk.measured_rates import read
from bench.bulk.plan_tables import costs, failures, index_sizes, network, rates

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
    found = read(source)
    return {
        "rates": rates(found),
        "costs": costs(found, core_hour, documents),
        "network": network(found, documents),
        "failures": failures(found, core_hour),
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
    found = made.parse_args(arguments)
    made_parts = parts(found.rates, found.core_hour, found.documents)
    page = written(found.page.read_text(encoding="utf-8"), made_parts)
    found.page.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
