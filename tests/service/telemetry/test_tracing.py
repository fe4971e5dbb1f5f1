"""Tracing as a whole.

Its options, and that neither it nor its collector delays anything.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from headlight.extras import remedy
from headlight_service.config.command_line import ConfigError
from headlight_service.config.options import Config
from headlight_service.telemetry import tracing
from headlight_service.telemetry.otlp import Tracing
from tests.service.calls import request
from tests.service.conftest import Serve

ROOT = Path(__file__).parents[3]
NOWHERE = "http://127.0.0.1:1"  # a port without a listener


def python(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-c", program, *arguments]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )


def test_tracing_is_off_without_the_option() -> None:
    assert tracing.start(None) is None
    done = python(
        "import sys, headlight_service.__main__; print([name for name in sys.modules if "
        "'opentelemetry' in name])"
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_tracing_without_the_extra_is_an_error_that_names_it() -> None:
    program = (
        "import sys; sys.modules['opentelemetry'] = None; "
        "from headlight_service.__main__ import main; main()"
    )
    done = python(program, "--bundle", "none", "--otlp-endpoint", NOWHERE)
    assert done.returncode == 2
    assert done.stderr == (
        "error: --otlp-endpoint needs OpenTelemetry, which is not installed;"
        f" {remedy('otel')}, or leave the option out\n"
    )


def test_an_invalid_opentelemetry_variable_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "0")
    with pytest.raises(
        ConfigError, match=r"--otlp-endpoint: .*queue.*; check the variables OTEL_\*"
    ):
        tracing.start(NOWHERE)


@pytest.mark.parametrize(
    "text",
    [
        "localhost:4317",
        "http://localhost",
        "http://:4317",
        "http://h:4318/v1/traces",
        "http://u:p@h:1",
        "http://h:x",
        "ftp://h:1",
    ],
)
def test_an_endpoint_without_scheme_host_or_port_is_refused(text: str) -> None:
    with pytest.raises(
        ConfigError, match=r"^--otlp-endpoint is .*; it must be http://HOST:PORT, or https"
    ):
        Config.parse(("--bundle", "b", "--otlp-endpoint", text), {})


@pytest.mark.parametrize("text", ["http://localhost:4317", "https://[::1]:4317"])
def test_http_and_https_endpoints_are_accepted(text: str) -> None:
    assert Config.parse(("--bundle", "b", "--otlp-endpoint", text), {}).otlp_endpoint == text


@pytest.mark.parametrize(
    ("variables", "name"), [({}, "headlight"), ({"OTEL_SERVICE_NAME": "mine"}, "mine")]
)
async def test_the_service_name_follows_the_environment(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], name: str
) -> None:
    for variable in ("OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES"):
        monkeypatch.delenv(variable, raising=False)
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    started = tracing.start(NOWHERE)
    assert started is not None
    assert started.resource.attributes["service.name"] == name
    await started.close(0)


class Hanging(SpanExporter):
    """Collector that accepts spans and never answers."""

    def __init__(self) -> None:
        self.called, self.gate, self.ended = threading.Event(), threading.Event(), threading.Event()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.called.set()
        self.gate.wait()
        return SpanExportResult.FAILURE

    def shutdown(self) -> None:
        self.ended.set()


async def test_a_hanging_collector_delays_neither_calls_nor_shutdown(serve: Serve) -> None:
    exporter = Hanging()
    processor = BatchSpanProcessor(
        exporter, max_queue_size=8, schedule_delay_millis=1, max_export_batch_size=4
    )
    hung = Tracing(processor)
    async with serve(tracing=hung) as service:
        assert (await service.stub.Encode(request())).items
        assert await asyncio.to_thread(exporter.called.wait, 30)
        for _ in range(20):  # more spans than the queue holds
            assert (await service.stub.Encode(request())).items
    await hung.close(0.1)
    assert not exporter.ended.is_set(), (
        "its end, which OpenTelemetry waits for half a minute, was not waited for"
    )
    exporter.gate.set()
