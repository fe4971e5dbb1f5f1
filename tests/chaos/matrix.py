"""Rows of the fault matrix: numbered as in the fault list, parts of one fault by a letter."""

from __future__ import annotations

import dataclasses

from tests.chaos.record import State


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """One fault.

    Attributes:
        fault: its number, as "F13b".
        made: how it is made.
        promise: what the service and its clients promise meanwhile.
        measure: "module:function" under tests.chaos.faults, which returns an Outcome; empty if
            `tests` show it.
        tests: pytest node ids that show it; empty if `measure` does.
        asserts: what those tests assert, for the page.
        long: "module:function" of its long form, which takes how many times the usual amount, and
            a seed; empty if there is none.
        times: of that.
        state: of a row that was run.
        limit_seconds: after which a run is ended and counts as failed; a long one has hours.
        reason: what is injected, or not possible, and why.
    """

    fault: str
    title: str
    made: str
    promise: str
    measure: str = ""
    tests: tuple[str, ...] = ()
    asserts: str = ""
    long: str = ""
    times: float = 1.0
    state: State = "measured"
    limit_seconds: int = 300
    reason: str = ""


def rows() -> tuple[Row, ...]:
    """Return all rows in the order of their numbers."""
    from tests.chaos.driven import DRIVEN
    from tests.chaos.made import MADE

    return tuple(
        sorted(
            (*MADE, *DRIVEN),
            key=lambda row: (int("".join(filter(str.isdigit, row.fault))), row.fault),
        )
    )
