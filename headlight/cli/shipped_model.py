"""Shipped model, which `headlight serve` serves if no bundle is named."""

from __future__ import annotations

import hashlib
import importlib.util
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import headlight
from headlight.extras import remedy

MODEL_PACKAGE = "headlight_model"  # never imported: its folder holds the shipped model
NAME = "docs-rope"
NONE = "--bundle is missing"


class PartError(Exception):
    """A command of another package cannot run; the message has the reason and the remedy."""


def with_bundle(arguments: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """Return the arguments of `headlight serve`, with the shipped model if they name no bundle.

    Raises:
        PartError: there is no bundle, and none can be exported here.
    """
    given = any(
        each in {"--bundle", "--help", "-h"} or each.startswith("--bundle=") for each in arguments
    )
    if given or "HEADLIGHT_BUNDLE" in environ:
        return [*arguments]
    return ["--bundle", str(shipped_bundle(environ)), *arguments]


def shipped_bundle(environ: Mapping[str, str]) -> Path:
    """Return the bundle of the shipped model, from the installation or the user's cache.

    If neither has it, it is exported into the cache.

    Raises:
        PartError: there is none.
    """
    spec = importlib.util.find_spec(MODEL_PACKAGE)
    if spec is None or spec.origin is None:
        raise PartError(
            f"{NONE}, and no model is shipped here; give a folder that `headlight export` wrote"
        )
    shipped = Path(spec.origin).parent
    installed, checkpoint = shipped / "bundles" / NAME, shipped / "checkpoints" / NAME
    if _is_bundle(installed):
        return installed
    if importlib.util.find_spec("torch") is None:
        problem = (
            "this installation has no exported model, and exporting its checkpoint needs torch"
        )
        raise PartError(f"{NONE}: {problem} ({remedy('serve,export')}); or give a bundle")
    cached = _cache(environ) / "headlight" / f"{NAME}-{headlight.__version__}-{_digest(checkpoint)}"
    if not _is_bundle(cached):
        sys.stderr.write(f"headlight: exporting the shipped model to {cached}, once\n")
        # In a separate process: the serving one never loads torch.
        export = [
            sys.executable,
            "-m",
            "headlight",
            "export",
            str(checkpoint),
            "--out",
            str(cached),
        ]
        code = subprocess.run(export, stdout=sys.stderr, check=False).returncode
        if code:
            raise PartError(
                f"{NONE}, and the export of the shipped model ended with exit code {code}"
            )
    return cached


def _is_bundle(folder: Path) -> bool:
    return (folder / "manifest.json").is_file()


def _digest(checkpoint: Path) -> str:
    """Return 12 hexadecimal digits of a checkpoint's weights, vocabulary and configuration."""
    files = sorted(path for path in checkpoint.iterdir() if path.is_file())
    return hashlib.sha256(
        b"".join(hashlib.sha256(path.read_bytes()).digest() for path in files)
    ).hexdigest()[:12]


def _cache(environ: Mapping[str, str]) -> Path:
    """Return the user's folder for caches, by the XDG Base Directory Specification."""
    named = Path(environ.get("XDG_CACHE_HOME", ""))
    if named.is_absolute():
        return named
    home = environ.get("HOME")
    if not home:
        raise PartError(
            f"{NONE}, and there is no HOME to export the shipped model to; give a bundle, "
            "or XDG_CACHE_HOME"
        )
    return Path(home) / ".cache"
