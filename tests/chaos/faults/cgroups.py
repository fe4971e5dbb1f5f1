"""Limits of a control group, versions 1 and 2: F12 and F13a."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import statistics
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from tests.chaos.flat import MIB
from tests.chaos.record import NotPossible, Outcome
from tests.chaos.traffic.background import Traffic, milliseconds, said
from tests.chaos.traffic.ledger import Ledger
from tests.chaos.traffic.mix import OPTIONS, Mix
from tests.chaos.traffic.reference import reference
from tests.system.conftest import bundle_of
from tests.system.processes import Service

ROOT = Path("/sys/fs/cgroup")
PERIOD_US = 100_000
SHARE = 0.5  # of one CPU
PHASE_SECONDS = 10.0
DOCUMENTED_BYTES = 2 << 30  # of deploy/base/deployment.yaml
SMALL_BYTES = 48 << 20
MEMORY_SECONDS = 40.0
# A shell that moves itself into the group, then becomes the service.
INTO = 'echo $$ > "$0"; exec "$@"'


class Cgroup:
    """Control group of one controller.

    Attributes:
        join: the file that a process writes its id to.
    """

    def __init__(self, controller: str) -> None:
        two = (ROOT / "cgroup.controllers").exists()
        self._two, self._folder = (
            two,
            (ROOT if two else ROOT / controller) / f"headlight-faults-{os.getpid()}",
        )
        try:
            if two:
                (ROOT / "cgroup.subtree_control").write_text(f"+{controller}", encoding="ascii")
            self._folder.mkdir()
        except OSError as error:
            raise NotPossible(
                f"no control group can be made here: {error.strerror}, {error.filename}"
            ) from None
        self.join = self._folder / "cgroup.procs"
        if not list(self._folder.glob(f"{controller}.*")):
            self.close()
            raise NotPossible(f"control groups here have no controller {controller!r}")

    def set(self, of_one: str, of_two: str, one: int, two: str) -> None:
        """Set a setting, by its name and value in either version."""
        name, value = (of_two, two) if self._two else (of_one, str(one))
        (self._folder / name).write_text(value, encoding="ascii")

    def read(self, of_one: str, of_two: str) -> str:
        return (self._folder / (of_two if self._two else of_one)).read_text(encoding="ascii")

    def before(self) -> tuple[str, ...]:
        """Return the command that starts a process in the group."""
        return "sh", "-c", INTO, str(self.join)

    def close(self) -> None:
        """Remove the group and end the processes in it, all started here."""
        for process in self.join.read_text(encoding="ascii").split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(process), signal.SIGKILL)
        for _ in range(100):  # an ended process leaves the group a moment later
            with contextlib.suppress(OSError):
                self._folder.rmdir()
                return
            time.sleep(0.05)
        raise AssertionError(f"{self._folder} is still in use")


@contextlib.contextmanager
def control_group(controller: str) -> Iterator[Cgroup]:
    made = Cgroup(controller)
    try:
        yield made
    finally:
        made.close()


def counted(text: str, name: str) -> int:
    """Return a number from lines of names and numbers."""
    return next((int(line.split()[1]) for line in text.splitlines() if line.split()[0] == name), 0)


async def cpu() -> Outcome:
    """Limit the service to half a CPU under load; then lift the limit."""
    known = await asyncio.to_thread(reference, bundle_of("docs-rope"))
    with (
        control_group("cpu") as limits,
        Service(bundle_of("docs-rope"), before=limits.before()) as service,
    ):
        async with Traffic(
            service.target, known, callers=3, timeout=30, allowed=("RESOURCE_EXHAUSTED",)
        ) as traffic:
            free = await traffic.run(PHASE_SECONDS)
            quota = int(SHARE * PERIOD_US)
            limits.set("cpu.cfs_quota_us", "cpu.max", quota, f"{quota} {PERIOD_US}")
            throttled = await traffic.run(2 * PHASE_SECONDS)
            stuck = service.counted("headlight_stuck")
            limits.set("cpu.cfs_quota_us", "cpu.max", -1, "max")
            times = counted(limits.read("cpu.stat", "cpu.stat"), "nr_throttled")
            await traffic.run(2)
            again = await traffic.run(PHASE_SECONDS)
    problems = traffic.problems() + (["called itself dead"] if stuck else [])
    before, after = (statistics.median(call.seconds for call in calls) for calls in (free, again))
    if after > 2 * before + 0.02:
        problems.append(f"median {1e3 * after:.0f} ms afterwards, {1e3 * before:.0f} ms before")
    if times < 20:
        problems.append(f"throttled only {times} times: this shows nothing")
    return Outcome(
        (
            f"{said(traffic.outcomes())}, none wrong; before: {milliseconds(free)}; throttled "
            f"({times} times): {milliseconds(throttled)}; afterwards: "
            f"{milliseconds(again)}; liveness kept"
        ),
        {"outcomes": dict(traffic.outcomes()), "throttled": times},
        problems,
    )


async def memory() -> Outcome:
    """Run the soak's mix of good and bad calls under the documented memory limit.

    Then with a limit that is too low.
    """
    bundle = bundle_of("docs-rope")
    known, ledger = await asyncio.to_thread(reference, bundle), Ledger()
    with control_group("memory") as limits:
        whole = str(DOCUMENTED_BYTES)
        limits.set("memory.limit_in_bytes", "memory.max", DOCUMENTED_BYTES, whole)
        with Service(bundle, *OPTIONS, before=limits.before()) as service:
            async with Mix(service.target, known, ledger, 12, seed=5) as mix:
                await mix.run(MEMORY_SECONDS)
            peak = int(limits.read("memory.max_usage_in_bytes", "memory.peak"))
            resident = service.peak_bytes()
        kills = counted(limits.read("memory.oom_control", "memory.events"), "oom_kill")
    small = await asyncio.to_thread(too_small)
    outcomes = {status: 0 for _, status in ledger.outcomes}
    for (_, status), count in ledger.outcomes.items():
        outcomes[status] += count
    problems = [*ledger.problems(), *small.problems] + (
        [f"{kills} kills by the kernel"] if kills else []
    )
    listed = ", ".join(
        f"{count:,} {status}"
        for status, count in sorted(outcomes.items(), key=lambda each: -each[1])
    )
    return Outcome(
        (
            f"at 2 GiB: {ledger.ended:,} calls ({listed}), each answer compared, {kills} kills, "
            f"at most {resident / MIB:.0f} MiB resident ({peak / MIB:.0f} MiB with file "
            f"cache); {small.seen}"
        ),
        {
            "outcomes": outcomes,
            "oom_kills": kills,
            "peak_resident_mib": resident / MIB,
            **small.figures,
        },
        problems,
    )


def too_small() -> Outcome:
    """Start the service with far less memory than it needs: the kernel kills it.

    It returns no wrong answer.
    """
    with control_group("memory") as limits:
        limits.set("memory.limit_in_bytes", "memory.max", SMALL_BYTES, str(SMALL_BYTES))
        with contextlib.suppress(OSError):  # no swap, or no swap accounting
            limits.set("memory.memsw.limit_in_bytes", "memory.swap.max", SMALL_BYTES, "0")
        try:
            with Service(bundle_of("docs-rope"), before=limits.before()):
                ended = "the service served all the same"
        except (AssertionError, OSError, subprocess.TimeoutExpired):
            ended = "the service ended at start-up"
        kills = counted(limits.read("memory.oom_control", "memory.events"), "oom_kill")
    return Outcome(
        f"at {SMALL_BYTES // MIB} MiB, far too little, {ended} (killed by the kernel: {kills})",
        {"small": ended, "small_kills": kills},
    )
