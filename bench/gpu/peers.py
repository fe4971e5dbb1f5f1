"""PyTorch contestants: the same encoder, eager (plain attention or fused kernel) and compiled.

A contestant takes ids and mask from the host, int64 [B, S]. It returns pooled vectors there,
float32 [B, D]. The engine does the same.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from bench.gpu.budget import Allowance
from bench.gpu.device import DTYPES, Device
from bench.gpu.interleaved import in_one_line
from headlight.runtime.providers.device_faults import fault
from headlight.runtime.values import Floats, Ids
from headlight_model.encoder import Encoder

Forward = Callable[[Ids, Ids], Floats]
PLAIN, FUSED, UNMASKED, COMPILED = (
    "torch eager",
    "torch SDPA",
    "torch SDPA, no mask",
    "torch.compile",
)
FIXED = "torch.compile, no mask, for this shape alone"


class NotMeasured(RuntimeError):
    """A contestant that was not measured; the message has the reason."""


class Unmasked(Encoder):
    """Encoder for batches of one length: without a mask, so kernels that take none may run."""

    def visible(self, keep: Tensor, window: int = 0) -> Tensor:
        return None  # type: ignore[return-value]  # `attend` takes it


def unmasked(encoder: Encoder) -> Encoder:
    """Return an encoder with the same weights and no mask."""
    copied = copy.copy(encoder)
    copied.__class__ = Unmasked
    return copied


def forward(call: Callable[..., Any], device: Device, *, fused: bool) -> Forward:
    """Return a function from host to host; the copy back waits for the device."""

    def run(ids: Ids, mask: Ids) -> Floats:
        with torch.inference_mode():
            tensors = [torch.from_numpy(array).to(device.torch) for array in (ids, mask)]
            pooled: Floats = call(*tensors, fused=fused).pooled.float().cpu().numpy()
        return pooled

    return run


class Compiled:
    """torch.compile with free batch and length, or for each shape alone, and the time of compiling.

    PyTorch takes an extent of 1 for a constant, so one text alone is compiled separately, at the
    same cost. PyTorch may also compile a shape anew if its guards fail. So the first run of each
    shape counts as compiling. It begins only if the allowance has the expected time. For a new kind
    of batch that is the time of the very first run. Else it is the longest time of a later shape of
    its kind. What cannot be compiled is not tried again.

    Attributes:
        seconds: of the first runs of all shapes, by kind of batch.
    """

    def __init__(
        self,
        encoder: Encoder,
        device: Device,
        allowance: Allowance,
        backend: str,
        expected: float,
        *,
        free: bool = True,
    ) -> None:
        """Take `expected`, the estimated seconds of compiling, which the allowance must hold."""
        self._run = forward(
            torch.compile(encoder, dynamic=free, backend=backend), device, fused=True
        )
        self._allowance, self._expected, self._free = allowance, expected, free
        self._seen: set[tuple[int, ...]] = set()
        self._refused: dict[str, str] = {}  # by kind
        self._later: dict[str, float] = {}  # by kind: the longest time of a shape after the first
        self.seconds: dict[str, float] = {}

    def __call__(self, ids: Ids, mask: Ids) -> Floats:
        if ids.shape in self._seen:
            return self._run(ids, mask)
        kind = (
            "one text"
            if len(ids) == 1
            else "batches"
            if self._free
            else f"{len(ids)} x {ids.shape[1]}, no mask"
        )
        known, taken = self.seconds.get(kind), list[float]()
        if kind in self._refused:
            raise NotMeasured(self._refused[kind])
        expected = self._expected if known is None else self._later.get(kind, 0.0)
        if self._allowance.remaining < expected or self._allowance.remaining <= 0 < self._expected:
            raise NotMeasured(
                f"{self._allowance.remaining:.0f} s are left to compile in; {expected:.0f} are "
                "expected"
            )
        try:
            with self._allowance.timed(taken):
                vectors = self._run(ids, mask)
            self._seen.add(ids.shape)
        except Exception as error:
            if known is None and fault(error) != "full":  # a smaller batch may fit
                self._refused[kind] = in_one_line(error)
            raise
        finally:
            self.seconds[kind] = (known or 0.0) + taken[-1]
            if known is None:
                self._expected = taken[-1]
            else:
                self._later[kind] = max(self._later.get(kind, 0.0), taken[-1])
        return vectors


def peers(
    encoder: Encoder,
    device: Device,
    precision: str,
    allowance: Allowance,
    backend: str,
    expected: float,
) -> dict[str, Forward | Compiled]:
    """Return PyTorch's contestants by name.

    `encoder` is copied to the device, its weights in the precision. Earlier compilations are
    dropped.
    """
    # PyTorch compiles one piece of code at most 8 times, for all encoders. Then it runs eagerly,
    # without a warning.
    torch.compiler.reset()
    copied = copy.deepcopy(encoder).to(device.torch, DTYPES[precision])
    result: dict[str, Forward | Compiled] = {
        PLAIN: forward(copied, device, fused=False),
        FUSED: forward(copied, device, fused=True),
        UNMASKED: forward(unmasked(copied), device, fused=True),
    }
    if precision != "fp32":
        result[COMPILED] = Compiled(copied, device, allowance, backend, expected)
        result[FIXED] = Compiled(unmasked(copied), device, allowance, backend, expected, free=False)
    return result


def reference(encoder: Encoder, device: Device) -> Encoder:
    """Return the reference: PyTorch in float32 on the device."""
    return copy.deepcopy(encoder).to(device.torch)
