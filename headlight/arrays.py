"""Attention and hidden states as named arrays, and archives of arrays. Nothing here needs pickle."""

from __future__ import annotations

import dataclasses
import json
import zipfile
from collections.abc import Mapping
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from headlight.results import Attention, Floats, Hidden
from headlight.wire.printable import json_escaped


def to_json(value: Mapping[str, object]) -> str:
    """JSON on one line, without control characters."""
    return json_escaped(json.dumps(value, ensure_ascii=False))


def chosen_heads(attention: Attention, head: int | None) -> tuple[list[int], Floats]:
    """The heads wanted, and their weights, float32 [L, heads, n, n]. Raises ValueError where the head is not here."""
    if head is None:
        return list(range(attention.heads)), attention.weights
    chosen = attention.head_number(head)
    return [chosen], attention.weights[:, chosen : chosen + 1]


def attention_arrays(attention: Attention, head: int | None) -> dict[str, NDArray[Any]]:
    """The weights, their heads and origin as arrays. Raises ValueError for a head that is not here."""
    heads, weights = chosen_heads(attention, head)
    return {"weights": weights, "heads": np.array(heads), **origin_arrays(attention)}


def hidden_arrays(hidden: Hidden) -> dict[str, NDArray[Any]]:
    """Hidden states, their tokens (those that they are of, where they are not of all), and which weights answered."""
    places = {} if hidden.places is None else {"places": np.array(hidden.places)}
    return {"states": hidden.states, **places, **origin_arrays(hidden)}


def origin_arrays(value: Attention | Hidden) -> dict[str, NDArray[Any]]:
    """The layers and tokens that numbers stand for, and which weights answered."""
    return {
        "layers": np.array(value.layers),
        "model": np.array(to_json(dataclasses.asdict(value.model))),
        **{field: np.array(entries) for field, entries in dataclasses.asdict(value.tokens).items()},
    }


def write_arrays(arrays: Mapping[str, NDArray[Any]], file: BinaryIO) -> None:
    """A compressed archive of arrays, readable without pickle."""
    # Not by numpy.savez_compressed: that of NumPy 1.26 takes `allow_pickle` for one array more.
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        add_arrays(archive, arrays)


def add_arrays(archive: zipfile.ZipFile, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Writes arrays into an archive, as NumPy names them. Raises ValueError for what only pickle could write."""
    for title, array in arrays.items():
        with archive.open(f"{title}.npy", "w", force_zip64=True) as member:
            np.lib.format.write_array(member, array, allow_pickle=False)
