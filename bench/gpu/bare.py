"""ONNX Runtime alone: a graph with inputs and outputs in the caller's memory, without our code."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bench.gpu.device import Device
from headlight.runtime.providers.cuda_session import CPU, CUDA, load_libraries, provider_options
from headlight.runtime.providers.onnx_session import library as onnxruntime
from headlight.runtime.providers.onnx_session import session_options
from headlight.runtime.values import Floats, Ids

NUMPY = {torch.float32: np.float32, torch.float16: np.float16, torch.int64: np.int64}


@dataclasses.dataclass(frozen=True)
class Bound:
    """Batch for repeated runs; each run writes `outputs`, on the device or in bound memory."""

    binding: Any
    inputs: Mapping[str, Tensor]  # held, because the binding has only their addresses
    outputs: Mapping[str, Tensor]

    def pooled(self) -> Floats:
        """Return the last run's vectors, on the host."""
        pooled: Floats = self.outputs["pooled"].cpu().numpy()
        return pooled


class Bare:
    """Session of one graph.

    Args:
        path: of the graph.
        device: to run on.
    """

    def __init__(
        self,
        path: Path,
        device: Device,
    ) -> None:
        self._device = device
        settings = session_options(0)  # 0: as many threads as it likes
        providers: list[Any] = [CPU]
        if device.provider == "cuda":
            load_libraries()
            providers.insert(0, (CUDA, provider_options(device.gpu)))
        self._session = onnxruntime.InferenceSession(
            str(path), settings, providers=providers, enable_fallback=0
        )
        if device.provider == "cuda" and CUDA not in self._session.get_providers():
            raise RuntimeError("ONNX Runtime did not take the GPU for this session")
        self.inputs = [value.name for value in self._session.get_inputs()]
        self._no_wait = onnxruntime.RunOptions()
        self._no_wait.add_run_config_entry("disable_synchronize_execution_providers", "1")

    def bind(
        self,
        inputs: Mapping[str, Tensor],
        outputs: Mapping[str, Tensor],
    ) -> Bound:
        """Bind a batch.

        Args:
            inputs: on the device, contiguous; names that the graph lacks are ignored.
            outputs: tensors of the right shapes to write to, on the device.
        """
        binding = self._session.io_binding()
        for name in self.inputs:
            value = inputs[name]
            binding.bind_input(
                name,
                self._device.kind,
                self._device.index,
                NUMPY[value.dtype],
                tuple(value.shape),
                value.data_ptr(),
            )
        for name, value in outputs.items():
            binding.bind_output(
                name,
                self._device.kind,
                self._device.index,
                NUMPY[value.dtype],
                tuple(value.shape),
                value.data_ptr(),
            )
        return Bound(binding, dict(inputs), dict(outputs))

    def run(self, bound: Bound) -> None:
        """Run it, and wait for its end."""
        self._session.run_with_iobinding(bound.binding)

    def run_all(self, batches: Sequence[Bound]) -> None:
        """Run one batch after another."""
        for bound in batches:
            self.run(bound)

    def shrink(self, bound: Bound) -> None:
        """Run it, and release the device memory of earlier batches, which the arena holds."""
        options = onnxruntime.RunOptions()
        memory = "gpu" if self._device.provider == "cuda" else "cpu"
        options.add_run_config_entry(
            "memory.enable_memory_arena_shrinkage", f"{memory}:{self._device.index}"
        )
        self._session.run_with_iobinding(bound.binding, options)

    def launch(self, bound: Bound) -> None:
        """Run it, and wait only until ONNX Runtime has handed the work to the device."""
        self._session.run_with_iobinding(bound.binding, self._no_wait)


def batch(
    device: Device, ids: Ids, mask: Ids, dim: int
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return inputs int64 [B, S] and an output float32 [B, dim] for `Bare.bind`, on the device."""
    inputs = {
        name: torch.from_numpy(array).to(device.torch)
        for name, array in (("ids", ids), ("mask", mask))
    }
    # Poisoned: an output that is not written stays NaN.
    pooled = torch.full((len(ids), dim), float("nan"), device=device.torch)
    device.wait()  # ONNX Runtime works on a stream of its own
    return inputs, {"pooled": pooled}
