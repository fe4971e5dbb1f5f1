"""Two models in one process, one flooded: the other's p99 is within the bound of the docs.

The bound is in docs/serving/several-models.md, "Fair shares".
"""

from __future__ import annotations

import contextlib
import functools
import re
import threading
import time
from collections.abc import Iterator
from typing import Any

import grpc
import numpy as np
import pytest

from headlight.pb import headlight_pb2 as pb
from headlight.pb import headlight_pb2_grpc as pb_grpc
from tests.system.conftest import MODELS, bundle_of
from tests.system.processes import Service, get

FLOODED, LIGHT = MODELS[:2]
TEXT = "def read(path): return json.loads(open(path).read()) "
CALLS = 100
SECONDS = 300


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    file = tmp_path_factory.mktemp("models") / "models.toml"
    tables = [f'[[model]]\nsource = "{bundle_of(name)}"\n' for name in (FLOODED, LIGHT)]
    file.write_text("".join(tables), encoding="utf-8")
    with Service(f"--models={file}", "--streams", "1", "--threads", "1") as running:
        yield running


@contextlib.contextmanager
def flood(stub: Any, requests: int) -> Iterator[list[float]]:
    """Keep so many requests for FLOODED under way; yields the seconds that each took."""
    message = pb.EncodeRequest(inputs=[pb.Input(text=TEXT)] * 16, model=FLOODED)
    over, took, renewed = threading.Event(), list[float](), threading.Event()

    def send() -> None:
        call = stub.Encode.future(message, timeout=SECONDS)
        call.add_done_callback(functools.partial(renew, time.monotonic()))

    def renew(sent: float, call: Any) -> None:
        took.append(time.monotonic() - sent)
        if len(took) >= requests:
            renewed.set()
        if not over.is_set():
            send()

    for _ in range(requests):
        send()
    assert renewed.wait(SECONDS)
    took.clear()
    try:
        yield took
    finally:
        over.set()


def seconds_of_calls(stub: Any) -> list[float]:
    found = []
    for _ in range(CALLS):
        sent = time.monotonic()
        stub.Encode(pb.EncodeRequest(inputs=[pb.Input(text=TEXT)], model=LIGHT), timeout=SECONDS)
        found.append(time.monotonic() - sent)
    return found


def p99_of_batches(service: Service) -> float:
    """Return the upper edge of the bucket that has the p99 of the flooded model's batches."""
    series = rf'headlight_batch_seconds_bucket{{le="(.*?)",model="{FLOODED}",priority="int.*}} (.*)'
    buckets = [(float(le), float(n)) for le, n in re.findall(series, get(service.http, "/metrics"))]
    return next(le for le, count in buckets if count >= 0.99 * buckets[-1][1])


def test_a_flood_on_one_model_leaves_the_others_p99_within_its_bound(service: Service) -> None:
    with contextlib.ExitStack() as stack:
        flooding, calling = (
            pb_grpc.HeadlightServiceStub(
                stack.enter_context(
                    grpc.insecure_channel(service.target, [("grpc.use_local_subchannel_pool", 1)])
                )
            )
            for _ in range(2)
        )
        alone = float(np.quantile(seconds_of_calls(calling), 0.99))
        with flood(flooding, 100) as took:
            light = float(np.quantile(seconds_of_calls(calling), 0.99))
    batch = p99_of_batches(service)
    assert light <= 2 * batch + 2 * alone, "a batch that runs, one more, and its own time"
    assert np.median(took) > 5 * light, "the flood did wait"
