"""Contestants for one encoder in one precision: the engine, ONNX Runtime alone, and PyTorch in each of its ways."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bench.gpu.bare import Bare, Bound, batch
from bench.gpu.budget import Allowance
from bench.gpu.device import Device
from bench.gpu.parity import cosine
from bench.gpu.peers import FIXED, UNMASKED, Compiled, Forward, NotMeasured, peers, reference
from bench.gpu.sizes import encoder_of
from bench.gpu.turns import told
from bench.measuring import Contestants
from headlight.runtime import EncodeItem, Runtime, Selection
from headlight.runtime.engine.batches import pad
from headlight.runtime.values import Floats, Ids
from headlight_model.encoder import Encoder

ENGINE, BARE = "Headlight's engine", "ONNX Runtime, bound on the device"
COMPARED = 4  # texts of a batch whose vectors are compared with PyTorch's in float32
SECONDS_A_LAYER = 3.0  # that compiling is thought to take
VECTORS = Selection()  # one object for all items, as the service has it: the engine looks at whether they share one
MAPS = 6  # of a layer's attention, in float32, that one who writes them holds at once, as is thought
WRITERS = 3  # who write them: the engine, ONNX Runtime alone, eager PyTorch

Texts = Sequence[Sequence[Ids]]


@dataclasses.dataclass
class Field:
    """Everyone of one encoder in one precision, on one device.

    Attributes:
        chief: tokens of each text in the batches of one length that a contestant is compiled for alone: compiling takes time.
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
        """Each does all batches of texts, one behind the other, and has the vectors on the host; but for the bare session."""
        padded = [pad(list(one)) for one in texts]
        items = [[EncodeItem(ids, VECTORS) for ids in one] for one in texts]
        bound = self.bound(padded)
        found: Contestants = {
            ENGINE: lambda: [self.runtime.engine.run(one, wide=len(one) == 1) for one in items],
            BARE: lambda: self.bare.run_all(bound),
        }
        return found | {name: functools.partial(_all, call, padded) for name, call in self.peers(padded).items()}

    def peers(self, padded: Sequence[tuple[Ids, Ids]]) -> dict[str, Forward | Compiled]:
        """PyTorch's ways, by name, that can take part with these batches: where there is padding, vectors without a mask are wrong."""
        found, whole = dict(self.torch), all(mask.all() for _, mask in padded)
        if not whole:
            found.pop(UNMASKED)
        if not whole or len(padded) > 1 or len(padded[0][0]) == 1 or padded[0][0].shape[1] != self.chief:
            found.pop(FIXED, None)
        return found

    def bound(self, padded: Sequence[tuple[Ids, Ids]]) -> list[Bound]:
        dim = self.exact.config.pooled_dim
        return [self.bare.bind(*batch(self.device, ids, mask, dim)) for ids, mask in padded]

    def warm(self, cases: Sequence[Texts]) -> None:
        """Compile what these cases need, as far as the allowance goes: for batches, for a shape alone, and last for one text.

        What fails here is told where it is timed.
        """
        each = {(id(one[0]), one[1].shape): one for texts in cases for one in self._compiled(texts)}
        fixed = self.torch.get(FIXED)
        for call, ids, mask in sorted(each.values(), key=lambda one: (len(one[1]) == 1, one[0] is fixed)):
            with contextlib.suppress(Exception):
                call(ids, mask)

    def _compiled(self, texts: Texts) -> Iterator[tuple[Compiled, Ids, Ids]]:
        """Who is compiled, and each batch that it will see of a case."""
        padded = [pad(list(one)) for one in texts]
        for name, call in self.peers(padded).items():
            if isinstance(call, Compiled):
                first = [] if name == FIXED else [pad(list(texts[0][:COMPARED]))]
                yield from ((call, *one) for one in (*first, *padded))

    def apart(self, texts: Texts) -> bool:
        """Whether the maps of the largest batch are so large that not all contestants find memory beside each other."""
        memory, largest = self.device.memory, max(len(one) * max(map(len, one)) ** 2 for one in texts)
        return memory is not None and WRITERS * MAPS * 4 * self.exact.config.heads * largest > memory

    def release(self, *, cycles: bool = False) -> None:
        """Give back what the arenas and PyTorch hold of the device's memory: each keeps the most that it ever needed.

        `cycles`: see Device.release; of use where something has failed.
        """
        self.runtime.engine.shrink()
        one = np.zeros((1, 1), dtype=np.int64)
        [bound] = self.bound([(one, np.ones_like(one))])
        self.bare.shrink(bound)
        self.device.release(cycles=cycles)

    def cosines(self, texts: Texts) -> dict[str, float | str]:
        """The least cosine of each contestant's vectors with PyTorch's in float32, or what it failed with, alone on the device.

        Over a few texts of the first batch. Who takes part with all the batches, is compared.
        """
        padded, some = [pad(list(one)) for one in texts], list(texts[0][:COMPARED])
        ids, mask = pad(some)
        with torch.inference_mode():
            here = [torch.from_numpy(array).to(self.device.torch) for array in (ids, mask)]
            expected = self.exact(*here).pooled.cpu().numpy()

        def engine() -> list[Any]:
            return [result.pooled for result in self.runtime.engine.run([EncodeItem(one, VECTORS) for one in some])]

        def bare() -> Floats:
            [bound] = self.bound([(ids, mask)])
            self.bare.run(bound)
            return bound.pooled()

        calls: dict[str, Callable[[], Any]] = {ENGINE: engine, BARE: bare}
        for name, call in self.peers(padded).items():
            # The whole batch where it is compiled for: another shape would be compiled for by itself.
            calls[name] = functools.partial(call, *(padded[0] if name == FIXED else (ids, mask)))
        apart, found = self.apart(texts), dict[str, float | str]()
        for name, vectors in calls.items():
            if apart:
                self.release()
            found[name] = _least(vectors, expected)
            if failed(found[name]):
                self.release(cycles=True)
                found[name] = _least(vectors, expected)
        return found


def failed(said: float | str) -> bool:
    """Whether a contestant failed, by its words: the others may have left it no memory. Who was not to begin, did not."""
    return isinstance(said, str) and said != "" and not said.startswith(NotMeasured.__name__)


def _least(call: Callable[[], Any], expected: Floats) -> float | str:
    """`call` may give vectors of more texts: those behind the expected are not looked at."""
    try:
        return min(map(cosine, call()[: len(expected)], expected))
    except Exception as error:  # libraries raise many types; the report has their words
        return told(error)


def _all(call: Forward | Compiled, padded: Sequence[tuple[Ids, Ids]]) -> None:
    for ids, mask in padded:
        call(ids, mask)


@functools.cache
def _encoder(name: str) -> Encoder:
    """Made once for all precisions: to draw so many random weights takes seconds. Everyone copies it."""
    return encoder_of(name)


def opened(bundle: Path, precision: str, device: Device, allowance: Allowance, backend: str, chief: int) -> Field:
    """Everyone of the bundle's encoder, by its name. Raises BundleError where the bundle cannot be run so."""
    encoder = _encoder(bundle.name)
    runtime = Runtime(bundle, provider=device.provider, precision=precision, attend=False, gpu=device.gpu)
    graph = runtime.bundle.manifest.graph("embed", device.provider, precision)
    expected = SECONDS_A_LAYER * encoder.config.layers
    return Field(
        bundle.name,
        precision,
        runtime,
        Bare(bundle / graph.file, device),
        peers(encoder, device, precision, allowance, backend, expected),
        reference(encoder, device),
        device,
        chief,
    )
