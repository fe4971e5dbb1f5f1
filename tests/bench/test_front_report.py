from __future__ import annotations

from bench.front import WORKLOADS, Rounds, report


def rounds(*values: float) -> dict[str, list[float]]:
    return {load.name: list(values) for load in WORKLOADS}


FOUND: Rounds = {
    "floor": rounds(100, 200, 100),
    "front": rounds(400, 800, 500),
    "real": rounds(1000, 2000, 1000),
}
BEFORE: Rounds = {
    "front before": rounds(700, 1400, 900),
    "real before": rounds(2000, 4000, 2500),
}


def lines(found: Rounds, **revisions: str) -> list[str]:
    run = {"machine": "a machine", "revisions": revisions, "microseconds": found}
    return report(run)


def test_one_checkout_has_one_table() -> None:
    page = lines(FOUND, after="bbb")
    rows = [line for line in page if line.startswith("| unary call, 1 text")]
    assert rows == ["| unary call, 1 text | 100 | 500 | 400 | 1000 | 2,000 |"]
    assert "`nox -s bench` on a machine." in page[2]
    assert "medians of 3 interleaved rounds" in page[2]


def test_ratios_are_medians_of_the_rounds_own_ratios() -> None:
    """The second round had half the machine: it changes no ratio."""
    page = lines(FOUND | BEFORE, after="bbb", before="aaa")
    text = "\n".join(page)
    assert "Before: commit aaa. After: commit bbb." in text
    assert "above bare gRPC: 800 µs before, 400 µs after, ratio 0.50." in text
    row = [line for line in page if line.startswith("| unary call, 1 text")][-1]
    cells = "900 | 500 | 0.57 | 800 | 400 | 0.50 | 2500 | 1000 | 0.50"
    assert row == f"| unary call, 1 text | {cells} |"
