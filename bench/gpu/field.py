"""Contestants of one encoder and precision: engine, ONNX Runtime alone, forms of PyTorch."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bench.frame.rounds import Contestants
from bench.gpu.bare import Bare, Bound, batch
from bench.gpu.budget import Allowance
from bench.gpu.device import Device
from bench.gpu.interleaved import in_one_line
from bench.gpu.parity import cosine
from bench.gpu.peers import FIXED, UNMASKED, Compiled, Forward, NotMeasured, peers, reference
from bench.gpu.sizes import encoder_of
from headlight.runtime import EncodeItem, Runtime, Selection
from headlight.runtime.engine.batches import pad
from headlight.runtime.values import Floats, Ids
from headlight_model.encoder import Encoder

ENGINE, BARE = "Headlight's engine", "ONNX Runtime, bound on the device"
COMPARED = 4  # texts of a batch whose vectors are compared with PyTorch's in float32
SECONDS_A_LAYER = 3.0  # estimated for compiling
VECTORS = Selection()  # one object for all items, as in the service: the engine checks for that
MAPS = 6  # of a layer's attention, in float32: estimate of the maps that one writer holds at once
WRITERS = 3  # of maps: the engine, ONNX Runtime alone, eager PyTorch

Texts = Sequence[Sequence[Ids]]


@dataclasses.dataclass
class Field:
    """All contestants of one encoder in one precision, on one device.

    Attributes:
        chief: tokens of each text in the batches of one length for which a contestant is compiled;
            only one, because compiling takes time.
    """

    name: str
    precision: str
    runtime: Runtime
    bare: Bare
    torch: dict[str, Forward | Compiled]
    exact: Encoder
    device: Device
    chief: int

    def contestants(self, texts: Texts) -> Contestants:
        """Return contestants.

        Each does all batches in order and has the vectors on the host, except the bare session.
        """
        padded = [pad(list(one)) for one in texts]
        items = [[EncodeItem(ids, VECTORS) for ids in one] for one in texts]
        bound = self.bound(padded)
        result: Contestants = {
            ENGINE: lambda: [self.runtime.engine.run(one, wide=len(one) == 1) for one in items],
            BARE: lambda: self.bare.run_all(bound),
        }
        return result | {
            name: functools.partial(_all, call, padded) for name, call in self.peers(padded).items()
        }

    def peers(self, padded: Sequence[tuple[Ids, Ids]]) -> dict[str, Forward | Compiled]:
        """Return PyTorch's forms, by name, that can run these batches.

        With padding, vectors without a mask are wrong.
        """
        result, whole = dict(self.torch), all(mask.all() for _, mask in padded)
        if not whole:
            result.pop(UNMASKED)
        if (
            not whole
            or len(padded) > 1
            or len(padded[0][0]) == 1
            or padded[0][0].shape[1] != self.chief
        ):
            result.pop(FIXED, None)
        return result

    def bound(self, padded: Sequence[tuple[Ids, Ids]]) -> list[Bound]:
        dim = self.exact.config.pooled_dim
        return [self.bare.bind(*batch(self.device, ids, mask, dim)) for ids, mask in padded]

    def warm(self, cases: Sequence[Texts]) -> None:
        """Compile for these cases, within the allowance.

        First for batches, then for a single shape, last for one text. A failure here is reported
        with the timing.
        """
        each = {(id(one[0]), one[1].shape): one for texts in cases for one in self._compiled(texts)}
        fixed = self.torch.get(FIXED)
        for call, ids, mask in sorted(
            each.values(), key=lambda one: (len(one[1]) == 1, one[0] is fixed)
        ):
            with contextlib.suppress(Exception):
                call(ids, mask)

    def _compiled(self, texts: Texts) -> Iterator[tuple[Compiled, Ids, Ids]]:
        """Yield compiled contestants, and each batch of a case that they will run."""
        padded = [pad(list(one)) for one in texts]
        for name, call in self.peers(padded).items():
            if isinstance(call, Compiled):
                first = [] if name == FIXED else [pad(list(texts[0][:COMPARED]))]
                yield from ((call, *one) for one in (*first, *padded))

    def apart(self, texts: Texts) -> bool:
        """Return whether the largest batch's maps leave no memory for all contestants together."""
        memory, largest = (
            self.device.memory,
            max(len(one) * max(map(len, one)) ** 2 for one in texts),
        )
        return (
            memory is not None and WRITERS * MAPS * 4 * self.exact.config.heads * largest > memory
        )

    def release(self, *, cycles: bool = False) -> None:
        """Release device memory of the arenas and PyTorch: each keeps the most that it ever needed.

        `cycles`: see Device.release; useful after a failure.
        """
        self.runtime.engine.shrink()
        one = np.zeros((1, 1), dtype=np.int64)
        [bound] = self.bound([(one, np.ones_like(one))])
        self.bare.shrink(bound)
        self.device.release(cycles=cycles)

    def cosines(self, texts: Texts) -> dict[str, float | str]:
        """Return each contestant's least cosine with PyTorch's vectors in float32, or its error.

        Alone on the device, over a few texts of the first batch. Contestants for all the batches
        are compared.
        """
        padded, some = [pad(list(one)) for one in texts], list(texts[0][:COMPARED])
        ids, mask = pad(some)
        with torch.inference_mode():
            tensors = [torch.from_numpy(array).to(self.device.torch) for array in (ids, mask)]
            expected = self.exact(*tensors).pooled.cpu().numpy()

        def engine() -> list[Any]:
            return [
                result.pooled
                for result in self.runtime.engine.run([EncodeItem(one, VECTORS) for one in some])
            ]

        def bare() -> Floats:
            [bound] = self.bound([(ids, mask)])
            self.bare.run(bound)
            return bound.pooled()

        calls: dict[str, Callable[[], Any]] = {ENGINE: engine, BARE: bare}
        for name, call in self.peers(padded).items():
            # The whole batch if it was compiled for one shape: another shape would be compiled
            # anew.
            calls[name] = functools.partial(call, *(padded[0] if name == FIXED else (ids, mask)))
        apart, by_name = self.apart(texts), dict[str, float | str]()
        for name, vectors in calls.items():
            if apart:
                self.release()
            by_name[name] = _least(vectors, expected)
            if failed(by_name[name]):
                self.release(cycles=True)
                by_name[name] = _least(vectors, expected)
        return by_name


