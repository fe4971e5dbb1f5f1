"""A real Prometheus with the shipped rules scrapes the real service under every kind of traffic.

The service has TLS, tokens and quotas. No expression is empty. kube-state-metrics is absent without
a cluster, so a page with the names that are read of it stands in (KUBE_STATE in
deploy/prometheus/names.py), with healthy values: their meaning is not tested here.
"""

from __future__ import annotations

import contextlib
import http.server
import math
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
import yaml

from deploy.check.rules import queries, substituted
from deploy.grafana import dashboard
from deploy.prometheus import sources
from deploy.prometheus.names import KUBE_STATE
from headlight import AttentionSpec, Client, InvalidInput, Unauthenticated
from headlight.pb import headlight_pb2 as pb
from headlight.pb import headlight_pb2_grpc as pb_grpc
from tests.certificates import Authority
from tests.promql import selectors, without_conditions
from tests.system.conftest import bundle_of
from tests.system.processes import Service
from tests.system.scraper import Prometheus

TRIES = 50  # streams that reach their deadline, until one has been counted as such
LATE = 'grpc_server_handled_total{grpc_code="DEADLINE_EXCEEDED"'
SECONDS = 30  # until all is scraped and recorded
TOKEN = "the-token-of-search-in-a-test"
BEARER = (("authorization", f"Bearer {TOKEN}"),)
TEXT = "def read(path): return json.loads(open(path).read()) "
PLACE = {
    "namespace": "test",
    "pod": "headlight-0",
    "container": "headlight",
}  # as the operator labels the pods of a PodMonitor
RULES = [(rule.get("alert") or rule["record"], rule["expr"]) for rule in sources.rules()]


