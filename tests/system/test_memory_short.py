"""A process with limited memory.

A request that does not fit is refused at once, and all others are answered.
"""

from __future__ import annotations

import resource
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from headlight import AttentionSpec, Client, Overloaded
from tests.system.conftest import bundle_of
from tests.system.processes import Service

# Enough for small requests and a new copy of the graph; less than each attention request below
# needs.
ROOM = 200 << 20
LONG = [7 + at % 300 for at in range(2048)]
SMALL = [7 + at % 300 for at in range(40)]
AT_ONCE = 30.0  # seconds, on a busy machine; a retry would wait for the whole timeout
WHOLE = AttentionSpec.of()  # 288 MiB of results: NumPy cannot have them
# 48 MiB of results, and buffers of 96 MiB in the engine.
MEAN = AttentionSpec.of(reduce="head_mean")


def allow(service: Service, more: int | None) -> None:
    """Limit the address space to its current size and so many bytes; None: no limit."""
    pages = int(Path(f"/proc/{service.process.pid}/statm").read_text(encoding="ascii").split()[0])
    limit = resource.RLIM_INFINITY if more is None else pages * resource.getpagesize() + more
    resource.prlimit(service.process.pid, resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))


@pytest.mark.parametrize("provider", ["cpu", "openvino"])
def test_attention_beyond_memory_is_refused_and_the_service_continues(provider: str) -> None:
    options = ("--provider", provider, "--threads", "1", "--streams", "2")
    with (
        Service(bundle_of("docs-rope"), *options) as service,
        Client(service.target, timeout=300) as client,
    ):
        vectors, maps = client.encode([SMALL]), client.attend(SMALL).weights
        allow(service, ROOM)
        answered, over = list[bool](), threading.Event()

        def others() -> None:
            while not over.is_set():
                answered.append(bool(np.abs(client.encode([SMALL]) - vectors).max() <= 1e-6))

        with ThreadPoolExecutor(2) as pool:
            beside = [pool.submit(others) for _ in range(2)]
            try:
                for spec in (WHOLE, MEAN):
                    began = time.monotonic()
                    with pytest.raises(
                        Overloaded, match="not enough memory for this request; ask for less"
                    ) as refused:
                        client.attention([LONG], spec)
                    assert time.monotonic() - began < AT_ONCE
                    assert refused.value.retry_after_seconds is None
                    np.testing.assert_array_equal(client.attend(SMALL).weights, maps)
            finally:
                over.set()
            for each in beside:
                each.result(timeout=60)
        assert answered
        assert all(answered)
        assert service.counted('headlight_rejected_total{model="docs-rope",reason="memory"') == 2
        assert service.counted('headlight_rejected_total{model="docs-rope",reason="internal"') == 0
        allow(service, None)
        [whole] = client.attention([LONG], MEAN)
        np.testing.assert_allclose(whole.values.sum(axis=-1), 1, atol=1e-4)
        np.testing.assert_array_equal(client.attend(SMALL).weights, maps)
