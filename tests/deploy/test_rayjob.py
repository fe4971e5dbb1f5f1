"""The RayJob of examples/ray: each break is reported, and the example is whole."""

from __future__ import annotations

import json

import pytest

from deploy.check import rayjob
from deploy.check.manifests import Manifest
from tests.deploy.breaking import REMOVE, put

CLUSTER = "spec.rayClusterSpec"
HEAD = f"{CLUSTER}.headGroupSpec"
WORKERS = f"{CLUSTER}.workerGroupSpecs.0"
POD = f"{HEAD}.template.spec"


@pytest.fixture
def job() -> Manifest:
    """Return a copy whose parts are not shared, so that a break is in one place."""
    found: Manifest = json.loads(json.dumps(rayjob.read()))
    return found


def test_the_example_is_whole(job: Manifest) -> None:
    assert rayjob.breaches(job) == []


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("apiVersion", "ray.io/v1alpha1", "must be ray.io/v1 RayJob"),
        ("spec.shutdownAfterJobFinish", True, "has the field shutdownAfterJobFinish"),
        (f"{HEAD}.replicas", 1, "headGroupSpec has the field replicas"),
        (f"{WORKERS}.rayStartParams.num-cpus", 5, "is 5, and must be a string"),
        (
            f"{WORKERS}.rayStartParams.object-store-memory",
            REMOVE,
            "object-store-memory must be set",
        ),
        (f"{HEAD}.rayStartParams.object-store-memory", "9000000000", "at most half"),
        (f"{WORKERS}.replicas", 1, "the cluster has CPUs for 1"),
        ("spec.entrypoint", lambda text: f"{text} --nothing 1", "has no option --nothing"),
        ("spec.entrypoint", lambda text: text.replace("/data/", "/dat/"), "is on no volume"),
        (f"{CLUSTER}.rayVersion", "2.1.0", "rayVersion is 2.1.0"),
        (f"{POD}.containers.0.image", "headlight-ray:latest", "does not end in"),
        (f"{POD}.containers.0.comand", ["ray"], "comand"),
    ],
)
def test_each_break_is_reported(job: Manifest, path: str, value: object, said: str) -> None:
    put(job, path, value)
    assert any(said in line for line in rayjob.breaches(job)), rayjob.breaches(job)
