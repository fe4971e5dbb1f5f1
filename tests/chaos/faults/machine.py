"""A real GPU that fails: F11b."""

from __future__ import annotations

from headlight.runtime.providers.cuda_session import devices
from tests.chaos.record import NotPossible, Outcome


def device() -> Outcome:
    """Report that a real device is not broken on purpose."""
    if not devices().count:
        raise NotPossible("there is no GPU here")
    raise NotPossible(
        "nothing here makes a real GPU fail; `nox -s gpu-bench` runs on one that works"
    )
