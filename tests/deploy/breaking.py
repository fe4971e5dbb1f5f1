"""Ways to break a rendering: where, how, and the expected report."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from deploy.check.manifests import Manifest

HUB_MODEL = "examples/hub-model"
CPU, KEDA, BULK, TLS = "overlays/cpu", "examples/keda", "examples/bulk-job", "examples/tls"
BACKLOG, IMAGE_VOLUME = "examples/prometheus-adapter", "examples/bundle-image-volume"
REMOVE = object()


def one(manifests: list[Manifest], kind: str, name: str | None = None) -> Manifest:
    """Return the only object of a kind, or the one with the given name."""
    [found] = [m for m in manifests if m["kind"] == kind and name in (None, m["metadata"]["name"])]
    return found


def put(place: Any, path: str, value: object) -> None:
    """Set the value at a dotted path.

    Numbers are list indices, REMOVE deletes the value, a function gets the old value.
    """
    *way, last = (
        int(part) if part.isdecimal() else part.replace("~", ".") for part in path.split(".")
    )
    for part in way:
        place = place[part]
    if value is REMOVE:
        del place[last]
    else:
        place[last] = value(place[last]) if callable(value) else value


@dataclasses.dataclass(frozen=True)
class Break:
    """One fault in a rendering.

    Attributes:
        said: part of the line that must report it.
        kind: of the object.
        path: within it; see `put`.
        value: to be there.
        folder: under deploy/.
        name: of the object, if there are several of its kind.
    """

    said: str
    kind: str
    path: str
    value: object
    folder: str = CPU
    name: str | None = None

    def apply(self, manifests: list[Manifest]) -> None:
        put(one(manifests, self.kind, self.name), self.path, self.value)


def without(**keys: str) -> Callable[[Any], Any]:
    """Return a list without the entries that have these values."""
    return lambda entries: [
        entry for entry in entries if any(entry.get(key) != value for key, value in keys.items())
    ]


POD = "spec.template.spec"
FIRST = f"{POD}.containers.0"
LABEL = "app~kubernetes~io/name"

INVARIANT_BREAKS = (
    Break(
        "terminationGracePeriodSeconds is 44, and must be 45",
        "Deployment",
        f"{POD}.terminationGracePeriodSeconds",
        44,
    ),
    Break(
        "and must be 50", "Deployment", f"{FIRST}.lifecycle", {"preStop": {"sleep": {"seconds": 5}}}
    ),
    Break("and must be 65", "ConfigMap", "data.HEADLIGHT_GRACE_SECONDS", "50"),
    Break(
        "HEADLIGHT_DRAIN_DELAY_SECONDS is 0", "ConfigMap", "data.HEADLIGHT_DRAIN_DELAY_SECONDS", "0"
    ),
    Break("maxUnavailable is 3, of 3 replicas", "PodDisruptionBudget", "spec.maxUnavailable", 3),
    Break("maxUnavailable is None", "PodDisruptionBudget", "spec.maxUnavailable", REMOVE),
    Break("of 1 replicas", "HorizontalPodAutoscaler", "spec.minReplicas", 1),
    Break("of 0 replicas", "ScaledObject", "spec.minReplicaCount", REMOVE, KEDA),
    Break("has replicas and an autoscaler", "Deployment", "spec.replicas", 3),
    Break(
        "stabilised for 60 s",
        "HorizontalPodAutoscaler",
        "spec.behavior.scaleDown.stabilizationWindowSeconds",
        60,
    ),
    Break("a limit of 2.5 CPUs", "Deployment", f"{FIRST}.resources.limits.cpu", "2500m"),
    Break("a limit of 12 CPUs", "Deployment", f"{FIRST}.resources.limits.cpu", "12"),
    Break("for 3 streams of 1 threads", "ConfigMap", "data.HEADLIGHT_STREAMS", "3"),
    Break(
        "HEADLIGHT_MAX_OUTPUT_BYTES is not set",
        "ConfigMap",
        "data.HEADLIGHT_MAX_OUTPUT_BYTES",
        REMOVE,
    ),
    Break(
        "of `headlight info --resources`",
        "ConfigMap",
        "data.HEADLIGHT_MAX_OUTPUT_BYTES",
        "2147483648",
    ),
    Break(
        "of `headlight info --resources`", "Deployment", f"{FIRST}.resources.limits.memory", "4Gi"
    ),
    Break("differ from requests", "Deployment", f"{FIRST}.resources.requests.memory", "1Gi"),
    Break("enableServiceLinks must be false", "Job", f"{POD}.enableServiceLinks", REMOVE, BULK),
    Break("has no sizeLimit", "Deployment", f"{POD}.volumes.1.emptyDir", {}),
    Break(
        "is not defined; add a component bundle-*",
        "Deployment",
        f"{POD}.volumes",
        without(name="bundle"),
    ),
    Break(
        "maxUnavailable must be 0", "Deployment", "spec.strategy.rollingUpdate.maxUnavailable", 1
    ),
    Break(
        "has the image 'headlight-bundle'",
        "Deployment",
        f"{POD}.volumes.0.image.reference",
        "headlight-bundle",
        IMAGE_VOLUME,
    ),
    Break(
        "no label app.kubernetes.io/part-of",
        "NetworkPolicy",
        "metadata.labels.app~kubernetes~io/part-of",
        REMOVE,
    ),
    Break("SHARDS is", "Job", "spec.completions", 9, BULK),
    Break("which no pod here has", "Service", f"spec.selector.{LABEL}", "other", name="headlight"),
    Break(
        "which no pod here has",
        "PodDisruptionBudget",
        f"spec.selector.matchLabels.{LABEL}",
        "other",
    ),
    Break(
        "its own pods do not have",
        "Deployment",
        f"{POD}.topologySpreadConstraints.0.labelSelector.matchLabels.{LABEL}",
        "x",
    ),
    Break("port grcp is none of", "Service", "spec.ports.0.targetPort", "grcp", name="headlight"),
    Break("port https is none of", "NetworkPolicy", "spec.ingress.0.ports.0.port", "https"),
    Break("livenessProbe asks", "Deployment", f"{FIRST}.livenessProbe.grpc.service", "readiness"),
    Break("startupProbe asks", "Deployment", f"{FIRST}.startupProbe.grpc.port", 50051),
    Break("readinessProbe asks None", "Deployment", f"{FIRST}.readinessProbe", REMOVE),
    Break(
        "liveness gives up after 10 s", "Deployment", f"{FIRST}.livenessProbe.failureThreshold", 1
    ),
    Break(
        "port grpc is 50051, and HEADLIGHT_GRPC",
        "ConfigMap",
        "data.HEADLIGHT_GRPC",
        "127.0.0.1:50051",
    ),
    Break(
        "there is no headless Service",
        "Service",
        "spec.clusterIP",
        REMOVE,
        name="headlight-headless",
    ),
    Break(
        "the port speaks https",
        "Service",
        "spec.ports.0.appProtocol",
        "kubernetes.io/h2c",
        TLS,
        name="headlight",
    ),
    Break(
        "appProtocol of http is kubernetes.io/h2c",
        "Service",
        "spec.ports.1.appProtocol",
        "kubernetes.io/h2c",
        name="headlight",
    ),
    Break("so everything may leave", "NetworkPolicy", "spec.policyTypes", ["Ingress"]),
    Break("opens all ports", "NetworkPolicy", "spec.ingress.0.ports", REMOVE),
    Break("lets everything out", "NetworkPolicy", "spec.egress.0.to", REMOVE),
    Break("HEADLIGHT_THRAEDS is no option", "ConfigMap", "data.HEADLIGHT_THRAEDS", "2"),
    Break("HEADLIGHT_PRECISION is 'fp12'", "ConfigMap", "data.HEADLIGHT_PRECISION", "fp12"),
    Break(
        "the queue must hold at least one request",
        "ConfigMap",
        "data.HEADLIGHT_MAX_QUEUE_TOKENS",
        "1024",
    ),
    Break("is not here", "ConfigMap", "metadata.name", "other"),
    Break("which is on no volume", "ConfigMap", "data.HEADLIGHT_BUNDLE", "/models"),
    Break(
        "HEADLIGHT_AUTH_TOKENS looks like a secret",
        "ConfigMap",
        "data.HEADLIGHT_AUTH_TOKENS",
        "hunter2",
    ),
    Break("a Secret does not belong", "ConfigMap", "kind", "Secret"),
    Break(
        "it would export another model than is served",
        "Deployment",
        f"{POD}.initContainers.0.args",
        ["org/other"],
        HUB_MODEL,
    ),
    Break("HEADLIGHT_CACHE is not set", "ConfigMap", "data.HEADLIGHT_CACHE", REMOVE, HUB_MODEL),
    Break(
        "gauges of the service are",
        "HorizontalPodAutoscaler",
        "spec.metrics.0.pods.metric.name",
        "headlight_backlog",
        BACKLOG,
    ),
    Break(
        "container headlight requests no cpu",
        "Deployment",
        f"{FIRST}.resources.requests.cpu",
        REMOVE,
    ),
    Break("which no PodMonitor scrapes", "PodMonitor", "spec.selector.matchLabels", {}, BACKLOG),
    Break("which no PodMonitor scrapes", "PodMonitor", "kind", "ServiceMonitor", KEDA),
    Break(
        "and is in namespace headlight",
        "ScaledObject",
        "spec.triggers.0.metadata.query",
        "headlight_backlog_seconds",
        KEDA,
    ),
)

# By checkov, with the policy that reports it.
POLICY_BREAKS = (
    Break("CKV_K8S_11", "Deployment", f"{FIRST}.resources.limits.cpu", REMOVE),
    Break("CKV_K8S_13", "Deployment", f"{FIRST}.resources.limits.memory", REMOVE),
    Break("CKV_K8S_14", "Deployment", f"{FIRST}.image", "headlight"),
    Break("CKV_K8S_14", "Deployment", f"{FIRST}.image", "registry.example.com/headlight:latest"),
    Break("CKV_K8S_14", "Deployment", f"{FIRST}.image", "registry.example.com:5000/headlight"),
    Break("CKV_K8S_14", "Deployment", f"{POD}.initContainers.0.image", "headlight-bundle"),
    Break("CKV_K8S_38", "Deployment", f"{POD}.automountServiceAccountToken", True),
    Break("CKV_K8S_35", "Deployment", f"{FIRST}.envFrom.0", {"secretRef": {"name": "s"}}),
    Break(
        "CKV_K8S_35",
        "Job",
        f"{FIRST}.env.0",
        {"name": "T", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
        BULK,
    ),
)
