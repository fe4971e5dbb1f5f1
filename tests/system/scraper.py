"""Debian's Prometheus, for tests that query it."""

from __future__ import annotations

import contextlib
import http.client
import json
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.ports import free_address

START_SECONDS = 60


class Prometheus:
    """Debian's prometheus on loopback, with its data in a folder of the test."""

    def __init__(self, config: str, folder: Path) -> None:
        self.address = free_address()
        file = folder / "prometheus.yml"
        file.write_text(config, encoding="utf-8")
        paths = [f"--config.file={file}", f"--storage.tsdb.path={folder / 'data'}"]
        command = [
            "prometheus",
            *paths,
            f"--web.listen-address={self.address}",
            "--log.level=error",
        ]
        self._log = (folder / "log").open("w")
        self.process = subprocess.Popen(command, stdout=self._log, stderr=self._log)

    def get(self, path: str, **query: str) -> Any:
        url = f"http://{self.address}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(url, timeout=60) as response:
            return json.load(response)["data"]

    def until(self, condition: Callable[[], bool], seconds: int = START_SECONDS) -> None:
        """Poll repeatedly; the pause is on the process, so that its end shows."""
        for _ in range(10 * seconds):
            with contextlib.suppress(OSError, http.client.HTTPException):
                if condition():
                    return
            with contextlib.suppress(subprocess.TimeoutExpired):
                raise AssertionError(f"prometheus ended with {self.process.wait(0.1)}")
        raise AssertionError("it never came to that")

    def value(self, query: str) -> float:
        """Return the only matching series; 0 if there is none yet."""
        found = self.get("query", query=query)["result"]
        assert len(found) <= 1, found
        return float(found[0]["value"][1]) if found else 0.0

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(30)
        finally:
            self.process.kill()
            self._log.close()
