"""Options and probes of an overlay, applied to the real service.

It starts, and answers the probes of the kubelet.
"""

from __future__ import annotations

import base64
import functools
import subprocess
from pathlib import Path, PurePosixPath

import grpc
import pytest
import yaml
from grpc_health.v1 import health_pb2, health_pb2_grpc

from deploy.check import manifests as look
from deploy.check.networking import PROBES
from deploy.check.rendering import DEPLOY
from headlight import Client, Unauthenticated
from headlight.model_store.model_source import is_hub_id
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


def test_the_models_of_the_overlay_are_taken(load: Load, tmp_path: Path) -> None:
    manifests = load("overlays/models")
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
    assert [each.default for each in entries] == [True, False]
    assert all(is_hub_id(entry.config.model[0]) for entry in entries)


def test_one_command_makes_what_production_needs(load: Load, tmp_path: Path) -> None:
    """A client with the authority and the token is answered; one without either is refused.

    Run again, the command keeps both, and the certificate is another.
    """
    manifests = load("overlays/production")
    [(deployment, container)] = look.server(manifests)
    first, secrets = (secrets_of(tmp_path / "kept") for _ in range(2))
    given = look.options(manifests, container)
    options = []
    for name in ("tls-cert", "tls-key", "auth-tokens"):
        path = PurePosixPath(given[PREFIX + name.replace("-", "_").upper()])
        [mount] = [m for m in container["volumeMounts"] if path.is_relative_to(m["mountPath"])]
        [volume] = [v for v in look.pod(deployment)["volumes"] if v["name"] == mount["name"]]
        file = tmp_path / path.name
        file.write_bytes(secrets[volume["secret"]["secretName"]][path.name])
        options += [f"--{name}", str(file)]
    certificate, authority = (secrets["headlight-tls"][name] for name in ("tls.crt", "ca.crt"))
    assert certificate != first["headlight-tls"]["tls.crt"]
    assert authority == first["headlight-tls"]["ca.crt"]
    token = (tmp_path / "kept/token").read_text(encoding="ascii").strip()
    assert token.encode() not in secrets["headlight-auth"]["tokens"]
    with Service(ROOT / "build/bundles/docs-rope", *options) as service:
        for name in ("headlight", "headlight-headless.headlight.svc"):
            trusted = functools.partial(
                Client, service.target, tls_ca=tmp_path / "kept/ca.crt", tls_server_name=name
            )
            with trusted(token=token) as client:
                assert client.encode(["a"]).shape[0] == 1
            with trusted() as client, pytest.raises(Unauthenticated):
                client.encode(["a"])


def secrets_of(folder: Path) -> dict[str, dict[str, bytes]]:
    """Run deploy/secrets.sh; return the content of its Secrets, by name."""
    done = subprocess.run([DEPLOY / "secrets.sh", folder], capture_output=True, check=True)
    return {
        each["metadata"]["name"]: {
            name: base64.b64decode(value) for name, value in each["data"].items()
        }
        for each in yaml.safe_load_all(done.stdout)
        if each
    }
