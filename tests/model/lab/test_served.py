"""What the lab trains is exported, proved and run like every other model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from export.writer import export_checkpoint
from headlight.runtime import Runtime
from model.lab.tasks import FIRST, TASKS
from model.lab.training import Training, held_out, trained


def test_a_checkpoint_of_the_lab_becomes_a_bundle_that_gives_its_vectors(tmp_path: Path) -> None:
    training = Training(task="recall", scheme="alibi signed", seed=0, steps=2, lengths=(8, 8), batch=2)
    encoder, _ = trained(training, tmp_path, lambda: None)
    export_checkpoint(tmp_path / training.name, tmp_path / "bundle")
    [ids] = held_out(training, 64).ids[:1]
    symbols = TASKS["recall"].symbols
    text = " ".join(symbols[each - FIRST] for each in ids.tolist())
    with torch.inference_mode():
        wanted = encoder(ids[None]).pooled[0].numpy()
    found = Runtime(tmp_path / "bundle").encode([text])[0].pooled
    assert found is not None
    np.testing.assert_allclose(found, wanted, atol=1e-5)
