"""The lab's model that predicts the next character, served: its attention and its predictions."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import torch

from headlight import Client
from headlight_export.writer.bundle_writer import export_checkpoint
from lab.experiments import causal
from lab.training import fit_scores, trained
from tests.system.processes import Service

TEXT = "The import statement\ncombines two operations."


def test_no_row_has_weight_on_a_later_character_and_predictions_are_those_of_pytorch(
    tmp_path: Path,
) -> None:
    [plan] = [each for each in causal.trainings(range(1)) if each.scheme == "rope"]
    training = dataclasses.replace(plan, steps=4, batch=2)
    encoder, _ = trained(training, tmp_path, lambda: None)
    export_checkpoint(tmp_path / training.name, tmp_path / "bundle")
    with Service(tmp_path / "bundle") as service, Client(service.target) as client:
        attention = client.attend(TEXT)
        [vectors] = client.encode_tokens([TEXT])
        [shorter] = client.encode_tokens([TEXT[:20]])
    ids = torch.tensor(attention.tokens.ids)
    assert len(ids) == len(TEXT)
    assert not np.triu(attention.weights, 1).any()
    np.testing.assert_allclose(attention.weights.sum(axis=-1), 1, atol=1e-5)
    np.testing.assert_allclose(shorter, vectors[:20], atol=1e-5)
    with torch.inference_mode():
        wanted = fit_scores(encoder, ids[None])[0].numpy()
        embeddings = encoder.embedding.weight.numpy()
    said = vectors @ embeddings.T / np.sqrt(vectors.shape[1])
    np.testing.assert_allclose(said, wanted, atol=1e-4)
