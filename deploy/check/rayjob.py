"""examples/ray/rayjob.yaml: its fields, its pods, and what the rest of the repository says of it.

No package has KubeRay's types for the check of custom resources. Its fields are listed here, from
KubeRay's API reference of ray.io/v1; its pods are checked as those of a Deployment.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from deploy.check import schemas
from deploy.check.manifests import Manifest, quantity
from deploy.check.rendering import DEPLOY

EXAMPLE = DEPLOY.parent / "examples" / "ray"
REQUIREMENTS = DEPLOY.parent / "tests" / "bulk" / "requirements.txt"
# Fields by place; those that no example uses are left out.
FIELDS: dict[str, set[str]] = {
    "RayJob": {"apiVersion", "kind", "metadata", "spec"},
    "spec": {
        *("entrypoint", "backoffLimit", "shutdownAfterJobFinishes", "ttlSecondsAfterFinished"),
        *("rayClusterSpec", "runtimeEnvYAML", "submissionMode", "activeDeadlineSeconds"),
    },
    "rayClusterSpec": {"rayVersion", "headGroupSpec", "workerGroupSpecs"},
    "headGroupSpec": {"rayStartParams", "template", "serviceType"},
    "workerGroupSpecs": {
        *("groupName", "replicas", "minReplicas", "maxReplicas"),
        *("rayStartParams", "template"),
    },
}
OPTION = re.compile(r"(--[a-z-]+)(?: (\S+))?")


def read(folder: Path = EXAMPLE) -> Manifest:
    """Read the manifest."""
    manifest: Manifest = yaml.safe_load((folder / "rayjob.yaml").read_text(encoding="utf-8"))
    return manifest


def breaches(job: Manifest | None = None) -> list[str]:
    """Return what KubeRay or Kubernetes would refuse, and what could not run."""
    job = read() if job is None else job
    lines = [*unknown_fields(job), *start_parameters(job), *entrypoint(job), *versions(job)]
    lines += schemas.kubernetes(deployments(job))
    return [f"RayJob/{job['metadata']['name']}: {line}" for line in lines]


def groups(job: Manifest) -> list[Manifest]:
    """Return the groups of pods, the head first."""
    cluster = job["spec"]["rayClusterSpec"]
    return [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]


def unknown_fields(job: Manifest) -> Iterator[str]:
    """Check the fields that are not those of pods."""
    if (job["apiVersion"], job["kind"]) != ("ray.io/v1", "RayJob"):
        yield f"is {job['apiVersion']} {job['kind']}, and must be ray.io/v1 RayJob"
    head, *workers = groups(job)
    parts: list[tuple[str, dict[str, Any]]] = [
        ("RayJob", job),
        ("spec", job["spec"]),
        ("rayClusterSpec", job["spec"]["rayClusterSpec"]),
        ("headGroupSpec", head),
        *(("workerGroupSpecs", each) for each in workers),
    ]
    for place, fields in parts:
        for name in fields.keys() - FIELDS[place]:
            yield f"{place} has the field {name}, which is not known here"


def start_parameters(job: Manifest) -> Iterator[str]:
    """Check that parameters of `ray start` are strings, and that the object store is bounded."""
    for group in groups(job):
        name = group.get("groupName", "head")
        parameters = group["rayStartParams"]
        for key, value in parameters.items():
            if not isinstance(value, str):
                yield f"{name}: rayStartParams.{key} is {value!r}, and must be a string"
        [container] = group["template"]["spec"]["containers"]
        memory = quantity(container["resources"]["limits"]["memory"])
        if not 0 < int(parameters.get("object-store-memory", 0)) <= memory / 2:
            yield f"{name}: object-store-memory must be set, to at most half the memory"


def entrypoint(job: Manifest) -> Iterator[str]:
    """Check the options of the script, and that the cluster has CPUs for its workers."""
    script = (EXAMPLE / "embed_parquet.py").read_text(encoding="utf-8")
    options = dict(OPTION.findall(job["spec"]["entrypoint"]))
    for name in options:
        if f'"{name}"' not in script:
            yield f"entrypoint: embed_parquet.py has no option {name}"
    _, *workers = groups(job)
    each = float(options.get("--cpus-per-worker") or 1)
    room = sum(
        group["replicas"] * (float(group["rayStartParams"]["num-cpus"]) // each)
        for group in workers
    )
    if float(options.get("--workers") or 1) > room:
        yield f"entrypoint: {options['--workers']} workers; the cluster has CPUs for {room:g}"
    for group in groups(job):
        for container in group["template"]["spec"]["containers"]:
            mounted = [mount["mountPath"] for mount in container["volumeMounts"]]
            for path in re.findall(r" (/\S+)", job["spec"]["entrypoint"]):
                if not path.startswith(tuple(f"{mount}/" for mount in mounted)):
                    yield f"{container['name']}: {path} of the entrypoint is on no volume"


def versions(job: Manifest) -> Iterator[str]:
    """Check for the version of Ray that the tests have."""
    pinned = re.search(r"^ray==(\S+)$", REQUIREMENTS.read_text(encoding="utf-8"), re.MULTILINE)
    assert pinned is not None
    cluster = job["spec"]["rayClusterSpec"]
    if cluster["rayVersion"] != pinned[1]:
        yield f"rayVersion is {cluster['rayVersion']}; the tests have {pinned[1]}"
    for group in groups(job):
        for container in group["template"]["spec"]["containers"]:
            if not container["image"].endswith(f":{pinned[1]}"):
                yield f"image {container['image']} does not end in :{pinned[1]}"


def deployments(job: Manifest) -> list[Manifest]:
    """Return the groups as Deployments, for the schemas of their pods."""
    made = []
    for group in groups(job):
        labels = {"ray.io/group": group.get("groupName", "head")}
        pods = {"metadata": {"labels": labels}, "spec": group["template"]["spec"]}
        made.append(
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": labels["ray.io/group"]},
                "spec": {"selector": {"matchLabels": labels}, "template": pods},
            }
        )
    return made