class StandIn(http.server.BaseHTTPRequestHandler):
    """Page of metrics for components that are absent here."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.end_headers()
        self.wfile.write("\n".join((*KUBE_STATE.values(), "")).encode())

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def stand_in() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), StandIn) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def prometheus(stand_in: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """Return a Prometheus that scraped the service before and after the traffic.

    The service has a short queue.
    """
    folder = tmp_path_factory.mktemp("access")
    authority = Authority(folder / "authority")
    pair = authority.sign("headlight", days=90)
    (folder / "tokens").write_text(f"search {TOKEN}\n", encoding="ascii")
    queue = ("--max-queue-tokens", "16384", "--quota-tokens-per-second", "1000000")
    tls = ("--tls-cert", str(pair.cert), "--tls-key", str(pair.key), "--health", "127.0.0.1:0")
    with Service(
        bundle_of("docs-rope"), *queue, *tls, "--auth-tokens", str(folder / "tokens")
    ) as service:
        jobs = [
            {
                "job_name": "headlight",
                "static_configs": [{"targets": [service.http], "labels": PLACE}],
            },
            {
                "job_name": "kube-state-metrics",
                "honor_labels": True,
                "static_configs": [{"targets": [stand_in], "labels": PLACE}],
            },
        ]
        config = {
            "global": {"scrape_interval": "200ms", "evaluation_interval": "500ms"},
            "rule_files": [str(path) for path in sources.RULE_FILES],
            "scrape_configs": jobs,
        }
        running = Prometheus(yaml.safe_dump(config), tmp_path_factory.mktemp("prometheus"))
        try:
            running.until(lambda: running.value('headlight_texts_total{priority="bulk"} + 1') == 1)
            drive(service, authority.cert)
            yield running
        finally:
            running.stop()


def drive(service: Service, ca: Path) -> None:
    """Make every kind of traffic.

    Unary, streams, attention, bulk, late, invalid, over quota, and without a token.
    """
    many, target = [TEXT * 4] * 150, service.target
    credentials = grpc.ssl_channel_credentials(ca.read_bytes())
    with contextlib.closing(grpc.secure_channel(target, credentials)) as channel:
        stub: Any = pb_grpc.HeadlightServiceStub(channel)
        message = pb.EncodeRequest(inputs=[pb.Input(text=text) for text in many])
        until_one_is_counted_as_late(service, stub)
        with Client(target, tls_ca=ca) as stranger, pytest.raises(Unauthenticated):
            stranger.model()
        with Client(target, tls_ca=ca, token=TOKEN) as client:
            client.model()
            client.tokenize([TEXT])
            client.encode([TEXT, "one", "two words"])
            client.encode(["in bulk"] * 40, priority="bulk")
            client.attend(TEXT)
            client.attention(TEXT, AttentionSpec.of(-1, reduce="head_mean"))
            client.occlusion("one two")
            with pytest.raises(InvalidInput):
                client.encode([TEXT * 4000])
        message.priority = pb.PRIORITY_BULK
        flood = [stub.Encode.future(message, timeout=60, metadata=BEARER) for _ in range(40)]
        codes = [call.code() for call in flood]
        assert codes.count(grpc.StatusCode.OK) >= 1
        assert codes.count(grpc.StatusCode.RESOURCE_EXHAUSTED) >= 20


def until_one_is_counted_as_late(service: Service, stub: Any) -> None:
    """Make calls until one is counted as DEADLINE_EXCEEDED.

    A client ends the call by its own clock, maybe before the service has counted it,
    whatever status the service gives it.
    """
    for _ in range(TRIES):
        late(stub)
        if service.counted(LATE):
            return
    pytest.fail(
        f"of {TRIES} streams that ran into their deadline, none was counted as DEADLINE_EXCEEDED"
    )


def late(stub: Any) -> None:
    """Open a stream whose deadline passes while no message is sent."""
    over = threading.Event()

    def silence() -> Iterator[pb.EncodeStreamRequest]:
        over.wait()
        yield from ()

    stub.GetModel(
        pb.GetModelRequest(), timeout=60, metadata=BEARER
    )  # so that the stream does not wait for a connection
    try:
        with pytest.raises(grpc.RpcError) as ended:
            list(stub.EncodeStream(silence(), timeout=0.5, metadata=BEARER))
    finally:
        over.set()
    assert ended.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED


def found(prometheus: Prometheus, expression: str) -> list[float]:
    """Return the current values of its series, without those that are no numbers.

    An expression that is refused raises.
    """
    result = prometheus.get("query", query=expression)["result"]
    return [value for series in result if math.isfinite(value := float(series["value"][1]))]


def all_there(prometheus: Prometheus, expressions: list[tuple[str, str]]) -> None:
    """Wait until each of them has a numeric value."""
    for _, expression in expressions:
        prometheus.get("query", query=expression)  # an error is raised at once
    left = expressions

    def none_left() -> bool:
        nonlocal left
        left = [
            (where, expression) for where, expression in left if not found(prometheus, expression)
        ]
        return not left

    with contextlib.suppress(AssertionError):
        prometheus.until(none_left, SECONDS)
    assert left == []


def test_no_expression_of_the_dashboard_is_empty(prometheus: Prometheus) -> None:
    all_there(prometheus, [(title, substituted(expr)) for title, expr in dashboard.expressions()])


def test_no_recording_rule_is_empty(prometheus: Prometheus) -> None:
    all_there(
        prometheus, [(name, expr) for name, expr in RULES if not name.startswith("Headlight")]
    )
    all_there(prometheus, [(name, name) for name in sorted(sources.recorded())])


def test_every_alert_has_the_series_it_reads(prometheus: Prometheus) -> None:
    """Neither the whole expression without its conditions nor any single selector is empty."""
    alerts = [(name, expr) for name, expr in RULES if name.startswith("Headlight")]
    all_there(prometheus, [(name, without_conditions(expr)) for name, expr in alerts])
    all_there(
        prometheus,
        [(name, selector) for name, expr in RULES for selector in sorted(selectors(expr))],
    )


def test_no_runbook_query_is_empty(prometheus: Prometheus) -> None:
    local = [
        (where, query.replace('namespace="headlight"', 'namespace="test"'))
        for where, query in queries()
    ]
    all_there(prometheus, [(where, without_conditions(query)) for where, query in local])


def test_prometheus_reports_no_rule_errors(prometheus: Prometheus) -> None:
    def rules() -> list[dict[str, Any]]:
        return [rule for group in prometheus.get("rules")["groups"] for rule in group["rules"]]

    prometheus.until(lambda: all(rule["health"] != "unknown" for rule in rules()), SECONDS)
    assert [
        (rule["name"], rule.get("lastError")) for rule in rules() if rule["health"] != "ok"
    ] == []
    assert len(rules()) == len(RULES)


def test_only_the_alert_for_the_flood_fires(prometheus: Prometheus) -> None:
    def firing() -> set[str]:
        return {
            alert["labels"]["alertname"]
            for alert in prometheus.get("alerts")["alerts"]
            if alert["state"] == "firing"
        }

    prometheus.until(lambda: bool(firing()), SECONDS)
    assert firing() == {"HeadlightOverloadBudgetBurn"}


def test_the_dashboard_variables_have_values(prometheus: Prometheus) -> None:
    for label, values in (("namespace", ["test"]), ("model", ["docs-rope"])):
        assert (
            prometheus.get(f"label/{label}/values", **{"match[]": "headlight_model_info"}) == values
        )
