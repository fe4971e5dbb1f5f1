"""`headlight serve --check` on a bundle that is not the one meant, in a process of its own."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from tests.system.conftest import bundle_of
from tests.system.processes import ROOT
from tests.tampering import TAMPERINGS


def assert_refused(file: str, bundle: Path, *options: str) -> None:
    served = ("serve", "--check", "--bundle", str(bundle), *options)
    command = [sys.executable, "-m", "headlight", *served]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout) == (3, "")
    [line] = done.stderr.splitlines()
    assert line.startswith("error: ")
    assert file in line


def test_tampering_is_reported_in_one_line(tmp_path: Path) -> None:
    """All other ways: tests/headlight/runtime/bundle/test_tampering.py."""
    copy = Path(shutil.copytree(bundle_of("docs-rope"), tmp_path / "bundle"))
    TAMPERINGS[0].apply(copy)
    assert_refused(TAMPERINGS[0].file, copy)


def test_a_pinned_digest_refuses_a_consistent_but_different_bundle() -> None:
    assert_refused("manifest.json", bundle_of("docs-rope"), "--bundle-sha256", "00" * 32)
