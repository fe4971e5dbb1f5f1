"""A model trained by the command of a user on the whole corpus, then exported and served.

Every scheme of positions learns in tests/model/train/test_trainer.py, and is exported and served in
tests/system/test_schemes.py.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import torch

from headlight import Client
from headlight.outputs.registry import FLOORS
from headlight.runtime.parity.golden_inputs import distance
from headlight_model.checkpoint import load_checkpoint
from tests.system.processes import ROOT, Service, exit_code

TEXTS = ("join two paths", "def read(path):\n    return open(path).read()", "x " * 40)


def test_a_trained_exported_and_served_model_matches_pytorch(tmp_path: Path) -> None:
    checkpoint, bundle = tmp_path / "checkpoint", tmp_path / "bundle"
    options = ("--positions", "rope", "--out", str(checkpoint), "--quick", "--threads", "1")
    training = [sys.executable, "-m", "headlight_model.train", *options]
    done = subprocess.run(training, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert exit_code("export", str(checkpoint), "--out", str(bundle)) == 0
    encoder = load_checkpoint(checkpoint)
    assert encoder.config.positions == "rope"
    with Service(bundle, "--threads", "1") as service, Client(service.target) as client:
        vectors = client.encode(TEXTS)
        every_token = client.encode_tokens(TEXTS)
        for text, vector, tokens in zip(TEXTS, vectors, every_token, strict=True):
            attention, hidden = client.attend(text), client.hidden(text)
            with torch.inference_mode():
                expected = encoder(torch.tensor([attention.tokens.ids]), fused=False)
            got = {
                "pooled": vector,
                "tokens": tokens,
                "attention": attention.weights,
                "hidden": hidden.states,
            }
            reference = {
                "pooled": expected.pooled[0],
                "tokens": expected.tokens[0],
                "attention": torch.cat(expected.attention),
                "hidden": torch.cat(expected.hidden),
            }
            for name, value in reference.items():
                assert got[name].shape == tuple(value.shape), name
                assert distance(name, got[name], value.numpy()) <= FLOORS[name], name
            np.testing.assert_allclose(attention.weights.sum(-1), 1.0, atol=1e-5)
