"""A real Prometheus scrapes the service, and promtool accepts the metrics.

No caller can make the metrics grow.
"""

from __future__ import annotations

import contextlib
import functools
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from headlight import Client
from headlight.pb import headlight_pb2 as pb
from headlight.pb import headlight_pb2_grpc as pb_grpc
from tests.system.conftest import bundle_of
from tests.system.processes import Service
from tests.system.scraper import Prometheus

CONFIG = """
global: {scrape_interval: 200ms}
scrape_configs:
  - job_name: headlight
    static_configs: [{targets: ["TARGET"]}]
"""


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    """Start a separate service, because its metrics are counted here."""
    with Service(bundle_of("docs-rope")) as running:
        yield running


@pytest.fixture
def prometheus(service: Service, tmp_path: Path) -> Iterator[Prometheus]:
    running = Prometheus(CONFIG.replace("TARGET", service.http), tmp_path)
    try:
        yield running
    finally:
        running.stop()


def exposition(service: Service) -> str:
    with urllib.request.urlopen(f"http://{service.http}/metrics", timeout=60) as answer:
        return str(answer.read().decode())


def series(service: Service) -> set[str]:
    return {
        line.rpartition(" ")[0]
        for line in exposition(service).splitlines()
        if not line.startswith("#")
    }


def read(prometheus: Prometheus, texts: str) -> dict[str, Any]:
    """Return all expected values of one scrape.

    If the service is slow to answer one, there is nothing until the next.
    """
    ours = prometheus.get("query", query='{__name__=~"headlight_.+"}')["result"]
    models = {found["metric"]["__name__"]: found["metric"].get("model") for found in ours}
    median = (
        "histogram_quantile(0.5, "
        "headlight_stage_seconds_bucket{stage='total',priority='interactive'})"
    )
    return {
        "target": [
            (target["health"], target["lastError"])
            for target in prometheus.get("targets")["activeTargets"]
        ],
        "texts": prometheus.value(texts),
        "attended": prometheus.value('headlight_attend_runs_total{model="docs-rope"}') >= 1,
        "took time": prometheus.value(median) > 0,
        "of no model": {name for name, model in models.items() if model is None},
        "models": set(models.values()),
    }


def test_prometheus_scrapes_the_counted_values(service: Service, prometheus: Prometheus) -> None:
    texts = 'headlight_texts_total{model="docs-rope",priority="interactive"}'
    before = next(
        float(line.split()[-1])
        for line in exposition(service).splitlines()
        if line.startswith(texts)
    )
    with Client(service.target) as client:
        client.encode(["one", "two words"])
        client.attend("three")
    expected = {
        "target": [("up", "")],
        "texts": before + 3,
        "attended": True,
        "took time": True,
        "of no model": {
            *("headlight_ready", "headlight_stuck"),
            *("headlight_grpc_restarts_total", "headlight_log_lines_dropped_total"),
            "headlight_requests_total",
        },
        "models": {"docs-rope", None},
    }
    found: dict[str, Any] = {}

    def as_expected() -> bool:
        found.update(read(prometheus, texts))
        return found == expected

    try:
        prometheus.until(as_expected)
    finally:
        assert found == expected


def test_promtool_accepts_the_metrics(service: Service) -> None:
    with Client(service.target) as client:
        client.attend("one")
    done = subprocess.run(
        ["promtool", "check", "metrics"],
        input=exposition(service),
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


HOSTILE = [
    *(f"/headlight.v1.HeadlightService/Made{place}" for place in range(50)),
    *(f"/made.up{place}.Service/Encode" for place in range(50)),
    '/a/b"} 1\n evil{x="',
    "/" + "x" * 4000,
    "/",
    "//",
    "/headlight.v1.HeadlightService/Encode/",
    "/headlight.v1.HeadlightService/encode",
]


def ended(call: Callable[[], Any]) -> grpc.StatusCode | None:
    with pytest.raises(grpc.RpcError) as refused:
        call()
    return refused.value.code()


def test_names_invented_by_callers_create_no_series(service: Service) -> None:
    """For methods, of each of the four kinds of call, and for models."""
    names = [f"made-up-{place}" for place in range(50)] + [
        'x"} 1\nevil{y="',
        "x" * 4000,
        "DOCS-ROPE",
        " docs-rope",
    ]
    with contextlib.closing(grpc.insecure_channel(service.target)) as open_channel:
        channel: Any = open_channel
        kinds: list[Callable[[str], Any]] = [
            lambda method: channel.unary_unary(method)(b"", timeout=30),
            lambda method: list(channel.unary_stream(method)(b"", timeout=30)),
            lambda method: channel.stream_unary(method)(iter([b""]), timeout=30),
            lambda method: list(channel.stream_stream(method)(iter([b""]), timeout=30)),
        ]
        stub = pb_grpc.HeadlightServiceStub(channel)

        def stream(name: str) -> list[int]:
            asked = [pb.EncodeStreamRequest(id=name[:9], encode=pb.EncodeRequest(model=name))]
            return [frame.error.code for frame in stub.EncodeStream(iter(asked), timeout=30)]

        def ask(name: str) -> set[grpc.StatusCode | None]:
            unary = (
                lambda: stub.Encode(pb.EncodeRequest(model=name)),
                lambda: stub.Tokenize(pb.TokenizeRequest(model=name)),
                lambda: stub.GetModel(pb.GetModelRequest(model=name)),
            )
            assert stream(name) == [grpc.StatusCode.NOT_FOUND.value[0]]
            return set(map(ended, unary))

        ended(lambda: kinds[0]("/made.up/Once"))  # the series `other`
        ask("once")  # NOT_FOUND of each method
        before = series(service)
        while not any('method="EncodeStream"' in each for each in before):
            before = series(service)  # a stream is counted a moment after its end
        codes = {ended(functools.partial(kind, method)) for method in HOSTILE for kind in kinds}
        missing = set().union(*map(ask, names))
    assert codes == {grpc.StatusCode.UNIMPLEMENTED}
    assert missing == {grpc.StatusCode.NOT_FOUND}
    assert series(service) == before
