"""Encoders of other people's code over the wire: the examples, and the comparison in them."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from examples.bring_your_own import hand_written, serve_and_compare
from examples.bring_your_own.serve_and_compare import LENGTH, VOCABULARY
from examples.bring_your_own.transformer_encoder import CONFIG, NAMES, Reverser
from headlight import Client
from headlight_export.parity.transformers_comparison import Disagreement
from tests.system.processes import ROOT


def test_an_example_trains_exports_serves_and_agrees_with_pytorch(tmp_path: Path) -> None:
    module = "examples.bring_your_own.hand_written"
    command = (sys.executable, "-W", "error", "-m", module, "--steps", "20", "--out", tmp_path)
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "parity holds" in done.stdout


def test_a_torch_encoder_without_embedding_norm_is_served_as_computed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other example, in this process, with attention far from uniform after its training."""
    train, compare = serve_and_compare.train, serve_and_compare.compare

    def train_and_sharpen(model: Reverser, steps: int) -> None:
        train(model, steps)
        with torch.no_grad():
            for layer in model.encoder.layers:
                layer.get_parameter("self_attn.in_proj_weight")[:128].mul_(3)

    def compare_closely(model: Reverser, client: Client) -> bool:
        for length in (1, 5, LENGTH):
            ids = torch.randint(2, VOCABULARY, (length,))
            with torch.inference_mode():
                tokens, weights = model(ids[None])[0].numpy(), model.attention(ids[None])[0].numpy()
            [served] = client.encode_tokens([ids.numpy()])
            np.testing.assert_allclose(served, tokens, atol=1e-5, rtol=0)
            np.testing.assert_allclose(client.attend(ids.numpy()).weights, weights, atol=1e-5)
        assert compare(model, client)
        with torch.no_grad():
            model.get_parameter("encoder.layers.1.norm2.bias")[3] += 1e-4
        return compare(model, client)

    monkeypatch.setattr(serve_and_compare, "train", train_and_sharpen)
    monkeypatch.setattr(serve_and_compare, "compare", compare_closely)
    monkeypatch.setattr(sys, "argv", ["example", "--steps", "20", "--out", str(tmp_path)])
    assert serve_and_compare.run(Reverser, CONFIG, NAMES) == 1, "one bias is off by 1e-4"


class InEachBlock(hand_written.Reverser):
    """Six blocks, each of which adds the positions to its input."""

    def encode(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        x, maps = self.words(ids), []
        for block in self.blocks:
            x, weights = block(x + self.positions[: ids.shape[1]])
            maps.append(weights)
        return x, torch.stack(maps, dim=1)


def test_positions_of_six_blocks_are_refused_without_the_field_and_served_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hand_written, "LAYERS", 6)
    monkeypatch.setattr(sys, "argv", ["example", "--steps", "20", "--out", str(tmp_path)])
    config = dataclasses.replace(hand_written.CONFIG, layers=6)
    with pytest.raises(Disagreement, match=r'all agrees if .*"positions_every_layer": true'):
        serve_and_compare.run(InEachBlock, config, hand_written.NAMES)
    assert not (tmp_path / "bundle").exists()
    config = dataclasses.replace(config, positions_every_layer=True)
    assert serve_and_compare.run(InEachBlock, config, hand_written.NAMES) == 0
