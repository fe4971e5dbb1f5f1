"""Contents of a bundle's files, each read once: the hashed bytes are the bytes that are used.

Weights go to private memory. A memory-mapped file changes if another process writes to it, and ends
this process if it is truncated.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import math
import mmap
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from headlight.errors import BundleError
from headlight.runtime.bundle.manifest import FileEntry
from headlight.runtime.bundle.onnx_file import ExternalData

T = TypeVar("T")
CHUNK = 1 << 20  # bytes read and hashed at once; they fit into the processor's cache
BFLOAT16 = 16
# TensorProto.DataType -> the type of its array; NumPy has no bfloat16.
TYPES: dict[int, DTypeLike] = {
    1: np.float32,
    2: np.uint8,
    3: np.int8,
    4: np.uint16,
    5: np.int16,
    6: np.int32,
    7: np.int64,
    9: np.bool_,
    10: np.float16,
    11: np.float64,
    12: np.uint32,
    13: np.uint64,
    BFLOAT16: np.uint16,
}


class File(NamedTuple):
    """A verified file in memory. Tokenizer and ranges read it like a `Path`."""

    name: str
    data: bytes

    def read_bytes(self) -> bytes:
        return self.data


class Weights:
    """A file of weights in private memory, which is unmapped after its last reader.

    Nothing writes to it once it is read. A reader holds this object, or an array of it.
    """

    def __init__(self, size: int) -> None:
        self.memory = private_memory(size)
        self._copies: dict[tuple[Any, ...], NDArray[Any]] = {}

    def array(self, tensor: ExternalData) -> NDArray[Any]:
        """Return a tensor's numbers in place. The array keeps the whole file mapped."""
        return _numbers(self.memory, tensor, tensor.offset)

    def copied(self, tensor: ExternalData) -> NDArray[Any]:
        """Return a copy of a tensor's numbers, the same for all callers.

        It has memory of its own, so that holding it does not keep the file mapped.
        """
        key = (tensor.offset, tensor.type, tensor.shape)  # graphs may name it differently
        if key not in self._copies:
            numbers = self.array(tensor)
            self._copies[key] = _numbers(private_memory(numbers.nbytes), tensor, 0)
            self._copies[key][...] = numbers
        return self._copies[key]


def private_memory(size: int) -> mmap.mmap:
    """Return zeroed memory of this process alone, which the kernel gets back when it is unmapped.

    `malloc` may keep what is freed.
    """
    return mmap.mmap(-1, max(1, size), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def _numbers(memory: mmap.mmap, tensor: ExternalData, offset: int) -> NDArray[Any]:
    numbers = np.frombuffer(memory, TYPES[tensor.type], math.prod(tensor.shape), offset)
    return numbers.reshape(tensor.shape)


@dataclasses.dataclass(frozen=True)
class OnnxGraph:
    """An ONNX graph in memory, with the weights that it refers to.

    Attributes:
        data: bytes of the .onnx file.
        references: initialisers whose numbers are in `weights`.
        weights: files of weights, by the location that the graph states.
    """

    data: bytes
    references: tuple[ExternalData, ...] = ()
    weights: Mapping[str, Weights] = dataclasses.field(default_factory=dict)

    @property
    def packed_bytes(self) -> int:
        """Bytes of the weights that each session holds a copy of: those of all but tables."""
        return sum(tensor_bytes(tensor) or 0 for tensor in self.references if not tensor.table)

    def arrays(self) -> Iterator[tuple[ExternalData, NDArray[Any]]]:
        """Yield each referenced tensor and its numbers, in place."""
        for tensor in self.references:
            yield tensor, self.weights[tensor.location].array(tensor)


def tensor_bytes(tensor: ExternalData) -> int | None:
    """Return the size of a tensor; None if no array can have its type or shape."""
    if tensor.type not in TYPES or any(size < 0 for size in tensor.shape):
        return None
    return math.prod(tensor.shape) * np.dtype(TYPES[tensor.type]).itemsize


def read_file(path: Path, name: str, entry: FileEntry) -> File:
    """Read a file into memory. Raises BundleError as `check_file` does."""
    return File(name, bytes(_read(path, name, entry, bytearray, memoryview)))


def read_weights(path: Path, name: str, entry: FileEntry) -> Weights:
    """Read a file into private memory of its own. Raises BundleError as `check_file` does."""
    return _read(path, name, entry, Weights, lambda weights: memoryview(weights.memory))


def check_file(path: Path, name: str, entry: FileEntry) -> None:
    """Read a file and discard it.

    Raises:
        BundleError: it cannot be read, or its bytes are not those of the manifest.
    """
    _read(path, name, entry, lambda size: bytearray(min(size, CHUNK)), memoryview)


def _read(
    path: Path,
    name: str,
    entry: FileEntry,
    make: Callable[[int], T],
    view: Callable[[T], memoryview],
) -> T:
    """Read a file into the buffer that `make` returns for its size.

    A smaller buffer is filled repeatedly, each piece over the previous one.
    """
    digest = hashlib.sha256()
    try:
        with path.open("rb", buffering=0) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise BundleError("is missing", name)
            size = status.st_size
            if size != entry.bytes:
                raise BundleError(f"has {size} bytes; the manifest says {entry.bytes}", name)
            made = make(size)
            memory, done = view(made), 0
            while done < size:
                at = done % len(memory)
                piece = memory[at : at + min(CHUNK, size - done)]
                if not (count := file.readinto(piece)):
                    raise BundleError("was cut short while it was read", name)
                digest.update(piece[:count])
                done += count
    except OSError as error:
        raise BundleError(f"cannot be read: {error.strerror}", name) from None
    except MemoryError:
        raise BundleError(
            f"has {entry.bytes} bytes, more than the free memory; allow the process more",
            name,
        ) from None
    if digest.hexdigest() != entry.sha256:
        raise BundleError("was altered: its SHA-256 is not the one in the manifest", name)
    return made


def plain_arrays(data: bytes, name: str) -> dict[str, NDArray[Any]]:
    """Return the arrays of an .npz. Raises BundleError for any other bytes, and for pickles."""
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            return {key: archive[key] for key in archive.files}
    except Exception:  # NumPy and zipfile raise many types for bytes in another format
        raise BundleError("is not an archive of plain arrays", name) from None
