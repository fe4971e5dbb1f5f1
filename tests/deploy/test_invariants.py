"""Invariants of renderings: each reports a broken rendering and accepts an intact one."""

from __future__ import annotations

import pytest

from deploy.check import invariants, networking
from deploy.check.invariants import INVARIANTS, breaches
from deploy.check.manifests import pod
from headlight_service.app.health import SERVICES
from headlight_service.frontends.tei.service_info import OF_TASKS
from headlight_service.frontends.tei.tei_requests import TASKS
from tests.deploy.breaking import (
    BULK,
    CPU,
    HUB_MODEL,
    INVARIANT_BREAKS,
    KEDA,
    TLS,
    Break,
    one,
    put,
)
from tests.deploy.conftest import Load

BULK_LOCAL = "examples/bulk-local"


@pytest.mark.parametrize(
    "broken", INVARIANT_BREAKS, ids=lambda broken: f"{broken.kind}-{broken.path.rpartition('.')[2]}"
)
def test_every_break_is_reported(load: Load, broken: Break) -> None:
    manifests = load(broken.folder)
    whole = breaches(manifests)
    broken.apply(manifests)
    new = [line for line in breaches(manifests) if line not in whole]
    assert any(broken.said in line for line in new), new


def test_each_invariant_finds_a_break_that_no_other_finds(load: Load) -> None:
    """Otherwise the invariant would be untested."""
    silent = []
    for invariant in INVARIANTS:
        for broken in INVARIANT_BREAKS:
            manifests = load(broken.folder)
            whole = list(invariant(manifests))
            broken.apply(manifests)
            if any(broken.said in line and line not in whole for line in invariant(manifests)):
                break
        else:
            silent.append(invariant.__name__)
    assert silent == []


@pytest.mark.parametrize("folder", [CPU, KEDA, BULK, BULK_LOCAL, TLS, HUB_MODEL])
def test_unbroken_renderings_pass(load: Load, folder: str) -> None:
    assert breaches(load(folder)) == []


def test_two_autoscalers_of_one_workload_are_reported(load: Load) -> None:
    manifests = [*load(CPU), one(load(KEDA), "ScaledObject")]
    assert any(
        "has 2 autoscalers" in line for line in invariants.autoscaler_has_the_word(manifests)
    )


def test_the_grpc_route_names_services_that_exist(load: Load) -> None:
    [rule] = one(load("examples/grpcroute"), "GRPCRoute")["spec"]["rules"]
    routed = {match["method"]["service"] for match in rule["matches"]}
    assert routed == set(SERVICES) - OF_TASKS | {*TASKS["embed"].services}


@pytest.mark.parametrize("kind", ["GRPCRoute", "HTTPRoute"])
def test_a_route_to_a_missing_port_is_reported(load: Load, kind: str) -> None:
    routes = load(f"examples/{kind.lower()}")
    assert list(networking.routes_lead_somewhere(routes, load(CPU))) == []
    put(one(routes, kind), "spec.rules.0.backendRefs.0.port", 50052)
    [line] = networking.routes_lead_somewhere(routes, load(CPU))
    assert "headlight:50052" in line


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("spec.targetRefs.0.name", "headlights", "is for headlights:grpc"),
        ("spec.targetRefs.0.sectionName", "tls", "is for headlight:tls"),
        ("spec.validation.hostname", "headlight.example.com", "expects headlight.example.com"),
    ],
)
def test_a_gateway_that_does_not_trust_the_service_is_reported(
    load: Load, path: str, value: str, said: str
) -> None:
    policies = load("examples/grpcroute-tls")
    assert list(networking.gateways_believe_the_service(policies, load(TLS))) == []
    put(one(policies, "BackendTLSPolicy"), path, value)
    [line] = networking.gateways_believe_the_service(policies, load(TLS))
    assert said in line


def test_job_pods_that_match_a_service_selector_are_reported(load: Load) -> None:
    jobs = load(BULK)
    assert list(networking.jobs_are_not_served(jobs, load(CPU))) == []
    put(one(jobs, "Job"), "spec.template.metadata.labels.app~kubernetes~io/name", "headlight")
    assert list(networking.jobs_are_not_served(jobs, load(CPU)))


def test_a_job_that_computes_in_its_pods_calls_nothing(load: Load) -> None:
    manifests = load(BULK_LOCAL)
    policy, job = one(manifests, "NetworkPolicy"), one(manifests, "Job")
    assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]
    assert policy["spec"].keys() & {"ingress", "egress"} == set()
    [container] = pod(job)["containers"]
    assert container["args"] == ["--local", "/mnt/models"]
    assert container["image"].endswith("-bulk")  # the image with pyarrow
