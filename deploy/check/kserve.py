"""InferenceServices of KServe, as the Deployments that KServe makes of them.

No package has KServe's types for the check of custom resources. Its predictor is a pod's spec with
a few fields beside it: those fields are listed here, and the rest is checked as any Deployment.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence

from deploy.check.manifests import Manifest, of_kind, title

KIND, GROUP = "InferenceService", "serving.kserve.io/v1beta1"
# Fields of a predictor that are not of its pods, by the field of a Deployment; None: no such field.
BESIDE_PODS = {"minReplicas": "replicas", "maxReplicas": None, "deploymentStrategy": "strategy"}
CONTAINER = "kserve-container"
GRPC_PORTS = ("h2c", "grpc")  # how a port's name begins that carries gRPC
MODE = ("serving.kserve.io/deploymentMode", "Standard")


def deployments(manifests: Sequence[Manifest]) -> list[Manifest]:
    """Return the objects, with a Deployment in the place of each InferenceService."""
    return [_deployment(each) if each["kind"] == KIND else each for each in manifests]


def breaches(manifests: Sequence[Manifest]) -> Iterator[str]:
    """Yield what KServe itself would refuse, or serve otherwise than as gRPC."""
    for service in of_kind(manifests, KIND):
        if service["apiVersion"] != GROUP:
            yield f"{title(service)}: apiVersion is {service['apiVersion']}, and must be {GROUP}"
        if service["metadata"].get("annotations", {}).get(MODE[0]) != MODE[1]:
            yield f"{title(service)}: the annotation {MODE[0]} must be {MODE[1]}"
        if set(service["spec"]) != {"predictor"}:
            yield f"{title(service)}: spec has {', '.join(service['spec'])}; only a predictor"
        predictor = service["spec"]["predictor"]
        fewest, most = predictor.get("minReplicas", 1), predictor.get("maxReplicas", 0)
        if most < fewest:
            yield f"{title(service)}: maxReplicas is {most}, below minReplicas, {fewest}"
        serving = predictor["containers"][0]
        if serving["name"] != CONTAINER:
            yield f"{title(service)}: the first container must have the name {CONTAINER}"
        names = [port["name"] for port in serving["ports"]]
        if len(names) != 1 or not names[0].startswith(GRPC_PORTS):
            yield f"{title(service)}: ports are {names}; KServe exposes one, named h2c for gRPC"


def _deployment(service: Manifest) -> Manifest:
    pods = copy.deepcopy(service["spec"]["predictor"])
    beside = {name: pods.pop(name) for name in BESIDE_PODS if name in pods}
    labels = service["metadata"].get("labels", {})
    spec = {name: beside[field] for field, name in BESIDE_PODS.items() if name and field in beside}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            key: value for key, value in service["metadata"].items() if key != "annotations"
        },
        "spec": {
            **spec,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pods},
        },
    }
