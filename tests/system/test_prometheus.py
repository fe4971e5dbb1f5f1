"""A real Prometheus scrapes the service; promtool has no complaint; no caller can make the metrics grow."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import urllib.error
import urllib.parse
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

START_SECONDS = 60
CONFIG = """
global: {{scrape_interval: 200ms}}
scrape_configs:
  - job_name: headlight
    static_configs: [{{targets: ["{target}"]}}]
"""


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    """A service of its own, for its metrics are counted here."""
    with Service(bundle_of("docs-rope")) as running:
        yield running


class Prometheus:
    """Debian's prometheus on loopback, its data in a folder of the test's."""

    def __init__(self, target: str, folder: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{probe.getsockname()[1]}"
        config = folder / "prometheus.yml"
        config.write_text(CONFIG.format(target=target), encoding="ascii")
        paths = [f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}"]
        command = ["prometheus", *paths, f"--web.listen-address={self.address}", "--log.level=error"]
        self._log = (folder / "log").open("w")
        self.process = subprocess.Popen(command, stdout=self._log, stderr=self._log)

    def get(self, path: str, **query: str) -> Any:
        url = f"http://{self.address}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(url, timeout=10) as response:
            return json.load(response)["data"]

    def until(self, condition: Callable[[], bool]) -> None:
        """Ask again and again; a pause between is the process's own, whose end would show here."""
        for _ in range(10 * START_SECONDS):
            with contextlib.suppress(urllib.error.URLError):
                if condition():
                    return
            with contextlib.suppress(subprocess.TimeoutExpired):
                raise AssertionError(f"prometheus ended with {self.process.wait(0.1)}")
        raise AssertionError("it never came to that")

    def value(self, query: str) -> float:
        """Of the only series that matches; 0 where there is none yet."""
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


@pytest.fixture
def prometheus(service: Service, tmp_path: Path) -> Iterator[Prometheus]:
    running = Prometheus(service.http, tmp_path)
    try:
        yield running
    finally:
        running.stop()


def exposition(service: Service) -> str:
    with urllib.request.urlopen(f"http://{service.http}/metrics", timeout=10) as answer:
        return str(answer.read().decode())


def series(service: Service) -> set[str]:
    return {line.rpartition(" ")[0] for line in exposition(service).splitlines() if not line.startswith("#")}


def test_prometheus_reads_what_was_counted(service: Service, prometheus: Prometheus) -> None:
    texts = 'headlight_texts_total{model="docs-rope",priority="interactive"}'
    before = next(float(line.split()[-1]) for line in exposition(service).splitlines() if line.startswith(texts))
    with Client(service.target) as client:
        client.encode(["one", "two words"])
        client.attend("three")
    prometheus.until(lambda: prometheus.value(texts) == before + 3)
    [target] = prometheus.get("targets")["activeTargets"]
    assert (target["health"], target["lastError"]) == ("up", "")
    assert prometheus.value('headlight_attend_runs_total{model="docs-rope"}') >= 1
    assert (
        prometheus.value(
            "histogram_quantile(0.5, headlight_stage_seconds_bucket{stage='total',priority='interactive'})"
        )
        > 0
    )
    ours = prometheus.get("query", query='{__name__=~"headlight_.+"}')["result"]
    models = {found["metric"]["__name__"]: found["metric"].get("model") for found in ours}
    assert {name for name, model in models.items() if model is None} == {"headlight_ready", "headlight_stuck"}
    assert set(models.values()) == {"docs-rope", None}


def test_promtool_has_no_complaint(service: Service) -> None:
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


def test_no_name_that_a_caller_invents_becomes_a_series(service: Service) -> None:
    """Whatever is invented: the method, of each of the four kinds of call, or the model."""
    names = [f"made-up-{place}" for place in range(50)] + ['x"} 1\nevil{y="', "x" * 4000, "DOCS-ROPE", " docs-rope"]
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
        codes = {ended(lambda kind=kind, method=method: kind(method)) for method in HOSTILE for kind in kinds}  # type: ignore[misc]  # bound now
        missing = set().union(*map(ask, names))
    assert codes == {grpc.StatusCode.UNIMPLEMENTED}
    assert missing == {grpc.StatusCode.NOT_FOUND}
    assert series(service) == before
