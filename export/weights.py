"""One weight file for several graphs: each distinct tensor is stored once, whichever graphs use it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

import onnx
from onnx.external_data_helper import set_external_data

SMALLEST = 1024  # bytes; smaller constants stay in the graph, where the optimiser can fold them
ALIGNMENT = 4096  # bytes; a page, so that the file can be mapped


def share_weights(models: Iterable[onnx.ModelProto], path: Path) -> None:
    """Move the large initialisers of `models` to `path`, equal bytes once, and make the models refer to it by its name.

    The models are changed in place. Shared bytes mean shared pages between sessions that map the file.
    """
    places: dict[bytes, int] = {}
    with path.open("wb") as file:
        for model in models:
            for tensor in model.graph.initializer:
                raw = tensor.raw_data
                if len(raw) < SMALLEST:
                    continue
                digest = hashlib.sha256(raw).digest()
                if digest not in places:
                    file.write(b"\0" * (-file.tell() % ALIGNMENT))
                    places[digest] = file.tell()
                    file.write(raw)
                set_external_data(tensor, path.name, offset=places[digest], length=len(raw))
                tensor.ClearField("raw_data")
