"""Encoder of a common size: 6 layers, 12 heads, d=384.

Its weights are random, which changes no time.
"""

from __future__ import annotations

from pathlib import Path

import torch

from headlight_export.writer.bundle_writer import export_checkpoint
from headlight_model.checkpoint import save_checkpoint
from headlight_model.config import EncoderConfig
from headlight_model.encoder import Encoder

CONFIG = EncoderConfig(
    vocab_size=8192,
    dim=384,
    heads=12,
    layers=6,
    ffn_dim=1536,
    positions="learned",
    norm="post",
    pooling="cls",
    trained_length=512,
    max_length=512,
)
SHARPER = 3.0  # Q and K, so that attention is not uniform


def random_encoder(config: EncoderConfig) -> Encoder:
    """Return an encoder with the same weights each time, in evaluation mode."""
    torch.manual_seed(0)
    encoder = Encoder(config)
    with torch.no_grad():
        for name, parameter in encoder.named_parameters():
            if name.endswith("attention.project_in.weight"):
                parameter[: 2 * config.dim] *= SHARPER
    return encoder.eval()


def bundle(folder: Path) -> Path:
    """Return the bundle, which takes ids alone. It is exported into the folder if missing."""
    out = folder / "six-layers"
    if not (out / "manifest.json").is_file():
        save_checkpoint(folder / "checkpoint", random_encoder(CONFIG), None)
        export_checkpoint(folder / "checkpoint", out)
    return out
