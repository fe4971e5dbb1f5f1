"""Detection of GPUs, and errors if there is none.

The driver is a fake: no machine here has one.
"""

from __future__ import annotations

import ctypes
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import onnxruntime
import pytest

from headlight.errors import BundleError
from headlight.extras import remedy
from headlight.runtime import Runtime
from headlight.runtime.providers import cuda_session
from headlight.runtime.providers.cuda_session import Devices, Gpu, devices
from headlight.runtime.providers.provider_choice import choose_provider

CUDA, CPU = "CUDAExecutionProvider", "CPUExecutionProvider"


def driver(code: int, count: int, second: int = 0) -> Any:
    def count_into(pointer: Any) -> int:
        pointer._obj.value = count
        return second

    return SimpleNamespace(cuInit=lambda flags: code, cuDeviceGetCount=count_into)


def install(monkeypatch: pytest.MonkeyPatch, found: Devices, *, wheel: bool = True) -> None:
    """Install a fake onnxruntime-gpu, or not, and a driver that finds some devices."""
    available = ["TensorrtExecutionProvider", CUDA, CPU] if wheel else [CPU]
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: available)
    monkeypatch.setattr(cuda_session, "devices", lambda: found)


def test_without_a_driver_there_is_no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_session, "DRIVER", "libnothing-of-this-name.so.1")
    assert devices().count == 0
    assert "no NVIDIA driver here" in devices().why


@pytest.mark.parametrize(
    ("code", "count", "expected"), [(0, 2, 2), (0, 0, 0), (100, 0, 0), (34, 0, 0)]
)
def test_devices_are_listed_by_the_driver(
    code: int, count: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: driver(code, count))
    assert devices().count == expected
    assert bool(devices().why) is not bool(expected)


@pytest.mark.parametrize(("code", "second"), [(803, 0), (0, 999)])
def test_a_failing_driver_does_not_mean_no_device(
    code: int, second: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: driver(code, 0, second))
    with pytest.raises(BundleError, match=f"CUDA error {code or second}.*nvidia-smi"):
        devices()
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: [CUDA, CPU])
    with pytest.raises(BundleError, match="CUDA error"):
        choose_provider("auto", "fp32")


@pytest.mark.parametrize(
    ("wheel", "count", "expected"),
    [(True, 1, "cuda"), (True, 0, "cpu"), (False, 1, "cpu"), (False, 0, "cpu")],
)
def test_auto_chooses_the_gpu_if_there_is_one(
    wheel: bool, count: int, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, Devices(count, "none"), wheel=wheel)
    assert choose_provider("auto", "fp32") == expected


def test_a_wheel_without_cuda_is_reported(
    bundle_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, Devices(1), wheel=False)
    with pytest.raises(
        BundleError,
        match=re.escape(f"pip uninstall onnxruntime`, then {remedy('gpu')}"),
    ):
        Runtime(bundle_path, provider="cuda")


def test_no_device_is_reported(bundle_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, Devices(0, "there is no driver"))
    with pytest.raises(BundleError, match="provider cuda needs a GPU: there is no driver"):
        Runtime(bundle_path, provider="cuda")


@pytest.mark.parametrize(("count", "have"), [(1, "there is 1"), (2, "there are 2")])
def test_a_missing_device_index_is_reported(
    count: int, have: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, Devices(count))
    assert choose_provider("cuda", "fp32", Gpu(count - 1)) == "cuda"
    for name in ("cuda", "auto"):
        with pytest.raises(BundleError, match=f"--gpu-device is {count}; {have}, counted from 0"):
            choose_provider(name, "fp32", Gpu(count))


@pytest.mark.parametrize("name", ["cuda", "auto"])
def test_an_unsupported_cuda_precision_is_refused_without_a_substitute(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, Devices(1))
    with pytest.raises(
        BundleError, match="computes in fp32, fp16, bf16, not in int8; --provider cpu may"
    ):
        choose_provider(name, "int8")


def test_a_precision_missing_from_the_bundle_is_refused(
    bundle_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, Devices(1))
    with pytest.raises(
        BundleError, match="no embed graph for cuda/fp16; the bundle has cpu/fp32, cuda/fp32"
    ):
        Runtime(bundle_path, provider="cuda", precision="fp16")
