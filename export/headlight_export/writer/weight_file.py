"""One weight file for several graphs: each distinct tensor is stored once."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

import onnx
from onnx.external_data_helper import set_external_data

SMALLEST = 1024  # bytes; smaller constants stay in the graph, where the optimiser can fold them
ALIGNMENT = 4096  # bytes; a page, so that the memory of each tensor can be freed by itself


class WeightFile:
    """A file of weights that is being written, for use in a `with`.

    Equal bytes are stored once, in the file and in memory.
    """

    def __init__(self, path: Path) -> None:
        self._name = path.name
        self._file = path.open("wb")
        self._places: dict[bytes, int] = {}

    def __enter__(self) -> WeightFile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._file.close()

    def take(self, model: onnx.ModelProto) -> None:
        """Move a model's large initialisers here, and make the model refer to them, in place."""
        for tensor in model.graph.initializer:
            raw = tensor.raw_data
            if len(raw) < SMALLEST:
                continue
            digest = hashlib.sha256(raw).digest()
            if digest not in self._places:
                self._file.write(b"\0" * (-self._file.tell() % ALIGNMENT))
                self._places[digest] = self._file.tell()
                self._file.write(raw)
            set_external_data(tensor, self._name, offset=self._places[digest], length=len(raw))
            tensor.ClearField("raw_data")


def share_weights(models: Iterable[onnx.ModelProto], path: Path) -> None:
    """Move the large initialisers of all models to one file."""
    with WeightFile(path) as file:
        for model in models:
            file.take(model)
