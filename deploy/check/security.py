"""checkov's policies for Kubernetes.

Only those of SKIPS may fail, each for a reason, and each only as long as it does fail.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from deploy.check.manifests import Manifest

SKIPS = {
    "CKV_K8S_43": (
        "the images here are placeholders, which have no digest; the overlays say how to name one"
    ),
    "CKV_K8S_15": (
        "a version names one image for good, so to ask the registry at each start adds only a way "
        "for starts to fail"
    ),
}
RENDERED = Path("build/deploy/rendered")


def policies(renderings: Mapping[str, list[Manifest]]) -> Iterator[str]:
    """Yield the failures.

    Raises:
        RuntimeError: checkov could not run, or checked nothing.
    """
    RENDERED.mkdir(parents=True, exist_ok=True)
    for old in RENDERED.glob("*.yaml"):
        old.unlink()
    for name, manifests in renderings.items():
        (RENDERED / f"{name.replace('/', '-')}.yaml").write_text(
            yaml.safe_dump_all(manifests), encoding="utf-8"
        )
    report = _run()
    summary = report["summary"]
    if summary["passed"] == 0 or summary["parsing_errors"]:
        raise RuntimeError(f"checkov could not parse all manifests: {summary}")
    failed = report["results"]["failed_checks"]
    for check in failed:
        if check["check_id"] not in SKIPS:
            yield (
                f"{Path(check['file_path']).stem}: {check['resource']}: "
                f"{check['check_id']} {check['check_name']}"
            )
    for skip in SKIPS.keys() - {check["check_id"] for check in failed}:
        yield f"{skip} fails nowhere any more; remove it from SKIPS in deploy/check/security.py"


def _run() -> dict[str, Any]:
    command = [
        sys.executable,
        str(Path(sys.executable).parent / "checkov"),
        "--directory",
        str(RENDERED),
    ]
    command += [
        "--framework",
        "kubernetes",
        "--quiet",
        "--compact",
        "--skip-download",
        "--output",
        "json",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        report: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        raise RuntimeError(
            f"checkov failed: {(done.stderr or done.stdout).strip()[-2000:]}"
        ) from None
    return report
