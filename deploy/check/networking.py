"""Invariants of the network: selectors, ports, policies, routes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from deploy.check import manifests as look
from deploy.check.manifests import Manifest

SELECTING = ("Service", "PodDisruptionBudget", "NetworkPolicy", "PodMonitor")
LISTENING = {
    "grpc": "HEADLIGHT_GRPC",
    "http": "HEADLIGHT_API",
    "metrics": "HEADLIGHT_METRICS",
    "health": "HEADLIGHT_HEALTH",
}
PROBES = {"startupProbe": "startup", "readinessProbe": "readiness", "livenessProbe": "liveness"}
# Longest answer to a liveness probe, on a saturated machine. A shorter limit would kill busy
# replicas.
LEAST_LIVENESS_SECONDS = 30


def selectors_match(manifests: list[Manifest]) -> Iterator[str]:
    """Check that every pod selector finds some pods; a Service's finds only pods that serve."""
    for manifest in look.of_kind(manifests, *SELECTING):
        selector = look.selector_of(manifest)
        selected = [
            workload
            for workload in look.workloads(manifests)
            if look.matches(selector, look.pod_labels(workload))
        ]
        if not selected:
            yield f"{look.title(manifest)}: selects {selector}, which no pod here has"
        if manifest["kind"] == "Service" and look.of_kind(selected, "Job"):
            yield f"{look.title(manifest)}: selects the pods of a Job, which serve nothing"
    for deployment in look.of_kind(manifests, "Deployment"):
        labels = look.pod_labels(deployment)
        spread = [
            rule["labelSelector"]
            for rule in look.pod(deployment).get("topologySpreadConstraints", [])
        ]
        for selector in (deployment["spec"]["selector"], *spread):
            if not look.matches(selector["matchLabels"], labels):
                yield (
                    f"{look.title(deployment)}: selects {selector['matchLabels']}, "
                    "which its own pods do not have"
                )


def ports_exist(manifests: list[Manifest]) -> Iterator[str]:
    """Check that Services, policies and monitors name ports that the containers have."""
    for manifest in look.of_kind(manifests, "Service", "NetworkPolicy", "PodMonitor"):
        spec, selector = manifest["spec"], look.selector_of(manifest)
        named = [port.get("targetPort", port["port"]) for port in spec.get("ports", [])]
        named += [
            port["port"] for rule in spec.get("ingress", []) for port in rule.get("ports", [])
        ]
        named += [endpoint["port"] for endpoint in spec.get("podMetricsEndpoints", [])]
        for workload in look.workloads(manifests):
            if look.matches(selector, look.pod_labels(workload)):
                have = look.ports(workload)
                for port in named:
                    if port not in have and port not in have.values():
                        yield (
                            f"{look.title(manifest)}: port {port} is none of "
                            f"{look.title(workload)}: {have}"
                        )


def probes_ask_three_questions(manifests: list[Manifest]) -> Iterator[str]:
    """Check that startup, readiness and liveness probes use gRPC on the health port.

    That port needs neither TLS nor a token.
    """
    for deployment, container in look.server(manifests):
        health = look.ports(deployment).get("health")
        for probe, service in PROBES.items():
            action = container.get(probe, {}).get("grpc")
            if action != {"port": health, "service": service}:
                yield (
                    f"{look.title(deployment)}: {probe} asks {action}; "
                    f"it must ask service {service!r} on port {health}"
                )
        liveness = container.get("livenessProbe", {})
        seconds = liveness.get("periodSeconds", 10) * liveness.get("failureThreshold", 3)
        if seconds < LEAST_LIVENESS_SECONDS:
            yield (
                f"{look.title(deployment)}: liveness gives up after {seconds} s; "
                "a busy machine may take longer to answer"
            )


def options_listen_where_ports_are(manifests: list[Manifest]) -> Iterator[str]:
    """Check that the service listens on the container's ports, at all addresses."""
    for deployment, container in look.server(manifests):
        options = look.options(manifests, container)
        for name, number in look.ports(deployment).items():
            want, have = f"0.0.0.0:{number}", options.get(LISTENING.get(name, ""))
            if have != want:
                yield (
                    f"{look.title(deployment)}: port {name} is {number}, "
                    f"and {LISTENING.get(name)} {have!r}; it must be {want!r}"
                )


