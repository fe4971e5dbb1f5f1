"""Queries of rendered objects that the invariants share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Any

Manifest = dict[str, Any]

# The suffixes of Kubernetes' quantities that the manifests use.
UNITS = {
    "m": Decimal("0.001"),
    "Ki": Decimal(2**10),
    "Mi": Decimal(2**20),
    "Gi": Decimal(2**30),
    "": Decimal(1),
}


def title(manifest: Manifest) -> str:
    """Return kind and name, for messages: Deployment/headlight."""
    return f"{manifest['kind']}/{manifest['metadata']['name']}"


def of_kind(manifests: Iterable[Manifest], *kinds: str) -> list[Manifest]:
    """Return the objects of some kinds."""
    return [manifest for manifest in manifests if manifest["kind"] in kinds]


def workloads(manifests: Iterable[Manifest]) -> list[Manifest]:
    """Return the objects that make pods."""
    return of_kind(manifests, "Deployment", "Job")


def pod(workload: Manifest) -> Manifest:
    """Return the spec of its pods."""
    spec: Manifest = workload["spec"]["template"]["spec"]
    return spec


def pod_labels(workload: Manifest) -> dict[str, str]:
    """Return the labels of its pods."""
    labels: dict[str, str] = workload["spec"]["template"]["metadata"].get("labels", {})
    return labels


def containers(workload: Manifest) -> Iterator[Manifest]:
    """Yield all containers of a pod, init containers first."""
    yield from pod(workload).get("initContainers", [])
    yield from pod(workload)["containers"]


def matches(selector: dict[str, str], labels: dict[str, str]) -> bool:
    """Return whether a non-empty selector selects pods with these labels."""
    return bool(selector) and selector.items() <= labels.items()


def selector_of(manifest: Manifest) -> dict[str, str]:
    """Return the pod selector of a Service, policy or budget."""
    spec = manifest["spec"]
    if manifest["kind"] == "Service":
        selector = spec.get("selector", {})
    else:
        selector = spec.get("podSelector", spec.get("selector", {})).get("matchLabels", {})
    return dict(selector)


def ports(workload: Manifest) -> dict[str, int]:
    """Return names and numbers of the ports of its pods."""
    return {
        port["name"]: port["containerPort"]
        for container in containers(workload)
        for port in container.get("ports", [])
    }


def quantity(text: object) -> Decimal:
    """Convert 1500m to 1.5, 2Gi to 2147483648. Raises ValueError for an unknown suffix."""
    number = str(text).rstrip("mKMGi")
    unit = str(text)[len(number) :]
    if unit not in UNITS:
        raise ValueError(
            f"{text!r} is a quantity of a unit that deploy/check does not know; add it to UNITS"
        )
    return Decimal(number) * UNITS[unit]


def options(manifests: Iterable[Manifest], container: Manifest) -> dict[str, str]:
    """Return a container's environment: that of its ConfigMaps, then its own."""
    maps = {
        manifest["metadata"]["name"]: manifest.get("data", {})
        for manifest in of_kind(manifests, "ConfigMap")
    }
    environment: dict[str, str] = {}
    for source in container.get("envFrom", []):
        environment |= maps.get(source.get("configMapRef", {}).get("name"), {})
    return environment | {
        entry["name"]: entry["value"] for entry in container.get("env", []) if "value" in entry
    }


def server(manifests: Iterable[Manifest]) -> Iterator[tuple[Manifest, Manifest]]:
    """Yield each Deployment, and its serving container: the first."""
    for deployment in of_kind(manifests, "Deployment"):
        yield deployment, pod(deployment)["containers"][0]


def fewest_replicas(manifests: list[Manifest], deployment: Manifest) -> int:
    """Return the least number of replicas: the autoscaler's, else the Deployment's."""
    fields = {"HorizontalPodAutoscaler": "minReplicas", "ScaledObject": "minReplicaCount"}
    for scaler in scalers(manifests, deployment):
        return int(scaler["spec"].get(fields[scaler["kind"]], 0))
    return int(deployment["spec"].get("replicas", 1))


def scalers(manifests: list[Manifest], deployment: Manifest) -> list[Manifest]:
    """Return the autoscalers of a Deployment."""
    name = deployment["metadata"]["name"]
    autoscalers = of_kind(manifests, "HorizontalPodAutoscaler", "ScaledObject")
    return [scaler for scaler in autoscalers if scaler["spec"]["scaleTargetRef"]["name"] == name]
