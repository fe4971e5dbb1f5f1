"""The CPU in place of a GPU."""

from __future__ import annotations

import shutil
from pathlib import Path

import onnxruntime
import pytest

from headlight.runtime.providers import cuda_session
from headlight.runtime.providers.cuda_session import Devices
from tests.conftest import MakeBundle
from tests.headlight.runtime.on_cpu import CPU, CUDA, OnCpu


@pytest.fixture
def copy(bundle_path: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(bundle_path, tmp_path / "bundle"))


@pytest.fixture
def learned(make_bundle: MakeBundle) -> Path:
    return make_bundle("learned")


@pytest.fixture
def device(bundle_path: Path, learned: Path, monkeypatch: pytest.MonkeyPatch) -> type[OnCpu]:
    """Replace the GPU once the bundles are exported."""
    monkeypatch.setattr(onnxruntime, "InferenceSession", OnCpu)
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: [CUDA, CPU])
    monkeypatch.setattr(cuda_session, "devices", lambda: Devices(2))
    monkeypatch.setattr(
        cuda_session, "load_libraries", lambda: "; Failed to load libcublasLt.so.13"
    )
    monkeypatch.setattr(OnCpu, "asked", [])
    monkeypatch.setattr(OnCpu, "shrunk", [])
    monkeypatch.setattr(OnCpu, "graphs", [])
    monkeypatch.setattr(cuda_session, "MEMORY", "cpu")
    return OnCpu
