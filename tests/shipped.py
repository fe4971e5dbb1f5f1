"""Facts of the shipped models, read from their checkpoints."""

from __future__ import annotations

import json
from pathlib import Path

CHECKPOINTS = Path(__file__).parents[1] / "model" / "headlight_model" / "checkpoints"
DOCS_ROPE = CHECKPOINTS / "docs-rope"

_config = json.loads((DOCS_ROPE / "config.json").read_text(encoding="utf-8"))
_training = json.loads((DOCS_ROPE / "training.json").read_text(encoding="utf-8"))
DIM: int = _config["dim"]  # docs-rope, as all below
LAYERS: int = _config["layers"]
HEADS: int = _config["heads"]
VOCABULARY: int = _config["vocab_size"]
TRAINED_DIMENSIONS: tuple[int, ...] = tuple(
    sorted(_training["recipe"].get("widths", ()), reverse=True)
)