def failed(result: float | str) -> bool:
    """Return whether a contestant failed, by its result: others may have left it no memory.

    A contestant that was not started did not fail.
    """
    return isinstance(result, str) and result != "" and not result.startswith(NotMeasured.__name__)


def _least(call: Callable[[], Any], expected: Floats) -> float | str:
    """Return the least cosine, or the error.

    `call` may return vectors of more texts, which are ignored.
    """
    try:
        return min(map(cosine, call()[: len(expected)], expected))
    except Exception as error:  # libraries raise many types; the report has their messages
        return in_one_line(error)


def _all(call: Forward | Compiled, padded: Sequence[tuple[Ids, Ids]]) -> None:
    for ids, mask in padded:
        call(ids, mask)


@functools.cache
def _encoder(name: str) -> Encoder:
    """Return the encoder, made once for all precisions: its random weights take seconds.

    Users copy it.
    """
    return encoder_of(name)


def opened(
    bundle: Path, precision: str, device: Device, allowance: Allowance, backend: str, chief: int
) -> Field:
    """Return all contestants of the bundle's encoder.

    Raises BundleError if the bundle cannot run so.
    """
    encoder = _encoder(bundle.name)
    runtime = Runtime(
        bundle, provider=device.provider, precision=precision, attend=False, gpu=device.gpu
    )
    graph = runtime.bundle.manifest.graph("embed", device.provider, precision)
    expected = SECONDS_A_LAYER * encoder.config.layers
    return Field(
        name=bundle.name,
        precision=precision,
        runtime=runtime,
        bare=Bare(bundle / graph.file, device),
        torch=peers(encoder, device, precision, allowance, backend, expected),
        exact=reference(encoder, device),
        device=device,
        chief=chief,
    )
