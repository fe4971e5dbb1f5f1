"""Attention and hidden states in files, with their tokens and the weights they came from: .npz and .safetensors, never pickle."""

from __future__ import annotations

import dataclasses
import json
import os
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from headlight.output import attention_arrays, hidden_arrays, to_json, write_arrays
from headlight.results import Attention, Floats, Hidden, ModelRef, TokenList

PathLike = str | os.PathLike[str]
TOKEN_FIELDS = tuple(field.name for field in dataclasses.fields(TokenList))


def write_npz(path: PathLike, value: Attention | Hidden) -> None:
    """Writes a compressed NumPy archive, under exactly the name given; a file of that name is replaced.

    It holds `weights`, float32 [L, H, n, n], or `states`, float32 [L, n, D]; `layers`, int64 [L]; the fields of `TokenList`, [n] each
    (NumPy drops NUL characters at the end of a piece); `model`, the fields of `ModelRef` as JSON. Attention has also `heads`,
    int64 [H]: it is the archive of `headlight attend --format npz`.

    Raises:
        OSError: the file cannot be written.
    """
    arrays = attention_arrays(value, None) if isinstance(value, Attention) else hidden_arrays(value)
    with Path(path).open("wb") as file:
        write_arrays(arrays, file)


def read_npz(path: PathLike) -> Attention | Hidden:
    """Reads what `write_npz` or `headlight attend --format npz` wrote.

    Raises:
        OSError: the file cannot be read.
        ValueError: it holds something else, or single heads; the message says what.
    """
    with Path(path).open("rb") as file:
        if not zipfile.is_zipfile(file):
            raise foreign(path, "it is no NumPy archive")
        file.seek(0)
        with np.load(file, allow_pickle=False) as archive:
            name = tensor_name(path, archive.files)
            fields = {field: entry(path, archive, field).tolist() for field in ("layers", "model", *TOKEN_FIELDS)}
            model = decoded(path, fields, "model")
            numbers = archive[name]
            if name == "weights" and (heads := entry(path, archive, "heads").tolist()) != list(range(len(heads))):
                raise ValueError(
                    f"{path}: holds heads {', '.join(map(str, heads))} alone; write all, or use numpy.load"
                )
    return rebuilt(path, numbers, fields["layers"], fields, model)


def write_safetensors(path: PathLike, value: Attention | Hidden) -> None:
    """Writes a safetensors file, under exactly the name given; a file of that name is replaced.

    It holds one tensor, `weights`, float32 [L, H, n, n], or `states`, float32 [L, n, D]. Its metadata are JSON: `layers`, `tokens` (the
    fields of `TokenList`), `model` (those of `ModelRef`).

    Raises:
        ImportError: safetensors is not installed (extra [safetensors]).
        OSError: the file cannot be written.
    """
    library = safetensors_library()
    name, numbers = ("weights", value.weights) if isinstance(value, Attention) else ("states", value.states)
    metadata = {
        "layers": json.dumps(value.layers),
        "tokens": to_json(dataclasses.asdict(value.tokens)),
        "model": to_json(dataclasses.asdict(value.model)),
    }
    Path(path).write_bytes(library.numpy.save({name: np.ascontiguousarray(numbers)}, metadata))


def read_safetensors(path: PathLike) -> Attention | Hidden:
    """Reads what `write_safetensors` wrote.

    Raises:
        ImportError: safetensors is not installed (extra [safetensors]).
        OSError: the file cannot be read.
        ValueError: it holds something else; the message says what.
    """
    library = safetensors_library()
    try:
        with library.safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            numbers = file.get_tensor(tensor_name(path, file.keys()))
    except library.SafetensorError as error:
        raise foreign(path, str(error)) from None
    layers, tokens, model = (decoded(path, metadata, field) for field in ("layers", "tokens", "model"))
    return rebuilt(path, numbers, layers, tokens, model)


def rebuilt(
    path: PathLike, numbers: Floats, layers: Sequence[int], tokens: Mapping[str, Any], model: Mapping[str, Any]
) -> Attention | Hidden:
    """The value that a file holds. Raises ValueError where a part is missing or does not fit the others."""
    held = TokenList(**{field: tuple(entry(path, tokens, field)) for field in TOKEN_FIELDS})
    ref = ModelRef(**{field.name: entry(path, model, field.name) for field in dataclasses.fields(ModelRef)})
    lengths = {len(getattr(held, field)) for field in TOKEN_FIELDS}
    is_attention = numbers.ndim == 4
    shape = (len(layers), *numbers.shape[1:2], len(held), len(held)) if is_attention else (len(layers), len(held))
    if (
        numbers.dtype != np.float32
        or numbers.ndim not in {3, 4}
        or numbers.shape[: len(shape)] != shape
        or len(lengths) != 1
    ):
        found = f"{numbers.dtype} {list(numbers.shape)}"
        raise foreign(path, f"{found} does not fit {len(layers)} layers and {len(held)} tokens")
    return (Attention if is_attention else Hidden)(numbers, tuple(layers), held, ref)


def tensor_name(path: PathLike, names: Sequence[str]) -> str:
    """Which of the two tensors is there. Raises ValueError where it is neither."""
    for name in ("weights", "states"):
        if name in names:
            return name
    raise foreign(path, "it has neither weights nor states")


def entry(path: PathLike, held: Mapping[str, Any], field: str) -> Any:
    """One part of a file. Raises ValueError where it is missing."""
    if field not in held:
        raise foreign(path, f"it has no {field}")
    return held[field]


def decoded(path: PathLike, held: Mapping[str, Any], field: str) -> Any:
    """One part of a file that is JSON. Raises ValueError where it is missing, or is none."""
    text = entry(path, held, field)
    try:
        return json.loads(text)
    except (TypeError, ValueError):
        raise foreign(path, f"its {field} is not JSON") from None


def foreign(path: PathLike, problem: str) -> ValueError:
    """The error for a file that somebody else wrote, or that was changed since."""
    return ValueError(f"{os.fspath(path)}: not attention or hidden states as Headlight writes them: {problem}")


def safetensors_library() -> ModuleType:
    """The library, an extra. Raises ImportError where it is not installed."""
    try:
        import safetensors.numpy  # noqa: PLC0415, TID251 # an extra: whoever writes no safetensors needs none
    except ImportError:
        raise ImportError("safetensors is not installed: pip install 'headlight[safetensors]'") from None
    return safetensors