def clients_find_replicas(manifests: list[Manifest]) -> Iterator[str]:
    """Check for a headless Service beside the other, and that both name the port's protocol."""
    services = {
        service["metadata"]["name"]: service["spec"]
        for service in look.of_kind(manifests, "Service")
    }
    for deployment, container in look.server(manifests):
        name = deployment["metadata"]["name"]
        if services.get(f"{name}-headless", {}).get("clusterIP") != "None":
            yield (
                f"{look.title(deployment)}: there is no headless Service {name}-headless for "
                "clients that balance themselves"
            )
        encrypted = "HEADLIGHT_TLS_CERT" in look.options(manifests, container)
        speaks = {
            "grpc": "https" if encrypted else "kubernetes.io/h2c",
            "http": "https" if encrypted else "http",
        }
        for service, spec in services.items():
            for port in spec["ports"]:
                expected = speaks.get(port["name"])
                if expected and port.get("appProtocol") != expected:
                    yield (
                        f"Service/{service}: appProtocol of {port['name']} is "
                        f"{port.get('appProtocol')}; the port speaks {expected}"
                    )


def policies_deny_by_default(manifests: list[Manifest]) -> Iterator[str]:
    """Check that every rule names its ports, every egress rule its target.

    A policy for ingress covers egress too.
    """
    for policy in look.of_kind(manifests, "NetworkPolicy"):
        spec = policy["spec"]
        if "Egress" not in spec.get("policyTypes", []):
            yield f"{look.title(policy)}: policyTypes has no Egress, so everything may leave"
        for rule in (*spec.get("ingress", []), *spec.get("egress", [])):
            if not rule.get("ports"):
                yield f"{look.title(policy)}: a rule opens all ports"
        if not all(rule.get("to") for rule in spec.get("egress", [])):
            yield f"{look.title(policy)}: a rule lets everything out"


INVARIANTS = (
    selectors_match,
    ports_exist,
    probes_ask_three_questions,
    options_listen_where_ports_are,
    clients_find_replicas,
    policies_deny_by_default,
)


def ports_of_services(manifests: list[Manifest], known_by: str) -> set[tuple[str, Any]]:
    """Return the name of each Service with each of its ports, by "port" (a number) or "name"."""
    return {
        (service["metadata"]["name"], port[known_by])
        for service in look.of_kind(manifests, "Service")
        for port in service["spec"]["ports"]
    }


def routes_lead_somewhere(routes: list[Manifest], manifests: list[Manifest]) -> Iterator[str]:
    """Check that routes of one rendering name Services and ports of another."""
    have = ports_of_services(manifests, "port")
    for route in look.of_kind(routes, "GRPCRoute", "HTTPRoute"):
        for rule in route["spec"]["rules"]:
            for backend in rule["backendRefs"]:
                if (backend["name"], backend["port"]) not in have:
                    yield (
                        f"{look.title(route)}: leads to {backend['name']}:{backend['port']}; "
                        f"there are {sorted(have)}"
                    )


def gateways_believe_the_service(
    policies: list[Manifest], manifests: list[Manifest]
) -> Iterator[str]:
    """Check that gateways' TLS policies match Services, and a certificate, of another rendering."""
    names = [
        name for each in look.of_kind(manifests, "Certificate") for name in each["spec"]["dnsNames"]
    ]
    have = ports_of_services(manifests, "name")
    for policy in look.of_kind(policies, "BackendTLSPolicy"):
        for target in policy["spec"]["targetRefs"]:
            if (target["name"], target.get("sectionName")) not in have:
                section = f"{target['name']}:{target.get('sectionName')}"
                yield f"{look.title(policy)}: is for {section}; there are {sorted(have)}"
        if (host := policy["spec"]["validation"]["hostname"]) not in names:
            yield (
                f"{look.title(policy)}: expects {host}, which is no name of the "
                f"certificate: {names}"
            )


def jobs_are_not_served(jobs: list[Manifest], manifests: list[Manifest]) -> Iterator[str]:
    """Check that no Service of the deployment selects the pods of a Job beside it."""
    for job in look.of_kind(jobs, "Job"):
        for service in look.of_kind(manifests, "Service"):
            if look.matches(look.selector_of(service), look.pod_labels(job)):
                yield f"{look.title(service)}: selects the pods of {look.title(job)}"
