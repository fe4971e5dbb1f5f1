"""Checks of objects against the schemas of their kinds.

Kubernetes' own schemas for several versions; custom resources by their projects' types.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import kubernetes_validate

from deploy.check.manifests import Manifest, title

# The oldest with every field used, the first with image volumes by default, the newest known.
VERSIONS = ("1.33", "1.35", "1.37")
CUSTOM = ("cert-manager.io", "gateway.networking.k8s.io", "keda.sh", "monitoring.coreos.com")
CRDS = Path(__file__).resolve().parent / "crds"
BUILD = Path("build/deploy/crds")


def is_custom(manifest: Manifest) -> bool:
    """Return whether its kind is no part of Kubernetes."""
    return str(manifest["apiVersion"]).partition("/")[0] in CUSTOM


def kubernetes(manifests: Sequence[Manifest]) -> Iterator[str]:
    """Yield what Kubernetes itself would refuse, unknown fields included."""
    for version in VERSIONS:
        for manifest in manifests:
            if is_custom(manifest):
                continue
            try:
                kubernetes_validate.validate(manifest, version, strict=True)
            except kubernetes_validate.ValidationError as error:
                place = ".".join(str(part) for part in error.path)
                yield f"{title(manifest)}: Kubernetes {version}: {place}: {error.message}"
            except kubernetes_validate.SchemaNotFoundError:
                yield (
                    f"{title(manifest)}: Kubernetes {version} has no {manifest['apiVersion']} "
                    f"{manifest['kind']}"
                )


def custom(renderings: Mapping[str, Sequence[Manifest]]) -> list[str]:
    """Return what the owners of custom resources would refuse, unknown fields included.

    Raises:
        RuntimeError: the types cannot be installed, or the check itself failed.
    """
    resources = [
        {"name": f"{name}: {title(manifest)}", "object": manifest}
        for name, manifests in renderings.items()
        for manifest in manifests
        if is_custom(manifest)
    ]
    install()
    done = subprocess.run(
        ["node", "validate.mjs"],
        cwd=BUILD,
        input=json.dumps(resources),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"the check of custom resources failed: {done.stderr.strip()[-2000:]}")
    lines: list[str] = json.loads(done.stdout)
    return lines


def install() -> None:
    """Install the types of package-lock.json, if missing. Raises RuntimeError if that fails."""
    BUILD.mkdir(parents=True, exist_ok=True)
    lock = (CRDS / "package-lock.json").read_bytes()
    stamp = BUILD / "installed-lock.json"
    for name in ("package.json", "package-lock.json", "validate.mjs"):
        shutil.copy(CRDS / name, BUILD / name)
    if stamp.exists() and stamp.read_bytes() == lock:
        return
    command = ["npm", "ci", "--ignore-scripts", "--silent", "--no-audit", "--no-fund"]
    try:
        done = subprocess.run(command, cwd=BUILD, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise RuntimeError(
            "npm is missing; custom resources are checked with it: tests/system/require.sh node npm"
        ) from None
    if done.returncode:
        raise RuntimeError(
            f"npm ci failed in {BUILD}: {(done.stderr or done.stdout).strip()[-2000:]}"
        )
    stamp.write_bytes(lock)
