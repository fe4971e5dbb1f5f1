"""Checkpoint folders: config.json, model.safetensors and, for text models, tokenizer.json.

No pickle is ever read or written.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from headlight_model.config import EncoderConfig
from headlight_model.encoder import Encoder

CONFIG, WEIGHTS, TOKENIZER = "config.json", "model.safetensors", "tokenizer.json"
TRAINING = "training.json"  # origin of the weights, if our training wrote them
# Tensors with other prefixes (training heads) are ignored.
ENCODER_PREFIX = "encoder."


def save_checkpoint(
    folder: Path,
    encoder: Encoder,
    tokenizer_json: str | None,
    extra: dict[str, Tensor] | None = None,
) -> None:
    """Write `encoder` to `folder`, with weights rounded to float16, which halves the file.

    Args:
        folder: created if missing.
        tokenizer_json: the text of tokenizer.json; None: the model takes token ids only.
        extra: further tensors (a training head), under names that do not begin with "encoder.".

    Raises:
        ValueError: a value is not finite in float16; the message names the tensor, and nothing is
            written.
    """
    tensors = {ENCODER_PREFIX + name: value for name, value in encoder.state_dict().items()} | (
        extra or {}
    )
    halves = {name: value.detach().half().contiguous() for name, value in tensors.items()}
    for name, value in halves.items():
        if not value.isfinite().all():
            raise ValueError(f"{name} is not finite in float16; did the training diverge?")
    folder.mkdir(parents=True, exist_ok=True)
    # save_file would make it unreadable to other users.
    (folder / WEIGHTS).write_bytes(save(halves))
    (folder / CONFIG).write_text(encoder.config.to_json(), encoding="utf-8")
    if tokenizer_json is not None:
        (folder / TOKENIZER).write_text(tokenizer_json, encoding="utf-8")


def renamed(weights: Mapping[str, Tensor], names: Mapping[str, str | None]) -> dict[str, Tensor]:
    """Return tensors under other names. The rows of tensors that get the same name are joined.

    Args:
        weights: of another model, by name.
        names: from parts of a name to their replacements, applied in this order, in which rows are
            joined, too. None: tensors of such names are left out.
    """
    parts: dict[str, list[tuple[list[int], Tensor]]] = {}
    for name, tensor in weights.items():
        applied = [(at, old, new) for at, (old, new) in enumerate(names.items()) if old in name]
        ours = name
        for _, old, new in applied:
            ours = ours.replace(old, new or "")
        if all(new is not None for _, _, new in applied):
            parts.setdefault(ours, []).append(([at for at, _, _ in applied], tensor))
    joined = {}
    for name, tensors in parts.items():
        rows = [tensor for _, tensor in sorted(tensors, key=lambda part: part[0])]
        joined[name] = torch.cat(rows) if rows[1:] else rows[0]
    return joined


def load_checkpoint(folder: Path) -> Encoder:
    """Rebuild the encoder of a checkpoint folder: float32, in evaluation mode.

    Raises:
        FileNotFoundError: a file of the checkpoint is missing; the message names it.
        ValueError: the config is invalid, or the weights do not fit it; the message names the key.
    """
    for name in (CONFIG, WEIGHTS):
        if not (folder / name).is_file():
            raise FileNotFoundError(
                f"{folder / name} is missing; a checkpoint is a folder of {CONFIG}, {WEIGHTS}, "
                f"{TOKENIZER}"
            )
    encoder = Encoder(EncoderConfig.load(folder / CONFIG))
    tensors = load_tensors(folder, ENCODER_PREFIX)
    _check_fit(folder / WEIGHTS, tensors, encoder.state_dict())
    encoder.load_state_dict(tensors)
    return encoder.eval()


def _check_fit(file: Path, tensors: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> None:
    """Raise ValueError, with a message of one line, unless the weights match the config."""
    if not tensors:
        raise ValueError(
            f"{file}: no name begins with {ENCODER_PREFIX!r}; put this before the name of each "
            "weight of the encoder"
        )
    shapes = [
        (
            f"{printable(name)} has the shape {list(tensors[name].shape)}, which {CONFIG} makes "
            f"{list(tensor.shape)}"
        )
        for name, tensor in expected.items()
        if name in tensors and tensors[name].shape != tensor.shape
    ]
    problems = (
        [f"{printable(name)} is missing" for name in expected if name not in tensors],
        [
            f"{printable(name)} is not a weight of this model"
            for name in tensors
            if name not in expected
        ],
        shapes,
    )
    differences = [
        f"{ENCODER_PREFIX}{each[0]}" + (f" (and {len(each) - 1} more)" if each[1:] else "")
        for each in problems
        if each
    ]
    if differences:
        raise ValueError(f"{file} does not fit {CONFIG}: {'; '.join(differences)}")


def printable(name: str) -> str:
    """Return the name of a weight for a message: ASCII, at most 100 characters.

    The name comes from an untrusted file.
    """
    return ascii(name)[1:-1][:100]


def load_tensors(folder: Path, prefix: str) -> dict[str, Tensor]:
    """Return the float32 tensors whose names begin with `prefix`, with the prefix removed.

    Raises:
        ValueError: the file is damaged, or one of these tensors is not finite.
    """
    try:
        tensors = load_file(folder / WEIGHTS)
    except SafetensorError as error:
        raise ValueError(f"{folder / WEIGHTS} is not a safetensors file: {error}") from error
    path = folder / WEIGHTS
    return {
        name[len(prefix) :]: as_float32(path, name, value)
        for name, value in tensors.items()
        if name.startswith(prefix)
    }


def as_float32(file: Path, name: str, tensor: Tensor) -> Tensor:
    """Return a tensor of `file` in float32. Raise ValueError if a value is not finite."""
    tensor = tensor.to(torch.float32)
    if not tensor.isfinite().all():
        raise ValueError(
            f"{file}: {printable(name)} holds NaN or infinity; the training diverged or the file "
            "is damaged, take another"
        )
    return tensor
