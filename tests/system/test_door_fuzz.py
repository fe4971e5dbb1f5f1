"""Mutated requests over HTTP, the Open Inference Protocol and tei.v1: no 500, UNKNOWN or INTERNAL.

HEADLIGHT_FUZZ_SEED and HEADLIGHT_FUZZ_REQUESTS choose another run, or a longer one.
"""

from __future__ import annotations

import os

from tests.system.conftest import bundle_of
from tests.system.door_fuzz import fuzz_doors

REQUESTS = int(os.environ.get("HEADLIGHT_FUZZ_REQUESTS", "2000"))
SEED = int(os.environ.get("HEADLIGHT_FUZZ_SEED", "1"))


async def test_mutated_requests_get_documented_statuses_and_leak_nothing() -> None:
    found = await fuzz_doors(bundle_of("docs-rope"), REQUESTS, SEED)
    assert found.problems() == []
    print(found)
