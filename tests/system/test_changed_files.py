"""Bundle files that change while the service handles calls.

No answer changes, and nothing crashes.
"""

from __future__ import annotations

import itertools
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from headlight import Client
from tests.system.conftest import bundle_of
from tests.system.processes import Service

TEXTS = [
    "join two paths",
    "read the lines of a file and close it",
    "sort a list of words by their length",
]
CALLERS = 3
CALLS = 2  # calls of each caller after each change: the first may have started before it
TIMEOUT_SECONDS = 60
TOLERANCE = 2e-5  # between batches with other batch-mates


def overwrite(path: Path) -> None:
    data = path.read_bytes()
    with path.open("r+b") as file:
        file.write(bytes(255 - byte for byte in data[:65536]) + data[65536:][::-1])


def truncate(path: Path) -> None:
    os.truncate(path, 0)


def replace(path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(b"another file")
    other.rename(path)


class Callers:
    """Threads that repeat a request, and compare each answer with the first."""

    def __init__(self, target: str) -> None:
        self.problems: list[str] = []
        self._counts = [0] * CALLERS
        self._changed, self._ended = threading.Condition(), False
        self._threads = [
            threading.Thread(target=self._call, args=(target, n), daemon=True)
            for n in range(CALLERS)
        ]
        for thread in self._threads:
            thread.start()

    def _call(self, target: str, number: int) -> None:
        text, first = TEXTS[number % len(TEXTS)], None
        try:
            with Client(target, timeout=TIMEOUT_SECONDS) as client:
                while not self._ended:
                    answer = client.attend(text)
                    got = np.concatenate([answer.weights.ravel(), client.encode([text])[0].ravel()])
                    first = got if first is None else first
                    np.testing.assert_allclose(got, first, rtol=0, atol=TOLERANCE)
                    with self._changed:
                        self._counts[number] += 1
                        self._changed.notify_all()
        except Exception as error:
            self.problems.append(f"{type(error).__name__}: {error}")
        with self._changed:
            self._changed.notify_all()

    def wait_for_calls(self) -> None:
        """Wait until each has had `CALLS` more answers, or one has a problem."""
        with self._changed:
            wanted = [count + CALLS for count in self._counts]
            done = self._changed.wait_for(
                lambda: (
                    self.problems or all(a >= b for a, b in zip(self._counts, wanted, strict=True))
                ),
                TIMEOUT_SECONDS,
            )
        assert done, "the service answers no more"

    def end(self) -> None:
        self._ended = True
        for thread in self._threads:
            thread.join(TIMEOUT_SECONDS)


# In this order the first two change the files that the service has read, and not later ones.
CHANGES: tuple[Callable[[Path], None], ...] = (overwrite, truncate, replace, Path.unlink)


@pytest.mark.parametrize("provider", ["cpu", "openvino"])
def test_changed_bundle_files_do_not_change_answers(provider: str, tmp_path: Path) -> None:
    if provider == "openvino":
        pytest.importorskip("openvino")
    bundle = Path(shutil.copytree(bundle_of("docs-rope"), tmp_path / "bundle"))
    with Service(bundle, "--provider", provider) as service:
        callers = Callers(service.target)
        try:
            callers.wait_for_calls()
            for change, path in itertools.product(CHANGES, sorted(bundle.iterdir())):
                change(path)
                callers.wait_for_calls()
                assert callers.problems == [], (change, path.name)
                assert service.process.poll() is None, (change, path.name)
        finally:
            callers.end()
        assert callers.problems == []
