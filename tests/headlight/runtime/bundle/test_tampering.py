"""Tampered bundles: ONNX Runtime opens none of their files."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from headlight.errors import BundleError
from headlight.runtime import Runtime
from headlight.runtime.providers import provider_choice
from tests.tampering import MISFITS, TAMPERINGS, Tampering, replace_and_relist


@pytest.fixture
def copy(bundle_path: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(bundle_path, tmp_path / "bundle"))


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record the paths that ONNX Runtime was asked to open."""
    paths: list[str] = []

    def refuse(path: Path, *_: object) -> Any:
        paths.append(str(path))
        raise AssertionError("opened")

    monkeypatch.setattr(provider_choice, "open_session", refuse)
    return paths


@pytest.mark.parametrize("tampering", TAMPERINGS, ids=lambda each: each.name.replace(" ", "_"))
def test_tampering_is_refused_by_name_before_anything_is_opened(
    copy: Path, opened: list[str], tampering: Tampering
) -> None:
    tampering.apply(copy)
    with pytest.raises(BundleError) as refused:
        Runtime(copy, threads=1)
    assert opened == []
    assert tampering.file in (refused.value.file or "")
    assert len(refused.value.message) < 1000
    assert refused.value.message.isprintable()


@pytest.mark.parametrize("misfit", MISFITS, ids=lambda each: each.name.replace(" ", "_"))
def test_a_consistent_but_unusable_bundle_is_refused_by_name(copy: Path, misfit: Tampering) -> None:
    misfit.apply(copy)
    with pytest.raises(BundleError) as refused:
        Runtime(copy, threads=1)
    assert misfit.file in (refused.value.file or "")
    assert len(refused.value.message) < 1000
    assert refused.value.message.isprintable()


def test_the_intact_bundle_is_opened(copy: Path, opened: list[str]) -> None:
    with pytest.raises(BundleError, match=r"\.onnx: cannot be opened on provider cpu: opened"):
        Runtime(copy, threads=1)
    assert len(opened) == 1


@pytest.mark.parametrize("data", [b"", b"x" * 100, b"PK\x03\x04" + b"x" * 100])
def test_invalid_golden_answers_are_refused(copy: Path, data: bytes) -> None:
    replace_and_relist(copy, "golden.npz", data)
    with pytest.raises(BundleError, match=r"^golden\.npz: is not an archive"):
        Runtime(copy, threads=1)
