"""Attention and hidden states as named arrays and as files, .npz and .safetensors, without pickle.

Files also hold their tokens and the model.
"""

from __future__ import annotations

import dataclasses
import json
import os
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, get_args, get_type_hints

import numpy as np
from numpy.typing import NDArray

from headlight.extras import require
from headlight.printable import json_escaped
from headlight.results import Attention, Floats, Hidden, ModelRef, TokenList

PathLike = str | os.PathLike[str]
# The lists of `TokenList`, and the type of their entries.
TOKEN_FIELDS: dict[str, type] = {
    name: get_args(hint)[0] for name, hint in get_type_hints(TokenList).items()
}
ARRAYS = {"weights", "states", "layers", "heads", "places", "model", *TOKEN_FIELDS}


def write_npz(path: PathLike, value: Attention | Hidden) -> None:
    """Write a compressed NumPy archive under exactly the name given; an existing file is replaced.

    It holds `weights`, float32 [L, H, n, n], or `states`, float32 or float16 [L, n, D]; `layers`,
    int64 [L]; the fields of `TokenList`, [n] each (NumPy drops NUL characters at the end of a
    piece); `model`, the fields of `ModelRef` as JSON. Attention also has `heads`, int64 [H], as
    `headlight attend --format npz` writes it. States of some tokens [L, m, D] also have `places`,
    int64 [m].

    Raises:
        OSError: the file cannot be written.
    """
    if isinstance(value, Attention):
        arrays = attention_arrays(value, None)
    else:
        places = {} if value.places is None else {"places": np.array(value.places)}
        arrays = {"states": value.states, **places, **origin_arrays(value)}
    with Path(path).open("wb") as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        add_arrays(archive, arrays)


def read_npz(path: PathLike) -> Attention | Hidden:
    """Read a file that `write_npz` or `headlight attend --format npz` wrote.

    Raises:
        OSError: the file cannot be read.
        ValueError: the file holds something else, or only some heads; the message names it.
    """
    arrays = arrays_of(path)
    name = tensor_name(path, list(arrays))
    held = {field: array.tolist() for field, array in arrays.items() if field != name}
    if name == "weights" and (heads := entries(path, held, "heads", int)) != tuple(
        range(len(heads))
    ):
        raise ValueError(
            f"{path}: holds heads {', '.join(map(str, heads))} alone; write all, or use numpy.load"
        )
    return rebuilt(
        path, name, arrays[name], {**held, "tokens": held, "model": decoded(path, held, "model")}
    )


