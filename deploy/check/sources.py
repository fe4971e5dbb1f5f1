"""Invariants of the source files, which renderings cannot show."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import yaml

from deploy.check.rendering import DEPLOY, name_of

PLACEHOLDERS = {"headlight", "headlight-bundle", "headlight-export"}
IMAGE = re.compile(r"^\s*-?\s*(?:image|reference): *([^\s#]+)", re.MULTILINE)


def breaches(deploy: Path = DEPLOY) -> Iterator[str]:
    """Yield all breaches."""
    yield from images_come_from_one_place(deploy)
    yield from kustomizations_explain_themselves(deploy)
    yield from components_are_tried(deploy)
    yield from examples_build_on_overlays(deploy)


def images_come_from_one_place(deploy: Path) -> Iterator[str]:
    """Check that only an overlay's kustomization.yaml names images; others have placeholders."""
    for path in sorted(deploy.rglob("*.yaml")):
        if path.name != "kustomization.yaml" and path.relative_to(deploy).parts[0] in (
            "base",
            "components",
            "examples",
            "overlays",
        ):
            for image in IMAGE.findall(path.read_text(encoding="utf-8")):
                if image not in PLACEHOLDERS:
                    yield (
                        f"{name_of(path)}: image {image}; only an overlay's kustomization.yaml "
                        "says which image"
                    )


def kustomizations_explain_themselves(deploy: Path) -> Iterator[str]:
    """Check that each kustomization begins with its purpose and its use case."""
    for path in sorted(deploy.rglob("kustomization.yaml")):
        if not path.read_text(encoding="utf-8").startswith("# "):
            yield f"{name_of(path)}: begins without a comment that says what it does"


def components_are_tried(deploy: Path) -> Iterator[str]:
    """Check that each component is used by an overlay or example: otherwise no check sees it."""
    used: set[Path] = set()
    for path in (
        *deploy.glob("overlays/*/kustomization.yaml"),
        *deploy.glob("examples/**/kustomization.yaml"),
    ):
        listed = yaml.safe_load(path.read_text(encoding="utf-8")).get("components", [])
        used |= {(path.parent / component).resolve() for component in listed}
    for path in sorted(deploy.glob("components/*/kustomization.yaml")):
        if path.parent.resolve() not in used:
            yield f"{name_of(path.parent)}: no overlay and no example uses it"


def examples_build_on_overlays(deploy: Path) -> Iterator[str]:
    """Check that an example builds on an overlay, with its CPUs, memory and images.

    So applying it after the overlay removes none of them.
    """
    for path in sorted(deploy.glob("examples/**/kustomization.yaml")):
        listed = yaml.safe_load(path.read_text(encoding="utf-8")).get("resources", [])
        if (deploy / "base").resolve() in {
            (path.parent / resource).resolve() for resource in listed
        }:
            yield f"{name_of(path)}: builds on the base; build on an overlay"
