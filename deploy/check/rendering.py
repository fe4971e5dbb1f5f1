"""Rendering of kustomization folders into the objects that would be applied."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import yaml

DEPLOY = Path(__file__).resolve().parents[1]
Manifest = dict[str, Any]

NO_KUBECTL = (
    "kubectl is missing; its kustomize renders the overlays. Install 1.31 or later "
    "(https://kubernetes.io/docs/tasks/tools); Debian's own package kubernetes-client is 1.20, "
    "which is too old"
)


class CannotRender(Exception):
    """Failed rendering; the message has the error and the folder."""


def kustomizations() -> list[Path]:
    """Return every folder to apply, in order: overlays and examples."""
    folders = sorted(
        path.parent
        for kind in ("overlays", "examples")
        for path in (DEPLOY / kind).rglob("kustomization.yaml")
    )
    if not folders:
        raise CannotRender(f"{DEPLOY} has neither overlays nor examples")
    return folders


def render(folder: Path) -> list[Manifest]:
    """Return the objects that `kubectl apply -k` would send.

    Raises:
        CannotRender: kubectl is missing, refuses the folder, or warns.
    """
    if shutil.which("kubectl") is None:
        raise CannotRender(NO_KUBECTL)
    done = subprocess.run(
        ["kubectl", "kustomize", str(folder)], capture_output=True, text=True, check=False
    )
    if done.returncode or done.stderr.strip():
        raise CannotRender(f"kubectl kustomize {name_of(folder)}: {' '.join(done.stderr.split())}")
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def name_of(folder: Path) -> str:
    """Return the path from the repository's root."""
    return str(folder.relative_to(DEPLOY.parent))
