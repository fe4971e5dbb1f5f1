"""Ledger of all calls: how many were started, how each ended, and the allowed statuses."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Coroutine
from typing import Any

import grpc

from headlight.errors import HeadlightError

END_SECONDS = 120.0  # longer than any call's own deadline
MOST_PROBLEMS = 20  # that are told one by one
# What Headlight's client makes of a status, named as the status is.
STATUS_OF = {"overloaded": "RESOURCE_EXHAUSTED", "invalid_input": "INVALID_ARGUMENT"}


class Wrong(Exception):
    """Wrong answer with status OK."""


class Ledger:
    """The calls of a run.

    Attributes:
        outcomes: how many calls of a kind ended in a status.
    """

    def __init__(self) -> None:
        self.started = 0
        self.ended = 0
        self.outcomes: Counter[tuple[str, str]] = Counter()
        self._problems: list[str] = []

    async def call(
        self, kind: str, attempt: Coroutine[Any, Any, str], allowed: Collection[str]
    ) -> str:
        """Make a call and record its status, which is returned.

        Args:
            kind: of call, for the report.
            attempt: makes it, checks the answer and returns the status; may raise client errors and
                Wrong.
            allowed: the statuses it may end in.
        """
        self.started += 1
        try:
            async with asyncio.timeout(END_SECONDS) as patience:
                outcome = await _outcome(attempt)
        except TimeoutError:
            assert patience.expired()
            outcome = "NEVER ENDED"
        except Wrong as wrong:
            self.ended += 1
            self.outcomes[kind, "WRONG"] += 1
            self._problems.append(f"{kind}: {wrong}")
            return "WRONG"
        else:
            self.ended += 1
        self.outcomes[kind, outcome] += 1
        if outcome not in allowed:
            self._problems.append(
                f"{kind} ended as {outcome}, not as {' or '.join(sorted(allowed))}"
            )
        return outcome

    def problems(self) -> list[str]:
        """Return all violations; empty: none."""
        found = self._problems[:MOST_PROBLEMS]
        if len(self._problems) > MOST_PROBLEMS:
            found.append(f"and {len(self._problems) - MOST_PROBLEMS} more like these")
        if self.started != self.ended:
            found.append(f"{self.started} calls were started, {self.ended} ended")
        return found


async def _outcome(attempt: Coroutine[Any, Any, str]) -> str:
    try:
        return await attempt
    except grpc.aio.AioRpcError as error:
        return error.code().name
    except HeadlightError as error:
        return STATUS_OF.get(error.code.value, error.code.name)
    except Wrong:
        raise
    except TimeoutError:
        raise
    # A bug of the client or of this code: a problem like any other.
    except Exception as error:
        return type(error).__name__
