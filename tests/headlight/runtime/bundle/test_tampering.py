"""Tampered bundles: the service refuses them by name, and ONNX Runtime opens no file of theirs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headlight.errors import BundleError
from headlight.runtime import Runtime
from headlight.runtime.providers import provider_choice
from tests.system.processes import exit_code
from tests.tampering import MISFITS, TAMPERINGS, Tampering, replace_and_relist


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record the paths that ONNX Runtime was asked to open."""
    paths: list[str] = []

    def refuse(path: Path, *_: object) -> Any:
        paths.append(str(path))
        raise AssertionError("opened")

    monkeypatch.setattr(provider_choice, "open_session", refuse)
    return paths


def assert_refused(bundle: Path, capfd: pytest.CaptureFixture[str], file: str) -> None:
    """Check that the service ends with code 3, and one short line that names the file."""
    assert exit_code("serve", "--check", "--bundle", str(bundle)) == 3
    out, err = capfd.readouterr()
    [line] = err.splitlines()
    assert out == ""
    assert line.startswith("error: ")
    assert file in line
    assert len(line) < 1000
    assert line.isprintable()


@pytest.mark.parametrize("tampering", TAMPERINGS, ids=lambda each: each.name.replace(" ", "_"))
def test_tampering_is_refused_by_name_before_anything_is_opened(
    copy: Path, opened: list[str], capfd: pytest.CaptureFixture[str], tampering: Tampering
) -> None:
    tampering.apply(copy)
    assert_refused(copy, capfd, tampering.file)
    assert opened == []


@pytest.mark.parametrize("misfit", MISFITS, ids=lambda each: each.name.replace(" ", "_"))
def test_a_consistent_but_unusable_bundle_is_refused_by_name(
    copy: Path, capfd: pytest.CaptureFixture[str], misfit: Tampering
) -> None:
    misfit.apply(copy)
    assert_refused(copy, capfd, misfit.file)


def test_a_missing_folder_is_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert_refused(tmp_path / "nowhere", capfd, "manifest.json")


def test_the_intact_bundle_is_opened(copy: Path, opened: list[str]) -> None:
    with pytest.raises(BundleError, match=r"\.onnx: cannot be opened on provider cpu: opened"):
        Runtime(copy, threads=1)
    assert len(opened) == 1


@pytest.mark.parametrize("data", [b"", b"x" * 100, b"PK\x03\x04" + b"x" * 100])
def test_invalid_golden_answers_are_refused(copy: Path, data: bytes) -> None:
    replace_and_relist(copy, "golden.npz", data)
    with pytest.raises(BundleError, match=r"^golden\.npz: is not an archive"):
        Runtime(copy, threads=1)
