"""Models replaced, loaded and unloaded while clients call: F27 and F28.

Each answer is compared with the vectors of the version that it names.
"""

from __future__ import annotations

import itertools
import math
import random
import signal
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import grpc
import numpy as np

from headlight import Client
from headlight.errors import NotFound
from headlight.pb import admin_pb2 as pb
from headlight.pb.admin_pb2_grpc import AdminServiceStub
from headlight.runtime.values import Floats
from tests.chaos.flat import MIB, Sample, flatness
from tests.chaos.record import Outcome
from tests.ports import free_address
from tests.system.conftest import bundle_of
from tests.system.processes import Service
from tests.system.shelf import TEXTS, TOLERANCE, Shelf, vectors_of
from tests.versions import version_of

MOST_PROBLEMS = 3  # that are listed
SWAPS, SWAP_CALLERS = 20, 32
WARM_SWAPS = 5  # after which memory is compared
GROWTH = 1.05
SECONDS, RANDOM_CALLERS = 30.0, 6
LEAST_CHANGES = 60  # on a slow machine too: each version is loaded, and memory can be judged
FACTORS = [round(0.8 + 0.04 * number, 2) for number in range(10)]
NAME, TOKEN = "reverse-learned", "an-administrator-token"
ABSENT = "not served at that moment"


class Callers:
    """Threads that call without a pause, half of them with a list of texts.

    Attributes:
        served: since when each version can be addressed; "": any of them.
        ends: calls by the version that answered right, ABSENT, or a problem.
    """

    def __init__(
        self,
        target: str,
        expected: Mapping[str, Floats],
        models: Mapping[str, str],
        *,
        count: int,
        seed: int,
    ) -> None:
        """Create the threads; they call once the context is entered.

        Args:
            target: host:port.
            expected: the vectors of TEXTS by version.
            models: the names that are addressed, and the version of each; "": any.
            count: of threads.
            seed: of the names' order.
        """
        self.served, self.ends = {"": 0.0}, Counter[str]()
        self._target, self._expected, self._models = target, expected, models
        self._stop, self._lock = threading.Event(), threading.Lock()
        self._threads = [
            threading.Thread(target=self._call, args=(random.Random(f"{seed} {number}"), texts))
            for number, texts in zip(range(count), itertools.cycle((len(TEXTS), 2)), strict=False)
        ]

    def __enter__(self) -> Callers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _call(self, chance: random.Random, texts: int) -> None:
        with ExitStack() as stack:
            clients = [
                (stack.enter_context(Client(self._target, model=model, timeout=60)), version)
                for model, version in self._models.items()
            ]
            while not self._stop.is_set():
                end = self.end_of(*chance.choice(clients), texts)
                with self._lock:
                    self.ends[end] += 1

    def end_of(self, client: Client, version: str, texts: int) -> str:
        """Make a call, and return how it ended, as `ends` has it."""
        begun = time.monotonic()
        try:
            answer = client.encode_with_info(TEXTS[:texts])
            name = answer.model.version
            right = np.abs(answer.vectors - self._expected[name][:texts]).max() <= TOLERANCE
        except NotFound as error:
            loaded = self.served.get(version, math.inf) < begun
            return f"NotFound: {error}" if loaded else ABSENT
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        return name if right and version in ("", name) else f"a wrong answer of {name}"

    def answers(self) -> dict[str, int]:
        """Return the number of right answers by version."""
        return {version: self.ends[version] for version in self._expected}

    def problems(self) -> list[str]:
        """Return calls that ended in another way, and versions that never answered."""
        others = [end for end in self.ends if end not in (*self._expected, ABSENT)]
        silent = [version for version, count in self.answers().items() if not count]
        return [f"{self.ends[end]} calls: {end}"[:400] for end in others[:MOST_PROBLEMS]] + (
            [f"no answer of {', '.join(silent)}"] if silent else []
        )

    def __str__(self) -> str:
        right, absent = sum(self.answers().values()), self.ends[ABSENT]
        others = self.ends.total() - right - absent
        return f"{right:,} answers right, {others} calls failed or wrong" + (
            f", {absent:,} for versions that were {ABSENT}" if absent else ""
        )


