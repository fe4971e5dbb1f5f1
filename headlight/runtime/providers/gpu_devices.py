"""Which GPU computes, and whether there is one. The driver is asked, and no library that takes seconds to load."""

from __future__ import annotations

import ctypes
import dataclasses

from headlight.errors import BundleError

DRIVER = "libcuda.so.1"  # comes with NVIDIA's driver, from the machine and not from a package
NONE = frozenset(
    (34, 100)
)  # what cuInit answers where there is no device: that of a stub of the driver, that of the driver
GIVE = "in a container, give it one (docker: --gpus all; Kubernetes: nvidia.com/gpu: 1)"


@dataclasses.dataclass(frozen=True, slots=True)
class Gpu:
    """A device to compute on.

    Attributes:
        device: which of those that the process sees (CUDA_VISIBLE_DEVICES), from 0.
        memory_bytes: that the arena of each graph may take of its memory; None: what there is.
    """

    device: int = 0
    memory_bytes: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Devices:
    """How many CUDA devices the process sees, and why none."""

    count: int
    why: str = ""


def devices() -> Devices:
    """Ask the driver.

    Raises:
        BundleError: there is a driver, and it does not work: neither is it known then that there is no device.
    """
    try:
        driver = ctypes.CDLL(DRIVER)
    except OSError:
        return Devices(0, f"there is no NVIDIA driver here ({DRIVER}); install it, or, {GIVE}")
    code = driver.cuInit(0)
    if code in NONE:
        return Devices(0, f"the NVIDIA driver finds no GPU; look at CUDA_VISIBLE_DEVICES, or, {GIVE}")
    count = ctypes.c_int()
    code = code or driver.cuDeviceGetCount(ctypes.byref(count))
    if code:
        raise BundleError(f"the NVIDIA driver fails with CUDA error {code}; see what `nvidia-smi` says of it")
    return Devices(count.value, "" if count.value else f"the NVIDIA driver finds no GPU; {GIVE}")
