"""Wait for a service on this machine that is still starting.

It opens its gRPC port once its model is loaded. Until then /readyz of its metrics port has the
step of the start.
"""

from __future__ import annotations

import re
import socket
import sys
import time

from headlight.cli.doctor.default_ports import HOST, step_of_start
from headlight.errors import DeadlineExceeded

LOCAL = re.compile(r"(?:localhost|127\.0\.0\.1|\[::1\]):(\d+)")
POLL_SECONDS = 0.5
ANSWER_SECONDS = 2.0


def wait_for_start(target: str, timeout: float | None) -> None:
    """Wait while a local service starts, and print its steps on standard error.

    Return at once if something listens at the target, or nothing that starts is known.

    Raises:
        DeadlineExceeded: it still starts after `timeout` seconds; None: wait until it ends.
    """
    local = LOCAL.fullmatch(target)
    if local is None:
        return
    port = int(local[1])
    until = None if timeout is None else time.monotonic() + timeout
    shown = ""
    while not _listens(port) and (step := step_of_start(port)) is not None:
        if step != shown:
            print(f"waiting for the service at {target}, which starts: {step}", file=sys.stderr)
            shown = step
        if until is not None and time.monotonic() >= until:
            raise DeadlineExceeded(f"the service at {target} still starts: {step}")
        time.sleep(POLL_SECONDS)


def _listens(port: int) -> bool:
    try:
        socket.create_connection((HOST, port), ANSWER_SECONDS).close()
    except (OSError, OverflowError):
        return False
    return True
