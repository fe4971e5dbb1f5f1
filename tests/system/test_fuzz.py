"""Mutated messages.

No crash, no UNKNOWN, no INTERNAL, no text of the caller or of an exception in answers; memory stays
flat.

Seeded and reproducible: HEADLIGHT_FUZZ_SEED and HEADLIGHT_FUZZ_MESSAGES choose another run, or a
longer one.
"""

from __future__ import annotations

import os

from tests.system.conftest import bundle_of
from tests.system.fuzz import fuzz

MESSAGES = int(os.environ.get("HEADLIGHT_FUZZ_MESSAGES", "25000"))
SEED = int(os.environ.get("HEADLIGHT_FUZZ_SEED", "1"))


async def test_mutated_messages_get_documented_statuses_and_leak_nothing() -> None:
    found = await fuzz(bundle_of("docs-rope"), MESSAGES, SEED)
    assert found.problems() == []
    print(found)
