"""`headlight serve --check` on a tampered bundle.

Exit code 3, and one line that names the file.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.system.conftest import bundle_of
from tests.system.processes import ROOT
from tests.tampering import MISFITS, TAMPERINGS, Tampering


def check(bundle: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "headlight",
        "serve",
        "--check",
        "--bundle",
        str(bundle),
        *options,
    ]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )


def assert_refused(done: subprocess.CompletedProcess[str], file: str) -> None:
    assert (done.returncode, done.stdout) == (3, "")
    [line] = done.stderr.splitlines()
    assert line.startswith("error: ")
    assert file in line


@pytest.mark.parametrize(
    "tampering", [*TAMPERINGS, *MISFITS], ids=lambda each: each.name.replace(" ", "_")
)
def test_tampering_is_reported_in_one_line(tmp_path: Path, tampering: Tampering) -> None:
    copy = Path(shutil.copytree(bundle_of("docs-rope"), tmp_path / "bundle"))
    tampering.apply(copy)
    assert_refused(check(copy), tampering.file)


def test_a_pinned_digest_refuses_a_consistent_but_different_bundle() -> None:
    assert_refused(check(bundle_of("docs-rope"), "--bundle-sha256", "00" * 32), "manifest.json")


def test_a_missing_folder_is_reported_in_one_line(tmp_path: Path) -> None:
    assert_refused(check(tmp_path / "nowhere"), "manifest.json")
