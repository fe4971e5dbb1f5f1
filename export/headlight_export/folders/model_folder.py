"""Model folder in Hugging Face's format: config.json and tensors, from one file or several.

No pickle is ever opened.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from torch import Tensor

from headlight_model.checkpoint import as_float32

CONFIG, WEIGHTS, INDEX, ADAPTER = (
    "config.json",
    "model.safetensors",
    "model.safetensors.index.json",
    "adapter_config.json",
)
READ = (".json", ".safetensors", ".txt", ".model")  # suffixes of the files that are read
PICKLES = ("*.bin", "pytorch_model*.json", "*.pt", "*.pth", "*.ckpt", "*.pkl")
FOREIGN = ("*.h5", "*.msgpack", "*.gguf", "*.onnx", "*.safetensors")
LFS_POINTER = b"version https://git-lfs"


class Refused(ValueError):
    """A folder that cannot be served. The message is one line with the cause and the remedy."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))


def read_config(folder: Path) -> dict[str, Any]:
    """Return the parsed config.json of a folder. The caller checks whether the model can be served.

    Raises:
        Refused: config.json is missing, or is not a JSON object.
    """
    if not (folder / CONFIG).is_file():
        what = "is not a folder" if not folder.is_dir() else f"has no {CONFIG}"
        raise Refused(f"{folder} {what}; give the folder that model.save_pretrained(...) wrote")
    return read_object(folder / CONFIG)


def read_object(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file.

    Raises:
        Refused: the file holds none.
    """
    value = read_json(path)
    if not isinstance(value, dict):
        raise Refused(f"{path} is not a JSON object; save the folder again or fetch it anew")
    return value


def read_json(path: Path) -> Any:
    """Return the JSON value in a file.

    Raises:
        Refused: the file is missing, cannot be read, or is not JSON in UTF-8.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise Refused(f"{path} is missing; save the folder again or fetch it anew") from error
    except OSError as error:
        raise Refused(unreadable(path, error)) from error
    except (ValueError, RecursionError) as error:
        raise Refused(
            f"{path} is not JSON ({error}); save the folder again or fetch it anew"
        ) from error


def inner_folder(folder: Path, place: Any, file: Path, module: Any) -> Path:
    """Return the folder of a module, which `file` places in another.

    Raises:
        Refused: the place is outside of `folder`.
    """
    if (
        not isinstance(place, str)
        or Path(place).is_absolute()
        or ".." in Path(place).parts
        or set(place) & set("\\\0")
    ):
        raise Refused(
            f"{file} places {module} in {place!r}; only a folder inside {folder} will be read"
        )
    return folder / place


def check_readable(folder: Path) -> None:
    """Check the files of a folder, and those one folder below, before any of them is used.

    Raises:
        Refused: one cannot be opened, or is a link to nothing.
    """
    for path in sorted((*folder.glob("*"), *folder.glob("*/*"))):
        if path.suffix not in READ:
            continue
        try:
            path.open("rb").close()
        except OSError as error:
            raise Refused(unreadable(path, error)) from error


def unreadable(path: Path, error: OSError) -> str:
    """Return the message for a file that cannot be read."""
    return f"{path} cannot be read ({error.strerror}); correct it, or fetch the folder anew"


def read_tensors(folder: Path) -> dict[str, Tensor]:
    """Return every tensor of a folder by name: floating-point ones as float32, others unchanged.

    Files may be links to elsewhere, as in the cache of the Hugging Face hub; names in an index may
    not.

    Raises:
        Refused: there are no safetensors, a file of them is missing or damaged, or a tensor is
            missing or not finite.
    """
    if (folder / ADAPTER).is_file():
        # Its weights are a difference to another model, even if there is a model.safetensors.
        raise Refused(
            f"{folder} is a PEFT adapter ({ADAPTER}); merge it: "
            "model.merge_and_unload().save_pretrained(...)"
        )
    if (folder / WEIGHTS).is_file():
        return read_file(folder / WEIGHTS)
    if not (folder / INDEX).is_file():
        raise Refused(_without_weights(folder))
    tensors: dict[str, Tensor] = {}
    for shard, names in shards(folder).items():
        if not (folder / shard).is_file():
            raise Refused(
                f"{folder / shard} is missing, though {INDEX} names it; fetch the folder anew"
            )
        tensors |= read_file(folder / shard, names)
    return tensors


def _without_weights(folder: Path) -> str:
    pickled = sorted(path.name for pattern in PICKLES for path in folder.glob(pattern))
    if pickled:
        remedy = "convert to safetensors: model.save_pretrained(..., safe_serialization=True)"
        return f"{folder} has pickled weights alone ({pickled[0]}), which are never read; {remedy}"
    foreign = sorted(path.name for pattern in FOREIGN for path in folder.glob(pattern))
    others = f" (found {foreign[0]})" if foreign else ""
    return (
        f"{folder} has no {WEIGHTS}{others}; save it there: model.save_pretrained(..., "
        "safe_serialization=True)"
    )


def shards(folder: Path) -> dict[str, list[str]]:
    """Return the names of the tensors in the index, by the file that should hold them.

    Raises:
        Refused: the index is damaged, or names a file elsewhere.
    """
    names = read_object(folder / INDEX).get("weight_map")
    if not isinstance(names, dict) or not names:
        raise Refused(f"{folder / INDEX} has no weight_map; save the model again")
    by_file: dict[str, list[str]] = {}
    for name, shard in names.items():
        # A plain name: with a separator it could lead out of the folder, on one system or another.
        if not isinstance(shard, str) or shard in {"", ".", ".."} or set(shard) & set("/\\:\0"):
            raise Refused(
                f"{folder / INDEX} places {name} in {shard!r}; "
                "only a file beside the index will be read"
            )
        by_file.setdefault(shard, []).append(name)
    return by_file


def read_file(path: Path, names: list[str] | None = None) -> dict[str, Tensor]:
    """Return the tensors `names` of one file, as `read_tensors` does; None: all."""
    try:
        with safe_open(path, framework="pt") as file:
            present = set(file.keys())
            missing = [name for name in names or () if name not in present]
            if missing:
                raise Refused(
                    f"{path} lacks {missing[0]}, which {INDEX} places there; save the model again"
                )
            return {
                name: _checked(path, name, file.get_tensor(name))
                for name in names or sorted(present)
            }
    except (SafetensorError, OSError) as error:
        with path.open("rb") as file:
            pointer = file.read(len(LFS_POINTER)) == LFS_POINTER
        if pointer:
            raise Refused(
                f"{path} is a Git LFS pointer, not the weights; run `git lfs pull`"
            ) from error
        raise Refused(f"{path} is damaged or cut short ({error}); fetch it anew") from error


def _checked(path: Path, name: str, tensor: Tensor) -> Tensor:
    if not tensor.is_floating_point():
        return tensor
    try:
        return as_float32(path, name, tensor)
    except ValueError as error:
        raise Refused(str(error)) from error
