"""The model that comes with Headlight, which `headlight serve` serves if no bundle is named."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import headlight
from headlight.cli.files import UsageError, say
from headlight.cli.parts import MODEL_PACKAGE
from headlight.extras import remedy

NAME = "docs-rope"


def with_bundle(arguments: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """Return the arguments of `headlight serve`, with `--bundle` of the shipped model if they name none.

    Raises:
        UsageError: there is no bundle, and none can be exported here.
    """
    given = any(each in {"--bundle", "--help", "-h"} or each.startswith("--bundle=") for each in arguments)
    if given or "HEADLIGHT_BUNDLE" in environ:
        return [*arguments]
    return ["--bundle", str(shipped_bundle(environ)), *arguments]


def shipped_bundle(environ: Mapping[str, str]) -> Path:
    """Return the bundle of the shipped model: from the installation, else from the user's cache, else exported into it."""
    spec = importlib.util.find_spec(MODEL_PACKAGE)
    if spec is None or spec.origin is None:
        raise UsageError(
            "--bundle is missing, and no model is shipped here; give a folder that `headlight export` wrote"
        )
    shipped = Path(spec.origin).parent
    cached = _cache(environ) / "headlight" / headlight.__version__ / NAME
    for bundle in (shipped / "bundles" / NAME, cached):
        if (bundle / "manifest.json").is_file():
            return bundle
    if importlib.util.find_spec("torch") is None:
        problem = "this installation has no exported model, and exporting its checkpoint needs torch"
        raise UsageError(f"--bundle is missing: {problem} ({remedy('serve,export')}); or give a bundle")
    say(f"exporting the shipped model to {cached}, once")
    # In a process of its own: the one that serves never loads torch.
    export = [sys.executable, "-m", "headlight", "export", str(shipped / "checkpoints" / NAME), "--out", str(cached)]
    code = subprocess.run(export, stdout=sys.stderr, check=False).returncode
    if code:
        raise UsageError(f"--bundle is missing, and the export of the shipped model ended with exit code {code}")
    return cached


def _cache(environ: Mapping[str, str]) -> Path:
    """Return the user's folder for caches, by the XDG Base Directory Specification."""
    return Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
