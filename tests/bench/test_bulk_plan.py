"""Tables of docs/serving/scale.md, made of invented rates."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from bench.bulk import plan
from bench.bulk.plan import number, power, read, size
from headlight.cli.tables.table_options import PART_ROWS

INVENTED: dict[str, Any] = {
    "machine": "an invented machine",
    "command": "make invented",
    "rows": 1000,
    "mean_tokens": 50.5,
    "dimensions": 8,
    "model": "invented",
    "rates": [
        {
            "name": "local",
            "texts_per_second": 100.0,
            "cores": 2,
            "precision": "fp32",
            "startup_seconds": 36.0,
            "bytes_per_text_in": 200.0,
            "bytes_per_text_out": 50.0,
        },
        {
            "name": "service",
            "texts_per_second": 50.0,
            "cores": 2,
            "precision": "bf16",
            "startup_seconds": None,
            "bytes_per_text_in": 200.0,
            "bytes_per_text_out": 50.0,
        },
        {"name": "a peer", "texts_per_second": 1.0},
    ],
}


@pytest.fixture
def rates(tmp_path: Path) -> Path:
    path = tmp_path / "bulk.json"
    path.write_text(json.dumps(INVENTED), encoding="utf-8")
    return path


def cells(text: str, first: str) -> list[str]:
    """Return the cells of the table row that begins with some cells."""
    [line] = [line for line in text.splitlines() if line.startswith(f"| {first} |")]
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_hours_workers_and_money_follow_from_the_rates(rates: Path) -> None:
    text = plan.parts(rates, 0.1, [1e8])["costs"]
    assert "A core hour costs 0.1." in text
    # 10⁶ s on 2 cores; shares of 10⁵ s and 10⁴ s with 36 s of start-up.
    assert cells(text, "10⁸ | local, fp32") == [
        "10⁸", "local, fp32", "556", "27.8", "2.79", "12", "55.6", "0.556",
    ]  # fmt: skip
    assert cells(text, "10⁸ | service, bf16")[2:] == ["1,110", "55.6", "5.56", "24", "111", "1.11"]


def test_rates_name_the_machine_and_what_was_not_measured(rates: Path) -> None:
    text = plan.parts(rates, 0.1, [1e8])["rates"]
    assert text.startswith("- Machine: an invented machine.\n- Input: 1,000 rows of 50.5 tokens")
    assert "- Command: `make invented`." in text
    assert cells(text, "local, fp32")[1:] == ["100", "2", "50.0", "36.0"]
    assert cells(text, "service, bf16")[-1] == "–"


def test_network_and_failures_follow_from_the_rates(rates: Path) -> None:
    made = plan.parts(rates, 0.1, [1e8])
    assert cells(made["network"], "local, fp32")[1:] == [
        "200 B + 50.0 B", "102 kB + 25.6 kB", "0.200", "20.0 GB + 5.00 GB",
    ]  # fmt: skip
    lost = 2 * PART_ROWS
    seconds, share, money = cells(made["failures"], "local, fp32")[1:]
    assert seconds == number(lost / 100 + 36)  # the start-up included
    assert share == f"{number((lost / 100 + 36) / 36)} %"
    assert money == number((lost / 100 + 36) * 2 / 3600 * 0.1)
    assert cells(made["failures"], "service, bf16")[1] == number(lost / 50)


def test_index_sizes_need_no_measurement(tmp_path: Path) -> None:
    made = plan.parts(tmp_path / "missing.json", 0.1, [1e8, 1e9])
    assert cells(made["index"], "256 | float32")[2:] == ["102 GB", "1.02 TB"]
    assert cells(made["index"], "768 | binary")[2:] == ["9.60 GB", "96.0 GB"]
    assert {text for name, text in made.items() if name != "index"} == {plan.NOT_MEASURED}


def test_the_page_is_written_again_without_other_changes(tmp_path: Path, rates: Path) -> None:
    page = tmp_path / "scale.md"
    before = plan.PAGE.read_text(encoding="utf-8")
    page.write_text(before, encoding="utf-8")
    options = ["--page", str(page), "--rates"]
    plan.main([*options, str(rates), "--core-hour", "1", "--documents", "1e6"])
    full = page.read_text(encoding="utf-8")
    assert full.count("invented machine") == 1
    assert "A core hour costs 1." in full
    plan.main([*options, str(plan.RATES)])
    assert page.read_text(encoding="utf-8") == before


def test_the_page_has_the_numbers_of_the_measurement() -> None:
    """`python -m bench.bulk.plan` writes the page again after each measurement."""
    made = plan.parts(plan.RATES, plan.CORE_HOUR, plan.DOCUMENTS)
    page = plan.PAGE.read_text(encoding="utf-8")
    assert plan.written(page, made) == page


def test_missing_markers_and_fields_are_reported(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=re.escape("no markers <!-- plan: index -->")):
        plan.written("# A page\n", {"index": ""})
    path = tmp_path / "bulk.json"
    path.write_text(json.dumps(INVENTED | {"rates": [{"name": "local"}]}), encoding="utf-8")
    with pytest.raises(ValueError, match="has no 'precision'"):
        read(path)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.01234, "0.0123"), (9.999, "10.0"), (123.4, "123"), (12345, "12,300")],
)
def test_numbers_have_three_digits(value: float, text: str) -> None:
    assert number(value) == text


def test_counts_and_sizes_have_their_units() -> None:
    assert [power(count) for count in (1e8, 1e10, 2.5e6)] == ["10⁸", "10¹⁰", "2,500,000"]
    assert [size(count) for count in (999, 1e3, 1.5e12)] == ["999 B", "1.00 kB", "1.50 TB"]
