"""Converter of BGE-M3's pickles to safetensors, which the exporter reads.

A program of its own: neither the exporter nor the service ever opens a pickle. torch builds
nothing but tensors from them (`weights_only`). In a folder of FlagEmbedding:

    python -m headlight_export.folders.convert_bge_m3 FOLDER
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from headlight.command_parser import CommandParser
from headlight_export.folders.bge_m3 import HEADS
from headlight_export.folders.model_folder import WEIGHTS

FILES = {"pytorch_model.bin": WEIGHTS} | {f"{name}.pt": f"{name}.safetensors" for name in HEADS}


def main(arguments: Sequence[str] | None = None) -> int:
    """Convert a folder and return the exit code: 0, or 2 for files that cannot be converted."""
    parser = CommandParser(
        prog="python -m headlight_export.folders.convert_bge_m3",
        description="Write the pickled weights of a folder of BGE-M3 as safetensors beside them.",
    )
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="with " + ", ".join(FILES))
    folder: Path = parser.parse_args(arguments).folder
    try:
        for pickled, name in FILES.items():
            print(_convert(folder / pickled, folder / name), flush=True)
    except (OSError, ValueError) as error:
        print(f"convert_bge_m3: {error}", file=sys.stderr)
        return 2
    return 0


def _convert(pickled: Path, path: Path) -> str:
    """Write the tensors of a pickle, unless the file exists; return a line on what was done."""
    if path.is_file():
        return f"{path} exists"
    tensors = _tensors(pickled)
    unfinished = path.with_name(f".{path.name}.unfinished")
    # Tensors that share memory, or have gaps in it, cannot be saved: each gets its own.
    save_file(
        {name: tensor.clone().contiguous() for name, tensor in tensors.items()},
        unfinished,
        {"format": "pt"},
    )
    unfinished.replace(path)
    return f"wrote {path}"


def _tensors(pickled: Path) -> dict[str, Tensor]:
    """Return the tensors of a pickle by name.

    Raises:
        OSError, ValueError: it is missing, damaged, or holds something else.
    """
    try:
        values = torch.load(pickled, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError) as error:
        raise ValueError(
            f"{pickled} is damaged or holds more than tensors ({str(error).splitlines()[0]}); "
            "fetch it anew"
        ) from error
    if not isinstance(values, dict) or not all(
        isinstance(name, str) and isinstance(tensor, Tensor) for name, tensor in values.items()
    ):
        raise ValueError(f"{pickled} does not hold tensors by name; fetch it anew")
    return values


if __name__ == "__main__":
    sys.exit(main())