def arrays_of(path: PathLike) -> dict[str, NDArray[Any]]:
    """Return Headlight's arrays in a file, by name.

    Raises ValueError if the file is not an archive, or is damaged.
    """
    with Path(path).open("rb") as file:
        if not zipfile.is_zipfile(file):
            raise foreign(path, "it is no NumPy archive")
        file.seek(0)
        try:
            with np.load(file, allow_pickle=False) as archive:
                arrays = {name: archive[name] for name in archive.files if name in ARRAYS}
        except (ValueError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
            raise foreign(path, str(error) or "it ends too early") from None
    return {
        name: array for name, array in arrays.items() if isinstance(array, np.ndarray)
    }  # NumPy returns other members as bytes


def write_safetensors(path: PathLike, value: Attention | Hidden) -> None:
    """Write a safetensors file under exactly the name given; an existing file is replaced.

    It holds one tensor, `weights`, float32 [L, H, n, n], or `states`, float32 or float16 [L, n, D].
    Its metadata are JSON: `layers`, `tokens` (the fields of `TokenList`), `model` (those of
    `ModelRef`). States [L, m, D] of some tokens also have `places`.

    Raises:
        ImportError: safetensors is not installed (extra [safetensors]).
        OSError: the file cannot be written.
    """
    library = safetensors_library()
    name, numbers = (
        ("weights", value.weights) if isinstance(value, Attention) else ("states", value.states)
    )
    metadata = {
        "layers": json.dumps(value.layers),
        "tokens": to_json(dataclasses.asdict(value.tokens)),
        "model": to_json(dataclasses.asdict(value.model)),
    }
    if isinstance(value, Hidden) and value.places is not None:
        metadata["places"] = json.dumps(value.places)
    Path(path).write_bytes(library.numpy.save({name: np.ascontiguousarray(numbers)}, metadata))


def read_safetensors(path: PathLike) -> Attention | Hidden:
    """Read a file that `write_safetensors` wrote.

    Raises:
        ImportError: safetensors is not installed (extra [safetensors]).
        OSError: the file cannot be read.
        ValueError: the file holds something else; the message names it.
    """
    library = safetensors_library()
    try:
        with library.safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            name = tensor_name(path, file.keys())
            numbers = file.get_tensor(name)
    except library.SafetensorError as error:
        raise foreign(path, str(error)) from None
    fields = ["layers", "tokens", "model", *(["places"] if "places" in metadata else [])]
    return rebuilt(path, name, numbers, {field: decoded(path, metadata, field) for field in fields})


def rebuilt(
    path: PathLike, name: str, numbers: NDArray[Any], held: Mapping[str, Any]
) -> Attention | Hidden:
    """Build the value of a file: a tensor, `layers`, `tokens`, `model`, and `places` if present.

    Raises:
        ValueError: a part is missing or does not fit the others.
    """
    tokens, model = entry(path, held, "tokens"), entry(path, held, "model")
    layers = entries(path, held, "layers", int)
    listed = TokenList(
        **{field: entries(path, tokens, field, kind) for field, kind in TOKEN_FIELDS.items()}
    )
    ref = ModelRef(
        **{field.name: entry(path, model, field.name) for field in dataclasses.fields(ModelRef)}
    )
    places = entries(path, held, "places", int) if "places" in held else None
    count, is_attention = len(listed), name == "weights"
    of_maps = (len(layers), *numbers.shape[1:2], count, count)
    of_states = (len(layers), count if places is None else len(places), *numbers.shape[2:3])
    if (
        numbers.dtype not in ((np.float32,) if is_attention else (np.float32, np.float16))
        or numbers.ndim != (4 if is_attention else 3)
        or numbers.shape != (of_maps if is_attention else of_states)
        or any(len(getattr(listed, field)) != count for field in TOKEN_FIELDS)
        or not all(0 <= place < count for place in places or ())
    ):
        raise foreign(
            path,
            (
                f"{numbers.dtype} {list(numbers.shape)} does not fit {len(layers)} layers and "
                f"{count} tokens"
            ),
        )
    return (
        Attention(numbers, layers, listed, ref)
        if is_attention
        else Hidden(numbers, layers, listed, ref, places)
    )


def tensor_name(path: PathLike, names: Sequence[str]) -> str:
    """Return the name of the tensor in a file. Raises ValueError if it has none of Headlight's."""
    for name in ("weights", "states"):
        if name in names:
            return name
    raise foreign(path, "it has neither weights nor states")


def entry(path: PathLike, held: Any, field: str) -> Any:
    """Return one part of a file, or of a part. Raises ValueError if it is missing."""
    if not isinstance(held, Mapping) or field not in held:
        raise foreign(path, f"it has no {field}")
    return held[field]


def entries(path: PathLike, held: Any, field: str, kind: type) -> tuple[Any, ...]:
    """Return a list in a file. Raises ValueError if it is missing, or an entry has another type."""
    listed = entry(path, held, field)
    if not isinstance(listed, list) or any(type(each) is not kind for each in listed):
        raise foreign(path, f"its {field} are not a list of {kind.__name__}")
    return tuple(listed)


def decoded(path: PathLike, held: Mapping[str, Any], field: str) -> Any:
    """Decode a JSON part of a file. Raises ValueError if it is missing or is not JSON."""
    text = entry(path, held, field)
    try:
        return json.loads(text)
    except (TypeError, ValueError):
        raise foreign(path, f"its {field} is not JSON") from None


def foreign(path: PathLike, problem: str) -> ValueError:
    """Return the error for a file that Headlight did not write, or that was altered since."""
    return ValueError(
        f"{os.fspath(path)}: not attention or hidden states as Headlight writes them: {problem}"
    )


def safetensors_library() -> ModuleType:
    """Import the library, an extra. Raises ImportError if it is not installed."""
    require("a file of safetensors", "safetensors", "safetensors", "safetensors.numpy")
    import safetensors.numpy  # noqa: PLC0415, TID251 # an extra, only for this format

    return safetensors


def to_json(value: Mapping[str, object]) -> str:
    """Encode JSON on one line, without control characters."""
    return json_escaped(json.dumps(value, ensure_ascii=False))


def chosen_heads(attention: Attention, head: int | None) -> tuple[list[int], Floats]:
    """Return the requested heads and their weights, float32 [L, heads, n, n].

    Raises ValueError if `attention` lacks the head.
    """
    if head is None:
        return list(range(attention.heads)), attention.weights
    chosen = attention.head_number(head)
    return [chosen], attention.weights[:, chosen : chosen + 1]


def attention_arrays(attention: Attention, head: int | None) -> dict[str, NDArray[Any]]:
    """Return the weights, their heads and origin as arrays.

    Raises ValueError if `attention` lacks the head.
    """
    heads, weights = chosen_heads(attention, head)
    return {"weights": weights, "heads": np.array(heads), **origin_arrays(attention)}


def origin_arrays(value: Attention | Hidden) -> dict[str, NDArray[Any]]:
    """Return the layers, tokens and model of a value as arrays."""
    return {
        "layers": np.array(value.layers),
        "model": np.array(to_json(dataclasses.asdict(value.model))),
        **{field: np.array(entries) for field, entries in dataclasses.asdict(value.tokens).items()},
    }


def add_arrays(archive: zipfile.ZipFile, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays into an archive, named as NumPy does. Raises ValueError if one needs pickle."""
    for title, array in arrays.items():
        with archive.open(f"{title}.npy", "w", force_zip64=True) as member:
            np.lib.format.write_array(member, array, allow_pickle=False)
