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
from tests.system.processes import ROOT, exit_code
from tests.tampering import MISFITS, TAMPERINGS, Tampering


def assert_refused(code: object, out: str, err: str, file: str) -> None:
    assert (code, out) == (3, "")
    [line] = err.splitlines()
    assert line.startswith("error: ")
    assert file in line


@pytest.mark.parametrize(
    "tampering", [*TAMPERINGS, *MISFITS], ids=lambda each: each.name.replace(" ", "_")
)
def test_tampering_is_reported_in_one_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], tampering: Tampering
) -> None:
    copy = Path(shutil.copytree(bundle_of("docs-rope"), tmp_path / "bundle"))
    tampering.apply(copy)
    assert_refused(
        exit_code("serve", "--check", "--bundle", str(copy)), *capfd.readouterr(), tampering.file
    )


def test_a_pinned_digest_refuses_a_consistent_but_different_bundle() -> None:
    served = ("serve", "--check", "--bundle", str(bundle_of("docs-rope")))
    command = [sys.executable, "-m", "headlight", *served, "--bundle-sha256", "00" * 32]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )
    assert_refused(done.returncode, done.stdout, done.stderr, "manifest.json")


def test_a_missing_folder_is_reported_in_one_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code = exit_code("serve", "--check", "--bundle", str(tmp_path / "nowhere"))
    assert_refused(code, *capfd.readouterr(), "manifest.json")
