"""Network policies admit what deploy/README.md names, and nothing else."""

from __future__ import annotations

import ipaddress
from typing import Any, NamedTuple

import pytest

from deploy.check.manifests import Manifest, matches, of_kind, pod_labels, ports, selector_of
from tests.deploy.breaking import BULK, CPU, one
from tests.deploy.conftest import Load

NAMESPACE = "kubernetes.io/metadata.name"


class Peer(NamedTuple):
    """The other end of a connection: a pod, or an address outside the cluster's pods."""

    namespace: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    address: str = ""


SERVICE = (("app.kubernetes.io/name", "headlight"), ("app.kubernetes.io/instance", "headlight"))
CLIENT, PROMETHEUS, GATEWAY = Peer("shop"), Peer("monitoring"), Peer("gateways")
NEIGHBOUR = Peer("headlight", (("app.kubernetes.io/name", "headlight-bulk"),))
NODE, OUTSIDE = Peer(address="10.0.0.7"), Peer(address="203.0.113.9")
DNS = [
    (Peer("kube-system"), 53, "UDP"),
    (Peer("kube-system"), 53, "TCP"),
    (Peer("openshift-dns"), 5353, "UDP"),
    (Peer("openshift-dns"), 5353, "TCP"),
    (Peer(address="169.254.20.10"), 53, "UDP"),
    (Peer(address="169.254.20.10"), 53, "TCP"),
]
COLLECTOR = (Peer("observability"), 4317, "TCP")
WITH_POLICY = (CPU, "overlays/embeddings", "overlays/gpu", "examples/another-namespace")


def admitted(
    manifests: list[Manifest], workload: Manifest, way: str, peer: Peer, port: int, protocol: str
) -> bool:
    """Return whether the policies of a rendering let its pods talk to a peer."""
    named = {number: name for name, number in ports(workload).items()}
    policies = [
        policy["spec"]
        for policy in of_kind(manifests, "NetworkPolicy")
        if matches(selector_of(policy), pod_labels(workload))
        and way.capitalize() in policy["spec"]["policyTypes"]
    ]
    assert policies  # without one, all is admitted
    return any(
        any(
            rule_port["port"] in (port, named.get(port))
            and rule_port.get("protocol", "TCP") == protocol
            for rule_port in rule["ports"]
        )
        and (not (peers := rule.get(PEERS[way])) or any(covers(each, peer) for each in peers))
        for policy in policies
        for rule in policy.get(way, [])
    )


PEERS = {"ingress": "from", "egress": "to"}


def covers(rule: dict[str, Any], peer: Peer) -> bool:
    """Return whether one entry of `from` or `to` covers a peer."""
    assert rule.keys() <= {"ipBlock", "namespaceSelector", "podSelector"}
    if "ipBlock" in rule:
        assert rule["ipBlock"].keys() == {"cidr"}
        return bool(peer.address) and ipaddress.ip_address(peer.address) in ipaddress.ip_network(
            rule["ipBlock"]["cidr"]
        )
    space = rule.get("namespaceSelector")
    same = (
        peer.namespace == "headlight"
        if space is None
        else selects(space, {NAMESPACE: peer.namespace})
    )
    return bool(peer.namespace) and same and selects(rule.get("podSelector", {}), dict(peer.labels))


def selects(selector: dict[str, Any], labels: dict[str, str]) -> bool:
    """Return whether a label selector covers these labels; an empty one covers all."""
    assert selector.keys() <= {"matchLabels", "matchExpressions"}
    for expression in selector.get("matchExpressions", []):
        assert expression["operator"] == "In"
        if labels.get(expression["key"]) not in expression["values"]:
            return False
    return bool(selector.get("matchLabels", {}).items() <= labels.items())


@pytest.mark.parametrize("folder", [*WITH_POLICY, "examples/tracing"])
def test_named_clients_reach_the_service(load: Load, folder: str) -> None:
    manifests = load(folder)
    server = one(manifests, "Deployment")
    reached = {
        (peer, port): admitted(manifests, server, "ingress", peer, port, "TCP")
        for peer in (CLIENT, GATEWAY, PROMETHEUS, NEIGHBOUR, NODE, OUTSIDE)
        for port in (50051, 8000, 8080, 50052, 22)
    }
    pods = {CLIENT, GATEWAY, PROMETHEUS, NEIGHBOUR}
    assert reached == {
        (peer, port): port == 50052 or (peer in pods and port != 22) for peer, port in reached
    }


@pytest.mark.parametrize("folder", [*WITH_POLICY, "examples/tracing"])
def test_the_service_reaches_dns_and_its_collector_alone(load: Load, folder: str) -> None:
    manifests = load(folder)
    server = one(manifests, "Deployment")
    wanted = {**dict.fromkeys(DNS, True), COLLECTOR: folder == "examples/tracing"}
    strangers = [
        (OUTSIDE, 443, "TCP"), (OUTSIDE, 53, "UDP"), (CLIENT, 53, "UDP"),
        (Peer("kube-system"), 443, "TCP"), (Peer("observability"), 443, "TCP"),
    ]  # fmt: skip
    wanted |= dict.fromkeys(strangers, False)
    assert {each: admitted(manifests, server, "egress", *each) for each in wanted} == wanted


def test_a_bulk_job_reaches_dns_and_the_service_alone(load: Load) -> None:
    manifests = load(BULK)
    # The policy names the service's port, which is a port of the other end.
    job, service = one(manifests, "Job"), Peer("headlight", SERVICE)
    policy = one(manifests, "NetworkPolicy")["spec"]
    server_ports = ports(one(load(CPU), "Deployment"))
    for rule in policy["egress"]:
        for port in rule["ports"]:
            port["port"] = server_ports.get(port["port"], port["port"])
    wanted = {**dict.fromkeys(DNS, True), (service, 50051, "TCP"): True}
    wanted |= {(CLIENT, 50051, "TCP"): False, (OUTSIDE, 443, "TCP"): False}
    assert {each: admitted(manifests, job, "egress", *each) for each in wanted} == wanted
    assert not admitted(manifests, job, "ingress", CLIENT, 50051, "TCP")
