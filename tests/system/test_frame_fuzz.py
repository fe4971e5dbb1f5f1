"""Mutated HTTP/2 frames and header blocks.

The service continues, its probes agree with real calls, and nothing is held afterwards.

HEADLIGHT_FRAMES and HEADLIGHT_FRAMES_SEED choose a longer run or another one; a failure names the
command that sends its block again.
"""

from __future__ import annotations

import os

import pytest

from tests.soak.frames import frames
from tests.system.conftest import bundle_of

CONNECTIONS = int(os.environ.get("HEADLIGHT_FRAMES", "3000"))
SEED = int(os.environ.get("HEADLIGHT_FRAMES_SEED", "1"))


@pytest.mark.timeout(max(600, CONNECTIONS // 10))
async def test_mutated_frames_do_not_affect_other_clients() -> None:
    found = await frames(bundle_of("docs-rope"), CONNECTIONS, SEED)
    assert found.problems() == []
    print(found)
