"""InferenceServices: each break is reported, and the example is whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from deploy.check import kserve, schemas
from deploy.check.manifests import Manifest
from tests.deploy.conftest import Load

FOLDER = "examples/kserve"
BREAKS: dict[str, tuple[Callable[[Manifest], Any], str]] = {
    "container": (
        lambda each: each["spec"]["predictor"]["containers"][0].update(name="main"),
        "kserve-container",
    ),
    "two ports": (
        lambda each: each["spec"]["predictor"]["containers"][0]["ports"].append(
            {"name": "metrics", "containerPort": 8080}
        ),
        "KServe exposes one",
    ),
    "HTTP": (
        lambda each: each["spec"]["predictor"]["containers"][0]["ports"][0].update(name="http1"),
        "named h2c",
    ),
    "mode": (lambda each: each["metadata"].pop("annotations"), "must be Standard"),
    "replicas": (lambda each: each["spec"]["predictor"].update(maxReplicas=1), "below minReplicas"),
    "version": (lambda each: each.update(apiVersion="serving.kserve.io/v1"), "must be"),
    "field": (lambda each: each["spec"].update(replicas=1), "only a predictor"),
}


def test_the_example_is_whole_and_its_pods_are_those_of_kubernetes(load: Load) -> None:
    manifests = load(FOLDER)
    assert list(kserve.breaches(manifests)) == []
    made = kserve.deployments(manifests)
    assert [each["kind"] for each in made] == [
        "Deployment" if each["kind"] == kserve.KIND else each["kind"] for each in manifests
    ]
    assert list(schemas.kubernetes(made)) == []


@pytest.mark.parametrize("name", BREAKS)
def test_each_break_is_reported(load: Load, name: str) -> None:
    change, said = BREAKS[name]
    manifests = load(FOLDER)
    [service] = [each for each in manifests if each["kind"] == kserve.KIND]
    change(service)
    assert any(said in line for line in kserve.breaches(manifests))


def test_an_unknown_field_of_a_pod_is_reported(load: Load) -> None:
    manifests = load(FOLDER)
    [service] = [each for each in manifests if each["kind"] == kserve.KIND]
    service["spec"]["predictor"]["replica"] = 2
    assert any("replica" in line for line in schemas.kubernetes(kserve.deployments(manifests)))
