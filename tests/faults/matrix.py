"""Rows of the fault matrix: numbered as in the fault list, parts of one fault by a letter."""

from __future__ import annotations

import dataclasses

from tests.faults.record import State


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """One fault.

    Attributes:
        fault: its number, as "F13b".
        made: how it is made.
        promise: what the service and its clients promise meanwhile.
        measure: "module:function" under tests.faults, which returns an Outcome; empty if `tests`
            show it.
        tests: pytest node ids that show it; empty if `measure` does.
        asserts: what those tests assert, for the page.
        state: of a row that was run.
        limit_seconds: after which a run is ended and counts as failed.
        reason: what is injected, or not possible, and why.
    """

    fault: str
    title: str
    made: str
    promise: str
    measure: str = ""
    tests: tuple[str, ...] = ()
    asserts: str = ""
    state: State = "measured"
    limit_seconds: int = 300
    reason: str = ""


def rows() -> tuple[Row, ...]:
    """Return all rows in the order of their numbers."""
    from tests.faults.driven import DRIVEN
    from tests.faults.made import MADE

    return tuple(
        sorted(
            (*MADE, *DRIVEN),
            key=lambda row: (int("".join(filter(str.isdigit, row.fault))), row.fault),
        )
    )
