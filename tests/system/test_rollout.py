"""Replicas are restarted and replaced under load, behind the client's own balancing and behind nginx: no call fails."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.system.fleet import Callers, Fleet
from tests.system.names import NAME
from tests.system.nginx import Nginx, of_addresses, of_name

REPLICAS = 3
RESTARTS = 12  # in place
REPLACEMENTS = 9  # each new one at an address of its own, as pods are
BETWEEN = 6  # calls of each client from one restart to the next


async def test_restarts_in_place_under_load_fail_no_call(tmp_path: Path) -> None:
    async with Fleet() as fleet:
        addresses = [await fleet.add() for _ in range(REPLICAS)]
        with Nginx(tmp_path, *of_addresses(fleet.addresses)) as nginx:
            async with Callers(fleet.target) as direct, Callers(nginx.target) as proxied:
                for turn in range(RESTARTS):
                    address = addresses[turn % REPLICAS]
                    await fleet.remove(address)
                    await fleet.add(address)
                    await further(direct, proxied)
                check(direct, proxied)


async def test_replicas_replaced_by_others_under_load_fail_no_call(tmp_path: Path) -> None:
    """A rolling update with maxSurge 1 and maxUnavailable 0: the new one serves before the old one is asked to end."""
    async with Fleet() as fleet:
        for _ in range(REPLICAS):
            await fleet.add()
        with Nginx(tmp_path, *of_name(NAME, fleet.port, fleet.names.port)) as nginx:
            async with Callers(fleet.target) as direct, Callers(nginx.target) as proxied:
                for _ in range(REPLACEMENTS):
                    oldest = next(iter(fleet.replicas))
                    await fleet.add()
                    await fleet.remove(oldest)
                    await further(direct, proxied)
                check(direct, proxied)


async def further(*callers: Callers) -> None:
    """Each is answered a few times more."""
    await asyncio.wait_for(asyncio.gather(*(each.further(BETWEEN) for each in callers)), timeout=60)


def check(*callers: Callers) -> None:
    for each in callers:
        assert not each.failed, each.failed[:3]
        assert each.calls > 0
