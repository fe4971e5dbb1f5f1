"""A bundle served by a process of its own, for the examples."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO

STOP_SECONDS = 60


@contextlib.contextmanager
def served(bundle: Path) -> Iterator[str]:
    """Run `headlight serve` on a free port, yield HOST:PORT of gRPC, and stop it in any case.

    Raises:
        RuntimeError: the service ended before it could serve; the message has its log.
    """
    command = [sys.executable, "-m", "headlight", "serve", "--bundle", str(bundle)]
    command += ["--grpc", "127.0.0.1:0", "--metrics", "127.0.0.1:0", "--api", "off"]
    command += ["--log-format", "json"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, encoding="utf-8") as process:
        assert process.stderr is not None
        reader = threading.Thread(target=process.stderr.read)  # a full pipe would stop the service
        try:
            port = serving_port(process.stderr)
            reader.start()
            yield f"127.0.0.1:{port}"
        finally:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(STOP_SECONDS)
            process.kill()
            if reader.ident is not None:
                reader.join()


def serving_port(log: IO[str]) -> int:
    """Read the service's log until it serves, and return its port of gRPC."""
    port, lines = 0, []
    for line in log:
        lines.append(line)
        entry = json.loads(line) if line.startswith("{") else {}
        port = entry.get("grpc_port", port)
        if entry.get("event") == "serving":
            return int(port)
    raise RuntimeError(f"the service ended before it could serve; its log:\n{''.join(lines)}")
