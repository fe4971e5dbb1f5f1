"""Exported graphs of post-norm encoders without a norm of the embeddings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from headlight.runtime import EncodeItem, Runtime
from headlight.runtime.encode_items import everything
from headlight.runtime.parity.golden_inputs import distance
from headlight_export.writer.bundle_writer import export_checkpoint
from headlight_model.checkpoint import load_checkpoint
from tests.factory import small_config, write_checkpoint

LENGTHS = (1, 7, 40)
# Positions that are added to embeddings, that turn queries and keys, and that change scores.
SCHEMES: dict[str, dict[str, Any]] = {
    "sinusoidal of base 300": {"positions": "sinusoidal", "sinusoidal_base": 300.0},
    "rope": {"causal": True, "pooling": "last"},
    "signed alibi": {"positions": "alibi", "alibi": "signed"},
    "shared biases": {"positions": "relative"},
    "learned, of each layer": {"positions": "learned", "positions_every_layer": True, "layers": 2},
}


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_bundle_matches_pytorch(scheme: str, tmp_path: Path) -> None:
    fields = {"positions": scheme, "norm": "post", "first_norm": False, "layers": 1}
    config = small_config(**fields | SCHEMES[scheme])
    checkpoint = write_checkpoint(tmp_path / "checkpoint", config)
    export_checkpoint(checkpoint, tmp_path / "bundle")
    runtime, encoder = Runtime(tmp_path / "bundle", threads=1), load_checkpoint(checkpoint)
    assert "embedding_norm.weight" not in encoder.state_dict()
    architecture = runtime.bundle.manifest.architecture
    random = np.random.default_rng(3)
    items = [
        EncodeItem(random.integers(1, 90, size=length, dtype=np.int64), everything(architecture))
        for length in LENGTHS
    ]
    for item, result in zip(items, runtime.engine.run(items), strict=True):
        with torch.inference_mode():
            out = encoder(torch.from_numpy(item.ids)[None], fused=False)
        for name, expected in {
            "pooled": out.pooled[0],
            "tokens": out.tokens[0],
            "attention": torch.cat(out.attention),
            "hidden": torch.cat(out.hidden),
        }.items():
            assert distance(name, getattr(result, name), expected.numpy()) < 1e-5, name
