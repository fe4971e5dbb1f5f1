"""Third-party checks detect broken files.

Kubernetes' schemas, the types of custom resources, and the files themselves.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from deploy.check import rendering, schemas, security, sources
from deploy.check.rendering import DEPLOY, CannotRender, render
from tests.deploy.breaking import BULK, CPU, KEDA, POLICY_BREAKS, TLS, Break
from tests.deploy.conftest import Load

ROUTE, ROUTE_TLS = "examples/grpcroute", "examples/grpcroute-tls"
SCHEMA_BREAKS = (
    Break("terminationGracePeriod", "Deployment", "spec.template.spec.terminationGracePeriod", 45),
    Break("'45'", "Deployment", "spec.template.spec.terminationGracePeriodSeconds", "45"),
    Break("maxUnavailible", "PodDisruptionBudget", "spec.maxUnavailible", 1),
    Break("has no autoscaling/v3", "HorizontalPodAutoscaler", "apiVersion", "autoscaling/v3"),
    Break("backoffLimitPerPod", "Job", "spec.backoffLimitPerPod", 1, BULK),
)
CUSTOM_BREAKS = (
    Break("bogus", "ScaledObject", "spec.triggers.0.bogus", 1, KEDA),
    Break("minReplicaCount must be integer", "ScaledObject", "spec.minReplicaCount", "3", KEDA),
    Break("metod", "GRPCRoute", "spec.rules.0.matches.0.metod", {}, ROUTE),
    Break("port must be <= 65535", "GRPCRoute", "spec.rules.0.backendRefs.0.port", 500510, ROUTE),
    Break("rewrites", "HTTPRoute", "spec.rules.0.rewrites", {}, "examples/httproute"),
    Break("hostnames", "BackendTLSPolicy", "spec.validation.hostnames", ["a"], ROUTE_TLS),
    Break("secretName", "Certificate", "spec.secretName", 3, TLS),
    Break("renewAt", "Certificate", "spec.renewAt", "1h", TLS),
    Break("has no kind Certificates", "Certificate", "kind", "Certificates", TLS),
)


@pytest.mark.parametrize("broken", SCHEMA_BREAKS, ids=lambda broken: broken.said)
def test_objects_that_violate_kubernetes_schemas_are_reported(load: Load, broken: Break) -> None:
    manifests = load(broken.folder)
    assert list(schemas.kubernetes(manifests)) == []
    broken.apply(manifests)
    lines = list(schemas.kubernetes(manifests))
    assert len(lines) == len(schemas.VERSIONS)
    assert all(broken.said in line for line in lines), lines


def test_invalid_custom_resources_are_reported(load: Load) -> None:
    """All in one run: each run starts a compiler."""
    renderings = {}
    for number, broken in enumerate(CUSTOM_BREAKS):
        renderings[f"broken{number}"] = load(broken.folder)
        broken.apply(renderings[f"broken{number}"])
    lines = schemas.custom(renderings)
    for number, broken in enumerate(CUSTOM_BREAKS):
        assert any(line.startswith(f"broken{number}:") and broken.said in line for line in lines), (
            broken,
            lines,
        )


def test_what_checkov_forbids_is_reported(load: Load) -> None:
    """All in one run: each takes seconds to start."""
    renderings = {}
    for number, broken in enumerate(POLICY_BREAKS):
        renderings[f"broken{number}"] = load(broken.folder)
        broken.apply(renderings[f"broken{number}"])
    lines = list(security.policies(renderings))
    missing = [
        broken
        for number, broken in enumerate(POLICY_BREAKS)
        if not any(line.startswith(f"broken{number}:") and broken.said in line for line in lines)
    ]
    assert missing == [], lines


def test_a_folder_that_cannot_be_rendered_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rendering, "DEPLOY", tmp_path)
    (tmp_path / "kustomization.yaml").write_text("resources: [nowhere]\n", encoding="utf-8")
    with pytest.raises(CannotRender, match="nowhere"):
        render(tmp_path)


def test_missing_kubectl_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(CannotRender, match=r"Install 1\.31 or later"):
        render(DEPLOY / CPU)


@pytest.fixture
def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a copy of the sources, to break."""
    shutil.copytree(DEPLOY, tmp_path / "deploy")
    monkeypatch.setattr(rendering, "DEPLOY", tmp_path / "deploy")
    assert list(sources.breaches(tmp_path / "deploy")) == []
    return tmp_path / "deploy"


def test_an_image_named_in_the_base_is_reported(copied: Path) -> None:
    path = copied / "base/deployment.yaml"
    path.write_text(
        path.read_text(encoding="utf-8").replace("image: headlight", "image: mine:1"),
        encoding="utf-8",
    )
    [line] = sources.breaches(copied)
    assert "image mine:1" in line


def test_an_unused_component_is_reported(copied: Path) -> None:
    shutil.copytree(copied / "components/tls", copied / "components/new")
    [line] = sources.breaches(copied)
    assert "deploy/components/new: no overlay" in line


def test_a_kustomization_without_documentation_is_reported(copied: Path) -> None:
    (copied / "overlays/dev/kustomization.yaml").write_text(
        "resources: [../../base]\n", encoding="utf-8"
    )
    assert any("begins without a comment" in line for line in sources.breaches(copied))


def test_an_example_that_deploys_less_than_the_overlay_is_reported(copied: Path) -> None:
    path = copied / "examples/tls/kustomization.yaml"
    path.write_text(
        path.read_text(encoding="utf-8").replace("../../overlays/cpu", "../../base"),
        encoding="utf-8",
    )
    [line] = sources.breaches(copied)
    assert "deploy/examples/tls/kustomization.yaml: builds on the base" in line
