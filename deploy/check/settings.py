"""Invariants of the service's options: they exist, accept their values, and hold no secret."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from deploy.check import manifests as look
from deploy.check.manifests import Manifest
from headlight_service.config.command_line import OTHER_VARIABLES, PREFIX, ConfigError
from headlight_service.config.options import Config
from headlight_service.telemetry.metrics import GAUGES

SECRET = re.compile(r"(?i)(password|passwd|secret|private|api.?key|token|credential)")
METRIC = re.compile(r"\bheadlight_\w+")
NAMESPACE = re.compile(r'namespace="([^"]*)"')

PARSERS = {
    PREFIX + field.name.upper(): field.metadata["parse"] for field in dataclasses.fields(Config)
}


def unreadable(name: str, value: str) -> str | None:
    """Return why an option is unknown or rejects this value; None: it accepts it."""
    if name not in PARSERS:
        return f"{name} is no option of the service"
    try:
        PARSERS[name](value)
    except ValueError as error:
        return f"{name} is {value!r}; it {error}"
    return None


def refusal(options: Mapping[str, str]) -> str | None:
    """Return why the service would not start with these options together; None: it would."""
    try:
        Config.parse((), options)
    except ConfigError as error:
        return str(error)
    return None


def options_are_taken(manifests: list[Manifest]) -> Iterator[str]:
    """Check that HEADLIGHT_ variables are options, accepted alone and beside the others."""
    for workload in look.workloads(manifests):
        serving = look.of_kind([workload], "Deployment")
        for container in look.pod(workload)["containers"]:
            where = f"{look.title(workload)}, container {container['name']}"
            given = {
                name: value
                for name, value in look.options(manifests, container).items()
                if name.startswith(PREFIX) and name not in OTHER_VARIABLES
            }
            alone = [why for name, value in given.items() if (why := unreadable(name, value))]
            yield from (f"{where}: {why}" for why in alone)
            if serving and not alone and (why := refusal(given)):
                yield f"{where}: {why}"


def references_exist(manifests: list[Manifest]) -> Iterator[str]:
    """Check that pods' ConfigMaps exist, and that options name files on a mounted volume."""
    maps = {manifest["metadata"]["name"] for manifest in look.of_kind(manifests, "ConfigMap")}
    for workload in look.workloads(manifests):
        where = look.title(workload)
        volumes = [
            volume["configMap"]["name"]
            for volume in look.pod(workload).get("volumes", [])
            if "configMap" in volume
        ]
        for container in look.containers(workload):
            sources = [
                source["configMapRef"]["name"]
                for source in container.get("envFrom", [])
                if "configMapRef" in source
            ]
            yield from (
                f"{where}: ConfigMap {name} is not here"
                for name in (*sources, *volumes)
                if name not in maps
            )
            mounts = [
                PurePosixPath(mount["mountPath"]) for mount in container.get("volumeMounts", [])
            ]
            for name, value in look.options(manifests, container).items():
                path = PurePosixPath(value)
                if value.startswith("/") and not any(
                    path.is_relative_to(mount) for mount in mounts
                ):
                    yield (
                        f"{where}, container {container['name']}: {name} is {value}, "
                        "which is on no volume"
                    )


def secrets_stay_out(manifests: list[Manifest]) -> Iterator[str]:
    """Check that no secret is in an option or in the repository.

    Every child process and crash report has the environment. checkov refuses references to Secrets
    there.
    """
    yield from (
        f"{look.title(secret)}: a Secret does not belong into a repository"
        for secret in look.of_kind(manifests, "Secret")
    )
    for workload in look.workloads(manifests):
        for container in look.containers(workload):
            where = f"{look.title(workload)}, container {container['name']}"
            for name, value in look.options(manifests, container).items():
                plain = (
                    value.startswith("/") or value.replace(".", "").isdecimal()
                )  # the path of a mounted file, a number of tokens
                if SECRET.search(name) and not plain:
                    yield f"{where}: {name} looks like a secret; mount it as a file"


def scalers_ask_for_metrics_that_exist(manifests: list[Manifest]) -> Iterator[str]:
    """Check that autoscalers query gauges of the service, in their own namespace."""
    known = set(GAUGES)
    for scaler in look.of_kind(manifests, "HorizontalPodAutoscaler", "ScaledObject"):
        spec = scaler["spec"]
        queries = [trigger["metadata"].get("query", "") for trigger in spec.get("triggers", [])]
        names = [
            metric["pods"]["metric"]["name"]
            for metric in spec.get("metrics", [])
            if "pods" in metric
        ]
        for text in (*queries, *names):
            wrong = set(METRIC.findall(text)) - known
            if wrong or not METRIC.search(text):
                yield (
                    f"{look.title(scaler)}: asks for {text!r}; "
                    f"gauges of the service are {sorted(known)}"
                )
        for query in queries:
            namespace = scaler["metadata"].get("namespace")
            if set(NAMESPACE.findall(query)) != {namespace}:
                yield f"{look.title(scaler)}: asks {query!r}, and is in namespace {namespace}"


def exports_are_served(manifests: list[Manifest]) -> Iterator[str]:
    """Check that an init container exports what the service reads: arguments, options, folder."""
    for deployment, container in look.server(manifests):
        exporters = [
            each
            for each in look.pod(deployment).get("initContainers", [])
            if "HEADLIGHT_CHECK" in look.options(manifests, each)
        ]
        for each in exporters:
            for field in ("args", "envFrom"):
                if each.get(field) != container.get(field):
                    yield (
                        f"{look.title(deployment)}: {field} of the container {each['name']} are "
                        f"{each.get(field)}, of {container['name']} {container.get(field)}; "
                        "it would export another model than is served"
                    )
            if "HEADLIGHT_CACHE" not in look.options(manifests, container):
                yield f"{look.title(deployment)}: HEADLIGHT_CACHE is not set, where exports are"


INVARIANTS = (
    options_are_taken,
    exports_are_served,
    references_exist,
    secrets_stay_out,
    scalers_ask_for_metrics_that_exist,
)
