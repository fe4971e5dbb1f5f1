"""The Helm chart: the same objects as Kustomize, a schema that refuses mistakes, and its test."""

from __future__ import annotations

import functools
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from helm_python import HelmError

from deploy.check import chart, schemas
from deploy.check.invariants import breaches
from deploy.check.manifests import Manifest, title
from deploy.check.rendering import DEPLOY
from tests.deploy.breaking import one, put
from tests.deploy.conftest import rendered
from tests.system.processes import ROOT, Service


@functools.cache
def overlays() -> dict[str, list[Manifest]]:
    return {folder: rendered(folder.removeprefix("deploy/")) for folder in chart.SAME.values()}


def test_the_chart_makes_what_the_overlays_make() -> None:
    assert list(chart.differences(overlays())) == []


@pytest.mark.parametrize(
    ("kind", "path", "value"),
    [
        ("Deployment", "spec.template.spec.containers.0.securityContext.runAsNonRoot", False),
        ("Deployment", "spec.template.spec.volumes.1.emptyDir.sizeLimit", "1Gi"),
        ("ConfigMap", "data.HEADLIGHT_GRACE_SECONDS", "31"),
        ("NetworkPolicy", "spec.egress.0.to.1.ipBlock.cidr", "10.0.0.0/8"),
        ("PodDisruptionBudget", "metadata.name", "other"),
    ],
)
def test_a_difference_is_reported(
    load: Any, monkeypatch: pytest.MonkeyPatch, kind: str, path: str, value: object
) -> None:
    manifests = load("overlays/cpu")
    put(one(manifests, kind), path, value)
    monkeypatch.setattr(chart, "SAME", {None: "deploy/overlays/cpu"})
    lines = list(chart.differences({"deploy/overlays/cpu": manifests}))
    assert lines
    assert all(kind in line for line in lines)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"replica": 3}, "replica"),
        ({"options": {"HEADLIGHT_MAX_ITEMS": 16}}, "HEADLIGHT_MAX_ITEMS"),
        ({"options": {"HEADLIGHT_GRPC": "0.0.0.0:1"}}, "HEADLIGHT_GRPC"),
        ({"model": {"source": "claim"}}, "claim"),
        ({"model": {"source": "export"}}, "args"),
        ({"model": {"source": "image", "file": "[[model]]"}}, "source"),
        ({"cpu": "2500m"}, "cpu"),
        ({"autoscaling": {"minReplicas": 1}}, "minReplicas"),
    ],
)
def test_values_that_cannot_work_are_refused_by_name(given: dict[str, Any], said: str) -> None:
    with pytest.raises(HelmError, match=said):
        chart.render(given)


def test_two_releases_in_a_namespace_share_no_object() -> None:
    """Each is whole by itself."""
    first, second = (chart.render(chart.values("models"), name) for name in ("one", "two"))
    assert breaches(first) == []
    assert {title(each) for each in first}.isdisjoint(title(each) for each in second)


def test_a_claim_takes_the_place_of_the_image_and_of_the_charts_volume() -> None:
    for source in ("claim", "export"):
        model = {"source": source, "claim": "mine", "args": ["/mnt/models/minilm"]}
        manifests = chart.render({"model": model})
        pod = one(manifests, "Deployment")["spec"]["template"]["spec"]
        [volume] = [each for each in pod["volumes"] if each["name"] == "bundle"]
        assert volume["persistentVolumeClaim"]["claimName"] == "mine"
        assert ("initContainers" in pod) == (source == "export")
        assert not [each for each in manifests if each["kind"] == "PersistentVolumeClaim"]


def test_helm_test_asks_a_service_with_tls_and_tokens(tmp_path: Path) -> None:
    """The command of its pod, with the address of a real service in place of the Service's."""
    subprocess.run([DEPLOY / "secrets.sh", tmp_path], capture_output=True, check=True)
    manifests = chart.render(chart.values("production"))
    assert list(schemas.kubernetes(manifests)) == []
    pod = one(manifests, "Pod")["spec"]
    *command, url, authority = pod["containers"][0]["command"]
    assert url == "https://headlight.headlight.svc:8000/health"
    assert authority == "/etc/headlight/tls/ca.crt"
    options = [f"--{name}={tmp_path / file}" for name, file in FILES.items()]
    with Service(ROOT / "build/bundles/docs-rope", *options) as service:
        address = f"https://localhost:{service.rest.rpartition(':')[2]}/health"
        for trusted, code in (("ca.crt", 0), ("tls.crt", 1)):
            done = subprocess.run(
                [sys.executable, *command[1:], address, str(tmp_path / trusted)],
                capture_output=True,
                text=True,
                check=False,
            )
            assert (done.returncode, done.stdout) == (code, "" if code else "200\n"), done.stderr


FILES = {"tls-cert": "tls.crt", "tls-key": "tls.key", "auth-tokens": "tokens"}
