"""Invariants of every rendering: pods, resources, scaling.

Each function yields a line for each breach.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from deploy.check import manifests as look
from deploy.check import networking, settings
from deploy.check.manifests import Manifest
from headlight.runtime.bundle.bundle import Bundle
from headlight.runtime.providers.worker_layout import share
from headlight_service.app.resources import Resources, resources_of
from headlight_service.config.command_line import ConfigError
from headlight_service.config.options import Config

Invariant = Callable[[list[Manifest]], Iterator[str]]

# From the end of the grace time to the process's end: calls in flight are refused, threads end.
MARGIN_SECONDS = 5
SHIPPED = Path(__file__).resolve().parents[2] / "build/bundles/docs-rope"  # the overlays' bundle
SCALE_DOWN_SECONDS = range(300, 901)
LABELLED = (
    *("Deployment", "Job", "Service", "ServiceAccount", "NetworkPolicy"),
    *("PodDisruptionBudget", "HorizontalPodAutoscaler", "ScaledObject"),
)
LABELS = ("name", "instance", "part-of", "managed-by")


def grace_covers_drain(manifests: list[Manifest]) -> Iterator[str]:
    """Check that the grace period is the sum of its parts, and that a drain delay is set."""
    for deployment, container in look.server(manifests):
        options = look.options(manifests, container)
        parts = {
            "preStop": float(
                container.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
            ),
            "drain": float(options.get("HEADLIGHT_DRAIN_DELAY_SECONDS", 0)),
            "grace": float(options.get("HEADLIGHT_GRACE_SECONDS", 30)),
            "margin": MARGIN_SECONDS,
        }
        have, want = (
            look.pod(deployment).get("terminationGracePeriodSeconds", 30),
            sum(parts.values()),
        )
        if have != want:
            summands = " + ".join(f"{name} {value:g}" for name, value in parts.items())
            yield (
                f"{look.title(deployment)}: terminationGracePeriodSeconds is {have}, "
                f"and must be {want:g}: {summands}"
            )
        if options.get("HEADLIGHT_DRAIN_DELAY_SECONDS", "0") == "0":
            yield (
                f"{look.title(deployment)}: HEADLIGHT_DRAIN_DELAY_SECONDS is 0; "
                "clients would still be sent to pods that no longer accept calls"
            )


def budget_below_replicas(manifests: list[Manifest]) -> Iterator[str]:
    """Check that a drain of a node always finds a pod to evict, and never all of them."""
    for budget in look.of_kind(manifests, "PodDisruptionBudget"):
        allowed = budget["spec"].get("maxUnavailable")
        for deployment in look.of_kind(manifests, "Deployment"):
            if not look.matches(look.selector_of(budget), look.pod_labels(deployment)):
                continue
            fewest = look.fewest_replicas(manifests, deployment)
            if not isinstance(allowed, int) or not 0 < allowed < fewest:
                yield (
                    f"{look.title(budget)}: maxUnavailable is {allowed}, of {fewest} replicas; "
                    f"it must be 1 to {fewest - 1}"
                )


def autoscaler_has_the_word(manifests: list[Manifest]) -> Iterator[str]:
    """Check that replicas are set in one place only, and scale down slowly."""
    for deployment in look.of_kind(manifests, "Deployment"):
        scalers = look.scalers(manifests, deployment)
        if scalers and "replicas" in deployment["spec"]:
            yield (
                f"{look.title(deployment)}: has replicas and an autoscaler, "
                "which would undo each other"
            )
        if len(scalers) > 1:
            yield f"{look.title(deployment)}: has {len(scalers)} autoscalers; choose one"
        for scaler in scalers:
            spec = scaler["spec"]
            spec = spec.get("advanced", {}).get("horizontalPodAutoscalerConfig", spec)
            seconds = (
                spec.get("behavior", {}).get("scaleDown", {}).get("stabilizationWindowSeconds", 300)
            )
            if seconds not in SCALE_DOWN_SECONDS:
                yield (
                    f"{look.title(scaler)}: scaleDown is stabilised for {seconds} s; "
                    "it must be 300 to 900"
                )


def autoscalers_can_measure(manifests: list[Manifest]) -> Iterator[str]:
    """Check that what an autoscaler reads is there: requests of its containers, or a PodMonitor."""
    for deployment in look.of_kind(manifests, "Deployment"):
        scraped = any(
            look.matches(look.selector_of(monitor), look.pod_labels(deployment))
            for monitor in look.of_kind(manifests, "PodMonitor")
        )
        requests = {
            container["name"]: container.get("resources", {}).get("requests", {})
            for container in look.pod(deployment)["containers"]
        }
        for scaler in look.scalers(manifests, deployment):
            # KEDA's triggers, which have no field like these, are queries of Prometheus.
            for metric in scaler["spec"].get("metrics", scaler["spec"].get("triggers", [])):
                if "containerResource" in metric:
                    source = metric["containerResource"]
                    if source["name"] not in requests.get(source["container"], {}):
                        yield (
                            f"{look.title(scaler)}: container {source['container']} requests no "
                            f"{source['name']}, of which the use is a share"
                        )
                elif not scraped:
                    yield (
                        f"{look.title(scaler)}: reads a metric of the service, which no "
                        "PodMonitor scrapes; add the component monitoring"
                    )


def threads_are_cpus(manifests: list[Manifest]) -> Iterator[str]:
    """Check that there are as many threads as whole CPUs.

    Otherwise the kernel throttles some of them during a batch.
    """
    for deployment, container in look.server(manifests):
        cpus = look.quantity(container.get("resources", {}).get("limits", {}).get("cpu", 0))
        options = look.options(manifests, container)
        streams, threads = (
            int(options[name]) if name in options else None
            for name in ("HEADLIGHT_STREAMS", "HEADLIGHT_THREADS")
        )
        count, each = share(streams, threads, max(1, int(cpus)))
        if cpus < 1 or count * each != cpus:
            layout = f"{count} streams of {each} threads"
            yield (
                f"{look.title(deployment)}: a limit of {float(cpus):g} CPUs for {layout}; "
                "set whole CPUs, up to 8 or a multiple of 8"
            )


def memory_suffices(manifests: list[Manifest]) -> Iterator[str]:
    """Check that a replica with the shipped model has the memory that it may need."""
    for deployment, container in look.server(manifests):
        limits = container["resources"]["limits"]
        if "HEADLIGHT_MAX_OUTPUT_BYTES" not in look.options(manifests, container):
            yield (
                f"{look.title(deployment)}: HEADLIGHT_MAX_OUTPUT_BYTES is not set; "
                "by default it grows with the model"
            )
            continue
        try:
            least = needed(manifests, container).memory
        except ConfigError:  # `settings.options_are_taken` reports it
            continue
        if (limit := look.quantity(limits.get("memory", 0))) < least:
            yield (
                f"{look.title(deployment)}: a memory limit of {limit:f} bytes is less than the "
                f"{least} of `headlight info --resources`"
            )


def needed(manifests: list[Manifest], container: Manifest) -> Resources:
    """Return what `headlight info --resources` says of a container with the shipped model.

    Raises:
        ConfigError: the options are wrong.
    """
    options = look.options(manifests, container)
    config = Config.parse((), {name: options[name] for name in options if name in settings.PARSERS})
    cpus = max(1, int(look.quantity(container["resources"]["limits"].get("cpu", 0))))
    return resources_of(config, Bundle(SHIPPED).manifest, cpus)


def resources_are_promised(manifests: list[Manifest]) -> Iterator[str]:
    """Check that limits equal requests in every container, and that there is one of disk."""
    for workload in look.workloads(manifests):
        for container in look.containers(workload):
            resources = container.get("resources", {})
            limits, requests = resources.get("limits", {}), resources.get("requests", {})
            where = f"{look.title(workload)}, container {container['name']}"
            if limits != requests:
                yield f"{where}: limits {limits} differ from requests {requests}"
            if "ephemeral-storage" not in limits:
                yield f"{where}: no limit of ephemeral-storage"


def pods_are_restricted(manifests: list[Manifest]) -> Iterator[str]:
    """Check what checkov does not: no Service variables, bounded folders, known volumes."""
    for workload in look.workloads(manifests):
        spec, where = look.pod(workload), look.title(workload)
        if spec.get("enableServiceLinks") is not False:
            yield f"{where}: enableServiceLinks must be false"
        for volume in spec.get("volumes", []):
            if "emptyDir" in volume and "sizeLimit" not in (volume["emptyDir"] or {}):
                yield f"{where}: volume {volume['name']} has no sizeLimit"
        known = {volume["name"] for volume in spec.get("volumes", [])}
        for container in look.containers(workload):
            for mount in container.get("volumeMounts", []):
                if mount["name"] not in known:
                    yield (
                        f"{where}, container {container['name']}: volume {mount['name']} is not "
                        "defined; "
                        "add a component bundle-*"
                    )


def rollout_keeps_all(manifests: list[Manifest]) -> Iterator[str]:
    """Check that a rollout never has fewer replicas than desired."""
    for deployment in look.of_kind(manifests, "Deployment"):
        rolling = deployment["spec"].get("strategy", {}).get("rollingUpdate", {})
        if rolling.get("maxUnavailable") != 0 or not rolling.get("maxSurge"):
            yield (
                f"{look.title(deployment)}: rollingUpdate is {rolling}; maxUnavailable must be 0, "
                "maxSurge at least 1"
            )


def image_volumes_are_named(manifests: list[Manifest]) -> Iterator[str]:
    """Check that no placeholder is left in a volume, which checkov does not read."""
    for workload in look.workloads(manifests):
        for volume in look.pod(workload).get("volumes", []):
            image = volume.get("image", {}).get("reference", ":")
            if ":" not in image.rpartition("/")[2]:
                yield (
                    f"{look.title(workload)}: volume {volume['name']} has the image {image!r}, "
                    "without a version; a patch in the overlay must name it"
                )


def objects_are_labelled(manifests: list[Manifest]) -> Iterator[str]:
    """Check that workloads, and objects that configure them, have the recommended labels."""
    for manifest in look.of_kind(manifests, *LABELLED):
        labels = manifest["metadata"].get("labels", {})
        missing = [name for name in LABELS if f"app.kubernetes.io/{name}" not in labels]
        if missing:
            yield f"{look.title(manifest)}: no label app.kubernetes.io/{missing[0]}"


def shards_are_completions(manifests: list[Manifest]) -> Iterator[str]:
    """Check that each part of the input has exactly one worker."""
    for job in look.of_kind(manifests, "Job"):
        shards = {
            look.options(manifests, container).get("SHARDS")
            for container in look.pod(job)["containers"]
        }
        if shards != {str(job["spec"]["completions"])}:
            yield f"{look.title(job)}: SHARDS is {shards}, completions {job['spec']['completions']}"


INVARIANTS: tuple[Invariant, ...] = (
    grace_covers_drain,
    budget_below_replicas,
    autoscaler_has_the_word,
    autoscalers_can_measure,
    threads_are_cpus,
    memory_suffices,
    resources_are_promised,
    pods_are_restricted,
    rollout_keeps_all,
    image_volumes_are_named,
    objects_are_labelled,
    shards_are_completions,
    *networking.INVARIANTS,
    *settings.INVARIANTS,
)


def breaches(
    manifests: list[Manifest], network: Iterable[Invariant] = networking.INVARIANTS
) -> list[str]:
    """Return the lines of all invariants; `network`: those of ports and Services that hold."""
    left_out = {*networking.INVARIANTS} - {*network}
    return [
        line
        for invariant in INVARIANTS
        if invariant not in left_out
        for line in invariant(manifests)
    ]
