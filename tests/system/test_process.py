"""Operator's view: the command line, the log, metrics, probes, the demo."""

from __future__ import annotations

import subprocess
import sys

import grpc
import pytest
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)

from headlight import Client, NotFound
from tests.ports import free_address
from tests.system.conftest import bundle_of
from tests.system.processes import ROOT, Service, get


def test_metrics_count_the_work_done() -> None:
    with Service(bundle_of("docs-rope"), "--wide", "off") as service:
        with Client(service.target) as client:
            client.encode(["one", "two words"])
            client.attend("three")
            with pytest.raises(NotFound, match="docs-rope"):
                Client(service.target, model="nobody").encode(["x"])
        text = get(service.http, "/metrics")
        assert get(service.http, "/readyz")
        secret = "zebra crossing at midnight"
        with Client(service.target) as client:
            client.encode([secret])
        log = list(service.log)
    for line in (
        'headlight_texts_total{model="docs-rope",priority="interactive"} 3.0',
        'headlight_attend_runs_total{model="docs-rope"} 1.0',
        'grpc_code="OK",grpc_method="Encode"',
        'grpc_code="NOT_FOUND"',
        "grpc_server_handling_seconds_bucket",
        "headlight_model_info{",
        "headlight_padding_ratio",
        "headlight_stage_seconds",
    ):
        assert line in text, line
    assert "zebra" not in str(log)


def test_reflection_lists_the_service(rope: Service) -> None:
    with grpc.insecure_channel(rope.target) as channel:
        names = ProtoReflectionDescriptorDatabase(channel).get_services()
    assert "headlight.v1.HeadlightService" in names
    assert "grpc.health.v1.Health" in names


def test_the_demo_answers_and_exits() -> None:
    command = [
        sys.executable,
        "-m",
        "headlight_model.demo",
        "--bundle",
        str(bundle_of("docs-rope")),
        "--once",
    ]
    command += ["--grpc", free_address(), "--metrics", free_address(), "--api", "off"]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "[CLS]" in done.stdout
    assert "headlight embed" in done.stdout
