"""Ten versions that are loaded, unloaded and addressed at random.

`python -m tests.system.random_models --seconds 300` runs the long form, and prints its figures.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import random
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import grpc
import numpy as np

from headlight import Client
from headlight.errors import NotFound
from headlight.pb import admin_pb2 as pb
from headlight.pb.admin_pb2_grpc import AdminServiceStub
from headlight.runtime import Runtime
from headlight.runtime.values import Floats
from tests.ports import free_address
from tests.system.conftest import bundle_of
from tests.system.processes import Service
from tests.system.swapping import TEXTS, TOLERANCE
from tests.versions import version_of

FACTORS = [round(0.8 + 0.04 * number, 2) for number in range(10)]
TOKEN = "an-administrator-token"
CALLERS = 6


class Callers:
    """Threads that ask versions at random, and compare the answers."""

    def __init__(self, target: str, expected: dict[str, Floats], end: float) -> None:
        self.counts = collections.Counter[str]()
        self._target, self._expected, self._end = target, expected, end
        self._lock = threading.Lock()
        self.threads = [threading.Thread(target=self._call, args=(n,)) for n in range(CALLERS)]
        for thread in self.threads:
            thread.start()

    def _call(self, seed: int) -> None:
        chosen = random.Random(seed)
        while time.monotonic() < self._end:
            outcome = self._ask(chosen.choice([*self._expected]))
            with self._lock:
                self.counts[outcome] += 1

    def _ask(self, version: str) -> str:
        with Client(self._target, model=f"reverse-learned@{version}") as client:
            try:
                found = client.encode_with_info(TEXTS)
            except NotFound:
                return "not served at that moment"
            except Exception as error:
                return f"failed: {error!r}"
        right = np.abs(found.vectors - self._expected[version]).max() <= TOLERANCE
        return "right" if right and found.model.version == version else "wrong"


def change(address: str, service: Service, versions: list[str], end: float) -> list[int]:
    """Load and unload versions at random, and return the memory after each, in MiB."""
    chosen, loaded, memory = random.Random(0), set[str](), list[int]()
    metadata = (("authorization", f"Bearer {TOKEN}"),)
    with grpc.insecure_channel(address) as channel:
        admin = AdminServiceStub(channel)
        while time.monotonic() < end:
            version = chosen.choice(versions)
            if version in loaded:
                request = pb.UnloadModelRequest(name=f"reverse-learned@{version}")
                admin.UnloadModel(request, metadata=metadata)
            else:
                admin.LoadModel(pb.LoadModelRequest(name=version), metadata=metadata)
            loaded ^= {version}
            memory.append(service.resident_bytes() >> 20)
    return memory


def run(folder: Path, seconds: float) -> dict[str, Any]:
    """Load, unload and ask for so long, and return the figures."""
    bundle, root, expected = bundle_of("reverse-learned"), folder / "root", dict[str, Floats]()
    root.mkdir()
    for factor in FACTORS:
        place = version_of(bundle, root / f"v{factor}", factor)
        with Runtime(place, provider="cpu", threads=1) as runtime:
            expected[place.name] = runtime.encode(TEXTS)
    tokens, address = folder / "tokens", free_address()
    tokens.write_text(f"ops {TOKEN}\n", encoding="utf-8")
    options = (f"--admin-address={address}", f"--admin-tokens={tokens}", f"--models-root={root}")
    with Service(bundle, *options) as service:
        end = time.monotonic() + seconds
        calling = Callers(service.target, expected, end)
        memory = change(address, service, [*expected], end)
        for thread in calling.threads:
            thread.join()
        failures = service.failures()
    half = len(memory) // 2
    return {
        "loads and unloads": len(memory),
        **calling.counts,
        "most memory in the first half, MiB": max(memory[:half]),
        "most memory in the second half, MiB": max(memory[half:]),
        "errors in the log": failures,
    }


def main() -> None:
    """Run the long form."""
    parser = argparse.ArgumentParser(prog="python -m tests.system.random_models")
    parser.add_argument("--seconds", type=float, default=300)
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as folder:
        print(json.dumps(run(Path(folder), parser.parse_args().seconds), indent=1))


if __name__ == "__main__":
    main()
