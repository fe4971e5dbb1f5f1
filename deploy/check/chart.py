"""The Helm chart, rendered by Helm's own engine, and compared with what Kustomize renders."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import yaml
from helm_python import Chart

from deploy.check.manifests import Manifest, title
from deploy.check.rendering import DEPLOY

CHART = DEPLOY / "chart"
# What Kustomize renders with the values of each file; None: without a file.
SAME: dict[str | None, str] = {
    None: "deploy/overlays/cpu",
    **{
        name: f"deploy/overlays/{name}"
        for name in ("dev", "embeddings", "gpu", "models", "production")
    },
    "hub-model": "deploy/examples/hub-model",
}
HOOK, NAMESPACE = "helm.sh/hook", "headlight"
SUFFIX = re.compile(r"-[a-z0-9]{10}\Z")  # of a ConfigMap by Kustomize: a digest of its content
# By design: Helm has a namespace by an option, a checksum in place of the suffix, own labels.
DIFFERENT = ("namespace", "annotations", "labels", "creationTimestamp")


def values(name: str | None) -> dict[str, Any]:
    """Return the values of a file of the chart; of None: the defaults."""
    if name is None:
        return {}
    text = (CHART / "values" / f"{name}.yaml").read_text(encoding="utf-8")
    return dict(yaml.safe_load(text))


def render(given: Mapping[str, Any], name: str = "headlight") -> list[Manifest]:
    """Return the objects of a release.

    Raises:
        helm_python.HelmError: the values are not those of the schema, or a template fails.
    """
    with Chart.load(CHART) as chart:
        texts = chart.render(dict(given), name=name, namespace=NAMESPACE)
    manifests = [
        document
        for file, text in sorted(texts.items())
        if file.endswith(".yaml")
        for document in yaml.safe_load_all(text)
        if document
    ]
    for manifest in manifests:  # as `helm install --namespace` does
        manifest["metadata"]["namespace"] = NAMESPACE
    return manifests


def renderings() -> dict[str, list[Manifest]]:
    """Return the objects for each file of values, without that of `helm test`."""
    return {
        f"deploy/chart, {name or 'defaults'}": [
            each for each in render(values(name)) if not _is_hook(each)
        ]
        for name in SAME
    }


def differences(kustomized: Mapping[str, list[Manifest]]) -> Iterator[str]:
    """Yield each object in which the chart differs from the overlay with the same name."""
    for name, folder in SAME.items():
        ours, theirs = _comparable(render(values(name))), _comparable(kustomized[folder])
        for key in sorted(ours.keys() | theirs.keys()):
            if key not in ours or key not in theirs:
                where = folder if key not in ours else "the chart"
                yield f"{name or 'defaults'}: {key} is only in {where}"
            else:
                for path in _unequal(ours[key], theirs[key]):
                    yield f"{name or 'defaults'}: {key} differs from {folder} at {path}"


def _is_hook(manifest: Manifest) -> bool:
    return HOOK in manifest["metadata"].get("annotations", {})


def _comparable(manifests: list[Manifest]) -> dict[str, Any]:
    """Return objects by kind and name, without what differs by design."""
    objects = {}
    for manifest in manifests:
        if manifest["kind"] != "Namespace" and not _is_hook(manifest):
            key = SUFFIX.sub("", title(manifest)) if manifest["kind"] == "ConfigMap" else ""
            objects[key or title(manifest)] = _plain(manifest)
    return objects


def _plain(value: Any, within: str = "") -> Any:
    """Return a value without metadata that differs by design; lists of names are sorted."""
    if isinstance(value, dict):
        dropped = DIFFERENT if within == "metadata" else ()
        return {key: _plain(part, key) for key, part in value.items() if key not in dropped}
    if isinstance(value, list):
        parts = [_plain(part) for part in value]
        named = parts and all(isinstance(part, dict) and "name" in part for part in parts)
        return sorted(parts, key=lambda part: str(part["name"])) if named else parts
    if within == "name" and isinstance(value, str):
        return SUFFIX.sub("", value)
    return value


def _unequal(one: Any, other: Any, path: str = "") -> Iterator[str]:
    """Yield the dotted paths at which two values differ."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted(one.keys() | other.keys()):
            yield from _unequal(one.get(key), other.get(key), f"{path}.{key}".lstrip("."))
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for index, (left, right) in enumerate(zip(one, other, strict=True)):
            yield from _unequal(left, right, f"{path}.{index}")
    elif one != other:
        yield f"{path}: {one!r:.80} and {other!r:.80}"
