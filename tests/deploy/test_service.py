"""Options and probes of an overlay, applied to the real service.

It starts, and answers the probes of the kubelet.
"""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from deploy.check import manifests as look
from deploy.check.networking import PROBES
from headlight_service.config.command_line import PREFIX
from headlight_service.config.model_entries import entries_of
from headlight_service.config.options import Config
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


def test_the_models_of_the_example_are_taken(load: Load, tmp_path: Path) -> None:
    manifests = load("examples/several-models")
    [(deployment, container)] = look.server(manifests)
    [argument] = container["args"]
    mounted = PurePosixPath(argument.removeprefix("--models="))
    [mount] = [m for m in container["volumeMounts"] if m["mountPath"] == str(mounted.parent)]
    [volume] = [v for v in look.pod(deployment)["volumes"] if v["name"] == mount["name"]]
    [files] = [
        each["data"]
        for each in look.of_kind(manifests, "ConfigMap")
        if each["metadata"]["name"] == volume["configMap"]["name"]
    ]
    file = tmp_path / mounted.name
    file.write_text(files[mounted.name], encoding="utf-8")
    entries = entries_of(Config(models=file))
    assert [each.default for each in entries] == [True, False, False]
    [bundles] = [m["mountPath"] for m in container["volumeMounts"] if m["name"] == "bundle"]
    for entry in entries:
        assert entry.config.model[0].startswith(f"{bundles}/")
