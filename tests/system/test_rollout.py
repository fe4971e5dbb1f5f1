"""Replicas restarted, replaced and added under load: no call fails.

Behind the client's own balancing and behind nginx.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.system.fleet import CROWD, Callers, Crowd, Fleet
from tests.system.names import NAME
from tests.system.nginx import Nginx, of_addresses, of_name

REPLICAS = 3
RESTARTS = 12  # in place
REPLACEMENTS = 9  # each new one at an address of its own, as pods are
BETWEEN = 6  # calls of each client from one restart to the next
EVEN = 0.8
# Maximum connection age, instead of minutes: after it a client looks for new replicas.
AGE_SECONDS = 5


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


async def test_restarts_in_place_fail_none_of_many_parallel_calls() -> None:
    """A replica that refuses is free at once, and would attract most of the calls of many clients,
    until they have no retries left.
    """
    async with Fleet(model="docs-rope") as fleet:  # whose calls take longer than refusals
        addresses = [await fleet.add() for _ in range(REPLICAS)]
        async with Crowd(fleet.target) as crowd:
            for address in addresses:
                await fleet.remove(address)
                await fleet.add(address)
                await crowd.further(CROWD * BETWEEN)
            assert not crowd.failed, crowd.failed[:3]


async def test_replicas_replaced_by_others_under_load_fail_no_call(tmp_path: Path) -> None:
    """A rolling update with maxSurge 1 and maxUnavailable 0.

    The new one serves before the old one gets SIGTERM.
    """
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


async def test_load_is_balanced_after_a_replica_joins() -> None:
    async with Fleet("--max-connection-age-seconds", str(AGE_SECONDS)) as fleet:
        for _ in range(REPLICAS - 1):
            await fleet.add()
        async with Callers(fleet.target) as direct:
            await fleet.add()
            await asyncio.wait_for(even(fleet, direct), timeout=60)
            check(direct)


async def even(fleet: Fleet, callers: Callers) -> None:
    """Wait until every replica has had its minimal share of some calls in a row."""
    shares = [0.0]
    while min(shares) < EVEN * sum(shares) / len(shares) or not sum(shares):
        before = fleet.answered()
        await callers.further(30 * REPLICAS)
        shares = [count - before[address] for address, count in fleet.answered().items()]


async def further(*callers: Callers) -> None:
    """Wait until each caller has a few more answers."""
    await asyncio.wait_for(asyncio.gather(*(each.further(BETWEEN) for each in callers)), timeout=60)


def check(*callers: Callers) -> None:
    for each in callers:
        assert not each.failed, each.failed[:3]
        assert each.calls > 0
