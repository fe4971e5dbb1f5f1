"""Options and probes of an overlay, applied to the real service.

It starts, and answers the probes of the kubelet.
"""

from __future__ import annotations

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from deploy.check import manifests as look
from deploy.check.networking import PROBES
from headlight_service.config.command_line import PREFIX
from tests.deploy.conftest import Load
from tests.system.processes import ROOT, Service

# Settings of a pod; on this machine no proxy needs time to notice the shutdown.
OWN = {"bundle", "grpc", "http", "health", "drain_delay_seconds"}


@pytest.mark.parametrize("folder", ["overlays/dev", "overlays/cpu"])
def test_a_service_with_these_options_passes_these_probes(load: Load, folder: str) -> None:
    manifests = load(folder)
    [(_, container)] = look.server(manifests)
    given = {
        name.removeprefix(PREFIX).lower(): value
        for name, value in look.options(manifests, container).items()
    }
    flags = [
        part for name in given.keys() - OWN for part in (f"--{name.replace('_', '-')}", given[name])
    ]
    with Service(ROOT / "build/bundles/docs-rope", "--health", "127.0.0.1:0", *flags) as service:
        [port] = [
            entry["health_port"] for entry in service.log if entry.get("event") == "listening"
        ]
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            ask = health_pb2_grpc.HealthStub(channel).Check
            for probe in PROBES:
                request = health_pb2.HealthCheckRequest(service=container[probe]["grpc"]["service"])
                # Longer than the kubelet allows: this machine may be busy.
                answer = ask(request, timeout=60)
                assert answer.status == health_pb2.HealthCheckResponse.SERVING, probe
