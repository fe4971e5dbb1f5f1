"""Plot of the split into heads: what each head of a trained layer reads, looks at and gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tokenizers
import torch
from numpy.typing import NDArray
from torch import nn

from headlight_model.checkpoint import TOKENIZER, load_checkpoint
from lab.pictures import style

CHECKPOINT = Path(__file__).parents[1] / "checkpoints" / "reverse-learned"
TEXT = "h e a d l i g h t 0 1 2 3 4 5 a"
LAYER = 0  # which reverses
Floats = NDArray[np.float32]


class Heads(NamedTuple):
    """Parts of a layer for one text, by head.

    Attributes:
        queries: [H, S, d].
        weights: [H, S, S].
        context: [H, S, d], which joined is what W_o reads.
    """

    queries: Floats
    weights: Floats
    context: Floats


@torch.inference_mode()
def heads() -> Heads:
    """Return the parts of the layer, recorded in a pass of the encoder."""
    encoder = load_checkpoint(CHECKPOINT)
    tokenizer = tokenizers.Tokenizer.from_file(str(CHECKPOINT / TOKENIZER))
    ids = torch.tensor([tokenizer.encode(TEXT).ids])
    seen: dict[str, torch.Tensor] = {}

    def read(module: nn.Module, inputs: tuple[Any, ...]) -> None:
        seen["context"] = inputs[0]

    def gave(module: nn.Module, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
        seen["projected"] = output

    attention = encoder.get_submodule(f"blocks.{LAYER}.attention")
    hooks = (
        attention.get_submodule("project_in").register_forward_hook(gave),
        attention.get_submodule("project_out").register_forward_pre_hook(read),
    )
    weights = encoder(ids, fused=False).attention[LAYER][0]
    for hook in hooks:
        hook.remove()
    queries = seen["projected"][0, :, : encoder.config.dim]
    apart = (
        values.view(len(values), encoder.config.heads, -1).transpose(0, 1).numpy()
        for values in (queries, seen["context"][0])
    )
    return Heads(next(apart), weights.numpy(), next(apart))


def draw_split(path: Path) -> Path:
    """Draw a column for each head: its queries, its weights, and its part of the joined output."""
    parts, labels = heads(), TEXT.split()
    count, length, width = parts.queries.shape
    made, grid = style.figure(3, count, height=6.6, share_y=True)
    rows = (
        (f"queries [{length}, {count * width}]:\n{count} of [{length}, {width}]", "queries"),
        (f"attention weight,\n{count} of [{length}, {length}]", "weights"),
        (f"weights x values, joined\nto [{length}, {count * width}]", "context"),
    )
    for axes_row, (title, name) in zip(grid, rows, strict=True):
        values = getattr(parts, name)
        most = float(np.abs(values).max())
        for head, axes in enumerate(axes_row):
            if name == "weights":
                image = style.heat(axes, values[head], low=0, high=1)
                axes.set_xticks(range(length), labels)
                axes.set_xlabel("token looked at")
            else:
                image = style.heat(
                    axes, values[head], low=-most, high=most, colours=style.DIVERGING
                )
                first, last = head * width, (head + 1) * width - 1
                axes.set_xticks((0, width - 1), (str(first), str(last)))
                axes.set_xlabel("dimension")
            axes.set_yticks(range(length), labels)
        made.colorbar(image, ax=axes_row, shrink=0.9, label=title)
    made.supylabel("token that looks")
    for head, axes in enumerate(grid[0]):
        axes.set_title(f"head {head}")
    return style.save(made, path)
