"""Invariants of every rendering: pods, resources, scaling.

Each function yields a line for each breach.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from deploy.check import manifests as look
from deploy.check import networking, settings
from deploy.check.manifests import Manifest
from headlight.runtime.bundle.manifest import Architecture
from headlight.runtime.providers.worker_layout import share
from headlight_service.config.options import Config
from headlight_service.core.admission.working_memory import batches_at_once, text_bytes

Invariant = Callable[[list[Manifest]], Iterator[str]]

# From the end of the grace time to the process's end: calls in flight are refused, threads end.
MARGIN_SECONDS = 5
PROCESS_BYTES = 300 << 20  # Python and the libraries, under load; also in deploy/README.md
SHIPPED = (
    Path(__file__).resolve().parents[2] / "model" / "headlight_model" / "checkpoints" / "docs-rope"
)  # the model that the overlays name
WEIGHT_BYTES = 16 << 20  # of the shipped model, in a bundle
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
            said = " + ".join(f"{name} {value:g}" for name, value in parts.items())
            yield (
                f"{look.title(deployment)}: terminationGracePeriodSeconds is {have}, "
                f"and must be {want:g}: {said}"
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


def threads_are_cpus(manifests: list[Manifest]) -> Iterator[str]:
    """Check that there are as many threads as whole CPUs.

    Otherwise the kernel throttles some of them during a batch.
    """
    for deployment, container in look.server(manifests):
        cpus = look.quantity(container.get("resources", {}).get("limits", {}).get("cpu", 0))
        options = look.options(manifests, container)
        count, each = _shared(options, max(1, int(cpus)))
        if cpus < 1 or count * each != cpus:
            said = f"{count} streams of {each} threads"
            yield (
                f"{look.title(deployment)}: a limit of {float(cpus):g} CPUs for {said}; "
                "set whole CPUs, up to 8 or a multiple of 8"
            )


def _shared(options: Mapping[str, str], cpus: int) -> tuple[int, int]:
    """Return the workers (HEADLIGHT_STREAMS) and the threads of each."""
    streams, threads = (
        int(options[name]) if name in options else None
        for name in ("HEADLIGHT_STREAMS", "HEADLIGHT_THREADS")
    )
    return share(streams, threads, cpus)


def memory_holds_answers_and_work(manifests: list[Manifest]) -> Iterator[str]:
    """Check that the largest answers, requests and texts fit beside the process.

    Otherwise a flood of them kills it. No manifest names the model's sizes: the shipped model is
    assumed, and what another model needs beyond that must be added.
    """
    for deployment, container in look.server(manifests):
        options, limits = look.options(manifests, container), container["resources"]["limits"]
        if "HEADLIGHT_MAX_OUTPUT_BYTES" not in options:
            yield (
                f"{look.title(deployment)}: HEADLIGHT_MAX_OUTPUT_BYTES is not set; "
                "by default it grows with the model"
            )
            continue
        requests = int(options.get("HEADLIGHT_MAX_QUEUE_BYTES", Config.max_queue_bytes))
        batches, work = _work(options, max(1, int(look.quantity(limits.get("cpu", 0)))))
        least = (
            2 * int(options["HEADLIGHT_MAX_OUTPUT_BYTES"])
            + requests
            + PROCESS_BYTES
            + 3 * WEIGHT_BYTES
            + work
        )
        if (limit := look.quantity(limits.get("memory", 0))) < least:
            own = (
                f"three times the weights of {SHIPPED.name} and {batches} of its "
                "longest texts at once"
            )
            said = f"twice HEADLIGHT_MAX_OUTPUT_BYTES, HEADLIGHT_MAX_QUEUE_BYTES, 300 MiB, {own}"
            yield (
                f"{look.title(deployment)}: a memory limit of {limit:f} bytes is less than "
                f"{said}: {least}"
            )


def _work(options: dict[str, str], cpus: int) -> tuple[int, int]:
    """Return the shipped model's batches at once, and their bytes with the longest texts."""
    config = json.loads((SHIPPED / "config.json").read_text(encoding="utf-8"))
    same = {name: config[name] for name in ("positions", "layers", "heads", "dim", "vocab_size")}
    model = Architecture(**same, pooled_dim=config["dim"])
    provider = options.get("HEADLIGHT_PROVIDER", "cpu").replace("auto", "cpu")
    streams, _ = _shared(
        {"HEADLIGHT_STREAMS": "1"} | options if provider == "cuda" else options, cpus
    )
    batches = batches_at_once(streams, provider)
    attend = options.get("HEADLIGHT_ATTENTION", Config.attention) == "on"
    return batches, batches * text_bytes(model, config["max_length"], provider, attend=attend)


def resources_are_promised(manifests: list[Manifest]) -> Iterator[str]:
    """Check that limits equal requests in every container: CPUs, memory and disk."""
    for workload in look.workloads(manifests):
        for container in look.containers(workload):
            resources = container.get("resources", {})
            limits, requests = resources.get("limits", {}), resources.get("requests", {})
            where = f"{look.title(workload)}, container {container['name']}"
            if limits != requests:
                yield f"{where}: limits {limits} differ from requests {requests}"
            yield from (
                f"{where}: no limit of {name}"
                for name in ("cpu", "memory", "ephemeral-storage")
                if name not in limits
            )


def pods_are_restricted(manifests: list[Manifest]) -> Iterator[str]:
    """Check what checkov does not: no account token, no Service variables, bounded folders."""
    for workload in look.workloads(manifests):
        spec, where = look.pod(workload), look.title(workload)
        for field in ("automountServiceAccountToken", "enableServiceLinks"):
            if spec.get(field) is not False:
                yield f"{where}: {field} must be false"
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


def images_are_chosen(manifests: list[Manifest]) -> Iterator[str]:
    """Check that no placeholder is left, no version floats, and one repository has one version."""
    versions: dict[str, set[str]] = {}
    for workload in look.workloads(manifests):
        volumes = (
            volume["image"]["reference"]
            for volume in look.pod(workload).get("volumes", [])
            if "image" in volume
        )
        for image in itertools.chain(
            (container["image"] for container in look.containers(workload)), volumes
        ):
            name, _, version = (
                image.replace("@", ":", 1).rpartition(":")
                if ":" in image.rpartition("/")[2]
                else (image, "", "")
            )
            if "/" not in name or version in ("", "latest"):
                yield (
                    f"{look.title(workload)}: image {image!r} is not set, or floats; "
                    "the overlay's `images` must name one version"
                )
            versions.setdefault(name, set()).add(version)
    yield from (
        f"image {name} is used as {sorted(used)}; use one"
        for name, used in versions.items()
        if len(used) > 1
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
    threads_are_cpus,
    memory_holds_answers_and_work,
    resources_are_promised,
    pods_are_restricted,
    rollout_keeps_all,
    images_are_chosen,
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
