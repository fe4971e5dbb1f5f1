"""Full and read-only file systems: F18."""

from __future__ import annotations

import asyncio
import shutil
import subprocess

from tests.chaos.record import NotPossible, Outcome
from tests.chaos.traffic.background import Traffic, milliseconds, said
from tests.chaos.traffic.reference import reference
from tests.system.conftest import bundle_of
from tests.system.processes import ROOT, Service

SECONDS = 10.0
# In a mount namespace of its own: everything read-only but /proc and /dev; /tmp has 64 KiB, all of
# them taken.
READ_ONLY = """
set -e
mount --make-rprivate /
mount -t tmpfs -o size=64k tmpfs /tmp
dd if=/dev/zero of=/tmp/full bs=4k 2>/dev/null || true
for place in / $(awk '$3 !~ /proc|sysfs|cgroup/ && $2 != "/" {print $2}' /proc/mounts); do
  case $place in /proc*|/sys*|/dev*|/tmp) ;; *) mount -o remount,bind,ro "$place" || true ;; esac
done
mount -t tmpfs -o size=4k,ro tmpfs /dev/shm 2>/dev/null || true
cd "$PWD"
if touch "$0/written" 2>/dev/null || touch /var/tmp/written 2>/dev/null; then
  echo '"writable"' >&2; exit 3
fi
if echo more > /tmp/more 2>/dev/null; then echo '"room"' >&2; exit 3; fi
exec "$@"
"""


def before() -> tuple[str, ...]:
    """Return the command that starts a process on such file systems."""
    if shutil.which("unshare") is None:
        raise NotPossible("needs unshare (util-linux)")
    command = ("unshare", "--mount", "sh", "-c", READ_ONLY, str(ROOT))
    tried = subprocess.run(
        [*command, "true"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if tried.returncode != 0:
        raise NotPossible(
            f"no read-only mount namespace can be made here: {tried.stderr.strip()[:200]}"
        )
    return command


async def read_only() -> Outcome:
    """Run the service on a read-only root, with a full /tmp."""
    started = before()
    known = await asyncio.to_thread(reference, bundle_of("docs-rope"))
    environment = {"PYTHONDONTWRITEBYTECODE": "1", "HOME": "/nonexistent"}
    with Service(bundle_of("docs-rope"), before=started, environment=environment) as service:
        async with Traffic(service.target, known) as traffic:
            await traffic.run(SECONDS)
        scraped = service.counted("grpc_server_handled_total")
    failures = [
        str(entry)
        for entry in service.log
        if entry.get("level") in ("warning", "error", "critical")
    ]
    problems = traffic.problems() + failures
    return Outcome(
        (
            f"started and served: {said(traffic.outcomes())}, none wrong, "
            f"{milliseconds(traffic.calls)}; /metrics as ever; nothing in the log; exit 0"
        ),
        {"outcomes": dict(traffic.outcomes()), "handled": scraped},
        problems,
    )
