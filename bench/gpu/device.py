"""Computing device for ONNX Runtime and PyTorch: a CUDA device or, in a rehearsal, the CPU."""

from __future__ import annotations

import dataclasses
import gc
import subprocess
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch

from bench.frame.machine import machine
from bench.serving.peak import best
from headlight.runtime.providers.cuda_session import Gpu
from headlight.runtime.providers.provider_choice import choose_provider

PACKAGES = ("onnxruntime-gpu", "onnxruntime", "torch", "triton", "onnx", "numpy", "grpcio")
DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
# The first is large enough for any device; the others are BERT-base's feed-forward with 32,768
# tokens.
PRODUCTS = ((8192, 8192, 8192), (32768, 768, 3072), (32768, 3072, 768))
# bytes: the first that fits into memory, far beyond any cache
COPIES = (4 << 30, 1 << 30, 256 << 20)
SMALL_COPIES = (1 << 20,)
REPEATS = 5  # products or copies between two waits for the device
QUERY = (
    "name,driver_version,memory.total,clocks.sm,clocks.max.sm,clocks.mem,power.draw,temperature.gpu"
)


@dataclasses.dataclass(frozen=True)
class Device:
    """Device, by ONNX Runtime's name for the provider."""

    provider: str
    index: int = 0

    @property
    def kind(self) -> str:
        """The name in both libraries."""
        return "cuda" if self.provider == "cuda" else "cpu"

    @property
    def torch(self) -> torch.device:
        return (
            torch.device(self.kind, self.index) if self.provider == "cuda" else torch.device("cpu")
        )

    @property
    def gpu(self) -> Gpu:
        return Gpu(self.index)

    def check(self) -> None:
        """Raise BundleError if ONNX Runtime cannot use it, RuntimeError if PyTorch cannot."""
        choose_provider(self.provider, "fp32", self.gpu)
        if self.provider == "cuda":
            if not torch.cuda.is_available():
                raise RuntimeError(
                    f"torch {torch.__version__} sees no CUDA device; install its build for CUDA"
                )
            torch.cuda.set_device(self.index)
        # Products in TF32 keep 10 bits: too few for comparisons.
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False

    def wait(self) -> None:
        """Wait for the end of all begun work."""
        if self.provider == "cuda":
            torch.cuda.synchronize(self.index)

    def release(self, *, cycles: bool = True) -> None:
        """Release PyTorch's unused device memory, because ONNX Runtime allocates its own.

        `cycles`: also that of objects in reference cycles, as those of an exception; the collection
        takes a while.
        """
        if cycles:
            gc.collect()
        if self.provider == "cuda":
            torch.cuda.empty_cache()

    @property
    def memory(self) -> int | None:
        """Bytes of the device; None for a CPU."""
        return (
            torch.cuda.get_device_properties(self.index).total_memory
            if self.provider == "cuda"
            else None
        )

    def describe(self) -> dict[str, Any]:
        """Return names and versions, for the report."""
        versions = {package: text for package in PACKAGES if (text := _version(package))}
        about: dict[str, Any] = {
            "provider": self.provider,
            "machine": machine(versions),
            "versions": versions,
        }
        if self.provider == "cuda":
            properties = torch.cuda.get_device_properties(self.index)
            about |= {
                "name": properties.name,
                "memory": properties.total_memory,
                "cuda": torch.version.cuda,
            }
            about["smi"] = _smi(getattr(properties, "uuid", self.index))
        return about

    def ceilings(self, seconds: float, small: bool) -> dict[str, float]:
        """Return the best TFLOP/s of products by precision, and GB/s of a copy (read and written).

        Args:
            seconds: of each try.
            small: for rehearsals.
        """
        best: dict[str, float] = {}
        for precision, dtype in DTYPES.items():
            for m, k, n in ((256, 256, 256),) if small else PRODUCTS:
                a, b = (
                    torch.randn(shape, device=self.torch).to(dtype) for shape in ((m, k), (k, n))
                )
                out = torch.empty((m, n), dtype=dtype, device=self.torch)
                took = self._best(lambda a=a, b=b, out=out: torch.mm(a, b, out=out), seconds)
                best[precision] = max(best.get(precision, 0.0), 2 * m * k * n / took / 1e12)
        for size in SMALL_COPIES if small else COPIES:
            try:
                best["copy"] = self._copy(size, seconds)
                break
            # other processes have it: the peaks stay, and a smaller copy may fit
            except torch.OutOfMemoryError:
                self.release()
        return best

    def _copy(self, size: int, seconds: float) -> float:
        """Return GB/s of a copy."""
        source = torch.randint(1, 255, (size,), dtype=torch.uint8, device=self.torch)
        target = torch.empty_like(source)
        return 2 * source.nbytes / self._best(lambda: target.copy_(source), seconds) / 1e9

    def _best(self, work: Any, seconds: float) -> float:
        """Return the seconds of one execution of the work."""

        def several() -> None:
            for _ in range(REPEATS):
                work()
            self.wait()

        return best(several, seconds) / REPEATS


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _smi(device: object) -> str:
    """Return the driver tool's clocks and power; nothing is set.

    `device`: its UUID, because the tool counts all devices and CUDA only the visible ones; else the
    index.
    """
    named = device if isinstance(device, int) else f"GPU-{str(device).removeprefix('GPU-')}"
    command = ["nvidia-smi", f"--id={named}", f"--query-gpu={QUERY}", "--format=csv,noheader"]
    try:
        return subprocess.run(
            command, capture_output=True, text=True, timeout=20, check=True
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError) as error:
        return f"not available: {error}"
