"""PyTorch as others would serve with it: the same encoder, eager with plain attention or the fused kernel, and compiled.

A contestant takes a batch from the host, int64 [B, S] ids and mask, and returns pooled vectors there, float32 [B, D]: what the engine
does, too.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from bench.gpu.budget import Allowance
from bench.gpu.device import DTYPES, Device
from bench.gpu.turns import told
from headlight.runtime.providers.device_faults import fault
from headlight.runtime.values import Floats, Ids
from headlight_model.encoder import Encoder

Forward = Callable[[Ids, Ids], Floats]
PLAIN, FUSED, UNMASKED, COMPILED = "torch eager", "torch SDPA", "torch SDPA, no mask", "torch.compile"
FIXED = "torch.compile, no mask, for this shape alone"


class NotMeasured(RuntimeError):
    """There is no time for it; the message says what it was."""


class Unmasked(Encoder):
    """For batches of one length: no key is hidden, so attention gets no mask, and the kernels that take none may run."""

    def visible(self, keep: Tensor, window: int = 0) -> Tensor:
        return None  # type: ignore[return-value]  # `attend` takes it


def unmasked(encoder: Encoder) -> Encoder:
    """The same weights."""
    found = copy.copy(encoder)
    found.__class__ = Unmasked
    return found


def forward(call: Callable[..., Any], device: Device, *, fused: bool) -> Forward:
    """From the host to the host; the copy back waits for the device."""

    def run(ids: Ids, mask: Ids) -> Floats:
        with torch.inference_mode():
            here = [torch.from_numpy(array).to(device.torch) for array in (ids, mask)]
            found: Floats = call(*here, fused=fused).pooled.float().cpu().numpy()
        return found

    return run


class Compiled:
    """torch.compile with free batch and length, or for each shape alone, and what it took to compile.

    One text alone is compiled for itself (PyTorch takes an extent of 1 for a constant), so it costs as much again. A shape may be
    compiled for anew, too, where PyTorch finds that what it has does not hold: so the first run of each is taken for compiling, and
    is not begun with less left of the allowance than it is thought to take: as much as the first of all for a new kind of batch, else
    as much as any later shape of its kind took. What cannot be compiled is not tried again.

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
        """`expected`: seconds that compiling is thought to take; it is not begun with less left of the allowance."""
        self._run = forward(torch.compile(encoder, dynamic=free, backend=backend), device, fused=True)
        self._allowance, self._expected, self._free = allowance, expected, free
        self._seen: set[tuple[int, ...]] = set()
        self._refused: dict[str, str] = {}  # by kind
        self._later: dict[str, float] = {}  # by kind: the most that a shape behind the first took
        self.seconds: dict[str, float] = {}

    def __call__(self, ids: Ids, mask: Ids) -> Floats:
        if ids.shape in self._seen:
            return self._run(ids, mask)
        kind = "one text" if len(ids) == 1 else "batches" if self._free else f"{len(ids)} x {ids.shape[1]}, no mask"
        known, taken = self.seconds.get(kind), list[float]()
        if kind in self._refused:
            raise NotMeasured(self._refused[kind])
        expected = self._expected if known is None else self._later.get(kind, 0.0)
        if self._allowance.left < expected or self._allowance.left <= 0 < self._expected:
            raise NotMeasured(f"{self._allowance.left:.0f} s are left to compile in, {expected:.0f} are expected")
        try:
            with self._allowance.spent(taken):
                found = self._run(ids, mask)
            self._seen.add(ids.shape)
        except Exception as error:
            if known is None and fault(error) != "full":  # a smaller batch may fit
                self._refused[kind] = told(error)
            raise
        finally:
            self.seconds[kind] = (known or 0.0) + taken[-1]
            if known is None:
                self._expected = taken[-1]
            else:
                self._later[kind] = max(self._later.get(kind, 0.0), taken[-1])
        return found


def peers(
    encoder: Encoder, device: Device, precision: str, allowance: Allowance, backend: str, expected: float
) -> dict[str, Forward | Compiled]:
    """By name. `encoder` is copied to the device, its weights in the precision; what was compiled for another before is dropped."""
    # PyTorch compiles one piece of code so many times (8), whichever encoder runs it, and is then eager without a word in the result.
    torch.compiler.reset()
    own = copy.deepcopy(encoder).to(device.torch, DTYPES[precision])
    found: dict[str, Forward | Compiled] = {
        PLAIN: forward(own, device, fused=False),
        FUSED: forward(own, device, fused=True),
        UNMASKED: forward(unmasked(own), device, fused=True),
    }
    if precision != "fp32":
        found[COMPILED] = Compiled(own, device, allowance, backend, expected)
        found[FIXED] = Compiled(unmasked(own), device, allowance, backend, expected, free=False)
    return found


def reference(encoder: Encoder, device: Device) -> Encoder:
    """PyTorch in float32 on the device: what everyone is compared with."""
    return copy.deepcopy(encoder).to(device.torch)
