"""A model that is replaced again and again while callers ask: nothing fails, nothing is mixed.

`python -m tests.system.swapping --swaps 100 --callers 32` runs the long form, and prints its
figures.
"""

from __future__ import annotations

import argparse
import collections
import itertools
import json
import os
import signal
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from headlight import Client
from headlight.runtime import Runtime
from headlight.runtime.values import Floats
from tests.system.conftest import bundle_of
from tests.system.processes import Service
from tests.versions import version_of

TEXTS = ["abc", "the reverse", "of a short text", "another", "five", "six of them"]
TOLERANCE = 1e-5  # two versions are 1e-2 apart
FACTORS = (0.9, 1.1)
SETTLED = 5  # swaps after which the memory is compared
MODELS = """
[[model]]
source = "{source}"
name = "search"
max_items = 2
"""


class Shelf:
    """Versions of a bundle, and a link to one of them that is swapped as Kubernetes does it."""

    def __init__(self, folder: Path) -> None:
        bundle = bundle_of("reverse-learned")
        self.versions = [version_of(bundle, folder / f"v{each}", each) for each in FACTORS]
        self.link = folder / "current"
        self.show(self.versions[0])

    def show(self, version: Path) -> None:
        """Let the link lead to a version, in one step."""
        new = self.link.with_name("..data")
        new.symlink_to(version)
        new.replace(self.link)

    def expected(self) -> dict[str, Floats]:
        """Return the vectors of TEXTS by each version."""
        found = {}
        for version in self.versions:
            with Runtime(version, provider="cpu", threads=1) as runtime:
                found[runtime.model().version] = runtime.encode(TEXTS)
        return found

    def file(self) -> Path:
        """Write a file of models with the link as the only source."""
        file = self.link.with_name("models.toml")
        file.write_text(MODELS.format(source=self.link), encoding="utf-8")
        return file


class Callers:
    """Threads that encode TEXTS without a pause; every other one sends a list of three requests."""

    def __init__(self, target: str, expected: Mapping[str, Floats], count: int) -> None:
        self.answers = collections.Counter[str]()
        self.wrong, self.failed = 0, list[str]()
        self._target, self._expected = target, expected
        self._stop, self._lock = threading.Event(), threading.Lock()
        self._threads = [
            threading.Thread(target=self._call, args=(2 if number % 2 else len(TEXTS),))
            for number in range(count)
        ]

    def __enter__(self) -> Callers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _call(self, texts: int) -> None:
        with Client(self._target, model="search", timeout=60) as client:
            while not self._stop.is_set():
                try:
                    found = client.encode_with_info(TEXTS[:texts])
                except Exception as error:
                    with self._lock:
                        self.failed.append(repr(error))
                    continue
                right = self._expected[found.model.version][:texts]
                fits = np.abs(found.vectors - right).max() <= TOLERANCE
                with self._lock:
                    self.answers[found.model.version] += 1
                    self.wrong += not fits


def swap(service: Service, shelf: Shelf, versions: Sequence[Path]) -> None:
    """Show one version after the other; each is loaded, and the one before has gone."""
    for version in versions:
        shelf.show(version)
        service.process.send_signal(signal.SIGHUP)
        service.wait_for("model_loaded")
        service.wait_for("model_gone")


def run(folder: Path, swaps: int, callers: int) -> dict[str, Any]:
    """Swap so often under so many callers, and return the figures."""
    shelf = Shelf(folder)
    expected = shelf.expected()
    later = [*itertools.islice(itertools.cycle(shelf.versions[::-1]), swaps)]
    with Service(f"--models={shelf.file()}") as service:
        with Callers(service.target, expected, callers) as calling:
            swap(service, shelf, later[:SETTLED])
            before = service.resident_bytes()
            swap(service, shelf, later[SETTLED:])
            after = service.resident_bytes()
        loaded = service.counted('headlight_model_loads_total{model="search",result="loaded"}')
        failures = service.failures()
    return {
        "swaps": int(loaded),
        "callers": callers,
        "answers": dict(calling.answers),
        "wrong": calling.wrong,
        "failed": calling.failed,
        "errors in the log": failures,
        "memory after 5 swaps, MiB": before >> 20,
        "memory at the end, MiB": after >> 20,
    }


def main() -> None:
    """Run the long form."""
    parser = argparse.ArgumentParser(prog="python -m tests.system.swapping")
    parser.add_argument("--swaps", type=int, default=100)
    parser.add_argument("--callers", type=int, default=32)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as folder:
        print(json.dumps(run(Path(folder), options.swaps, options.callers), indent=1))


if __name__ == "__main__":
    main()