def swapped(times: float = 1.0, seed: int = 1) -> Outcome:
    """Replace a model so many times 20 times under 32 callers."""
    memory = list[int]()
    with tempfile.TemporaryDirectory() as folder:
        shelf = Shelf(Path(folder))
        expected, models = vectors_of(shelf.versions), {"search": ""}
        versions = itertools.cycle(shelf.versions[::-1])
        with (
            Service(f"--models={shelf.file()}") as service,
            Callers(service.target, expected, models, count=SWAP_CALLERS, seed=seed) as callers,
        ):
            for version in itertools.islice(versions, round(times * SWAPS)):
                shelf.show(version)
                service.process.send_signal(signal.SIGHUP)
                service.wait_for("model_loaded")
                service.wait_for("model_gone")
                memory.append(service.resident_bytes())
    warm, last = memory[WARM_SWAPS - 1], memory[-1]
    problems = callers.problems() + [str(entry) for entry in service.failures()]
    if last > GROWTH * warm:
        problems.append(f"memory grew from {warm / MIB:.0f} to {last / MIB:.0f} MiB")
    return Outcome(
        f"{len(memory)} swaps: {callers}; memory {warm / MIB:.0f} MiB after {WARM_SWAPS} swaps, "
        f"{last / MIB:.0f} MiB at the end, at most {max(memory) / MIB:.0f} MiB",
        {"answers": callers.answers(), "memory_mib": [round(each / MIB, 1) for each in memory]},
        problems,
    )


def at_random(times: float = 1.0, seed: int = 1) -> Outcome:
    """Load, unload and address ten versions at random for so many times 30 seconds."""
    memory, chance = list[Sample](), random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        root, tokens, address = Path(folder) / "root", Path(folder) / "tokens", free_address()
        root.mkdir()
        tokens.write_text(f"ops {TOKEN}\n", encoding="utf-8")
        expected = vectors_of(
            version_of(bundle_of(NAME), root / f"v{factor}", factor) for factor in FACTORS
        )
        models = {f"{NAME}@{version}": version for version in expected}
        options = (f"--admin-address={address}", f"--admin-tokens={tokens}")
        with (
            Service(bundle_of(NAME), *options, f"--models-root={root}") as service,
            grpc.insecure_channel(address) as channel,
            Callers(service.target, expected, models, count=RANDOM_CALLERS, seed=seed) as callers,
        ):
            admin, end = AdminServiceStub(channel), time.monotonic() + times * SECONDS
            while time.monotonic() < end or len(memory) < LEAST_CHANGES:
                toggle(admin, chance.choice([*expected]), callers.served)
                memory.append(Sample(time.monotonic(), service.resident_bytes()))
    flat = flatness(memory)
    problems = callers.problems() + flat.problems() + [str(each) for each in service.failures()]
    return Outcome(
        f"{len(memory):,} loads and unloads: {callers}; memory after the warm-up: median "
        f"{flat.begin / MIB:.0f} MiB in the first fifth and {flat.end / MIB:.0f} MiB in the last, "
        f"at most {flat.peak / MIB:.0f} MiB",
        {"answers": callers.answers(), "memory_mib": [each.resident // MIB for each in memory]},
        problems,
    )


def toggle(admin: AdminServiceStub, version: str, served: dict[str, float]) -> None:
    """Load a version, or unload it if it is served."""
    metadata = (("authorization", f"Bearer {TOKEN}"),)
    if served.pop(version, None) is None:
        admin.LoadModel(pb.LoadModelRequest(name=version), metadata=metadata)
        served[version] = time.monotonic()
    else:
        admin.UnloadModel(pb.UnloadModelRequest(name=f"{NAME}@{version}"), metadata=metadata)
