"""What the service holds for one large answer: little more than the answer, however often and however slowly it is read."""

from __future__ import annotations

import threading

from headlight import Client
from tests.system.conftest import bundle_of
from tests.system.processes import Service

TOKENS = 1024  # 18 maps of 4 MiB: as 6 layers of 12 heads have at 512 tokens
REPEATS = 20
CHUNK = 1 << 20
EVERY_SECONDS = 0.005


class Peak:
    """The most resident memory while it is watched."""

    def __init__(self, service: Service) -> None:
        self.resident = 0
        self._service = service
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Peak:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._end.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._end.wait(EVERY_SECONDS):
            self.resident = max(self.resident, self._service.resident_bytes())


def test_whole_maps_of_a_long_text_cost_twice_their_size_and_a_half_every_time() -> None:
    with Service(bundle_of("docs-rope")) as service, Client(service.target) as client:
        ids = [7 + at % 300 for at in range(TOKENS)]
        client.encode([ids])
        base, peaks = service.resident_bytes(), []
        item = 4 * 3 * 6 * TOKENS**2
        for _ in range(REPEATS):
            with Peak(service) as peak:
                assert client.attend(ids).weights.nbytes == item
            peaks.append(peak.resident - base)
    assert max(peaks) <= 2.5 * item + 3 * CHUNK, [round(peak / item, 2) for peak in peaks]
    assert max(peaks[-5:]) <= max(peaks[:5]) + 3 * CHUNK
