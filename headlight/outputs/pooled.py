"""Pooled vectors: one for each input."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from headlight.interface.checked_specs import checked_pooled
from headlight.outputs.contract import known, messages, numbers_of
from headlight.outputs.layout import Tensor
from headlight.outputs.output import Item, Output, Work, part_name
from headlight.outputs.vector_forms import (
    AS_THEY_ARE,
    VectorForm,
    as_types,
    resolve_pooled,
    shape_pooled,
)
from headlight.spec import VECTOR_BITS, PooledSpec, packed

if TYPE_CHECKING:
    from headlight.description import Limits, ModelDescription
    from headlight.outputs.vector_forms import AvailableForms
    from headlight.pb import headlight_pb2 as pb
    from headlight.runtime.values import Architecture, Array, Arrays, Floats


class PooledVectors(Output):
    """Vectors of inputs, cut, scaled to unit length and in several types, as requested."""

    name = "pooled"
    stacked = True
    tolerance = "pooled"
    floor = 1e-5
    plain = AS_THEY_ARE

    def checked(self, spec: PooledSpec, inputs: int) -> PooledSpec:
        return checked_pooled(spec)

    def choose(
        self, spec: PooledSpec, model: ModelDescription, forms: AvailableForms
    ) -> VectorForm:
        return resolve_pooled(spec, forms)

    def tensors(
        self, choice: VectorForm, place: None, count: int, model: Architecture | ModelDescription
    ) -> tuple[Tensor, ...]:
        return _tensors(choice, model.pooled_dim)

    def begin(
        self, items: Sequence[Item], architecture: Architecture, longest: int, unit: bool, gpu: bool
    ) -> Work:
        return _PooledWork(self, items, unit)

    def unit(self, choice: VectorForm, usual: bool) -> bool:
        return usual if choice.unit is None else choice.unit

    def graph_shapes(self, architecture: Architecture) -> dict[str, tuple[int, ...]]:
        return {"pooled": (0, architecture.pooled_dim)}

    def spec_of(self, message: pb.PooledOutput) -> PooledSpec:
        field = "outputs.pooled.dtypes"
        return PooledSpec(
            dimensions=message.dimensions if message.HasField("dimensions") else None,
            normalize=message.normalize if message.HasField("normalize") else None,
            dtypes=tuple(
                known(f"{field}[{at}]", "DataType", number, VECTOR_BITS)
                for at, number in enumerate(message.dtypes)
            ),
        )

    def entries(
        self, message: pb.PooledOutput, architecture: Architecture, tokens: int, limits: Limits
    ) -> Iterable[tuple[str, int, int]]:
        yield "dtypes", len(message.dtypes), len(VECTOR_BITS)

    def message_of(self, spec: PooledSpec) -> pb.PooledOutput:
        types = [numbers_of("DataType")[dtype] for dtype in spec.dtypes]
        message: pb.PooledOutput = messages().PooledOutput(dimensions=spec.dimensions, dtypes=types)
        if spec.normalize is not None:
            message.normalize = spec.normalize
        return message

    def arrays(
        self, choice: VectorForm, results: Sequence[Arrays]
    ) -> Mapping[str, Sequence[Array]]:
        rows = [result["pooled"] for result in results]
        if choice.dtypes == ("float32",):  # the usual case: rows as they are
            return {part_name("pooled", 0): rows}
        types = as_types(np.stack(rows), choice).values()
        return {part_name("pooled", at): list(array) for at, array in enumerate(types)}


class _PooledWork(Work):
    """The vectors of a batch, which are shaped together."""

    def __init__(self, output: Output, items: Sequence[Item], unit: bool) -> None:
        super().__init__(output, items)
        self._unit = unit
        self._shaped: list[Floats | None] | None = None

    def cut(self, row: int, outputs: Arrays) -> Arrays:
        if self._shaped is None:
            forms = [item.selection.get("pooled") for item in self._items]
            self._shaped = shape_pooled(outputs["pooled"], forms, self._unit)
        vector = self._shaped[row]
        return {} if vector is None else {"pooled": vector}


@functools.lru_cache(64)
def _tensors(choice: VectorForm, pooled_dim: int) -> tuple[Tensor, ...]:
    width = choice.width or pooled_dim
    return tuple(
        Tensor(part_name("pooled", at), dtype, (packed(width, dtype)[0],), ("value",))
        for at, dtype in enumerate(choice.dtypes)
    )
