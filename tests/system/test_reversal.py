"""A lab model, served: it reverses sequences.

Its answers, and the head that attends to the mirrored position.
"""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from headlight import Client, InvalidInput
from headlight_model.checkpoint import load_checkpoint
from lab.experiments.reversal import LENGTH
from lab.tasks import FIRST, LETTERS
from tests.system.conftest import bundle_of
from tests.system.processes import ROOT, Service

NAME = "reverse-learned"


@pytest.fixture(scope="module")
def reversing() -> Iterator[Service]:
    with Service(bundle_of(NAME)) as service:
        yield service


def sequence(seed: int, length: int = LENGTH) -> list[str]:
    return random.Random(seed).choices(LETTERS, k=length)


def mirrored(weights: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the mean weight on the mirrored token: [..., S, S] -> [...]."""
    diagonals = np.diagonal(weights[..., ::-1], axis1=-2, axis2=-1)
    return np.asarray(diagonals.mean(axis=-1, dtype=np.float64))


def test_the_command_shows_the_head_that_looks_at_the_mirrored_token(
    reversing: Service, tmp_path: Path
) -> None:
    file = tmp_path / "attention.npz"
    command = [
        sys.executable,
        "-m",
        "headlight",
        "attend",
        " ".join(sequence(0)),
        "--target",
        reversing.target,
    ]
    subprocess.run([*command, "--format", "npz", "--out", file], cwd=ROOT, check=True, timeout=60)
    with np.load(file) as found:
        weights = found["weights"]  # [L, H, S, S]
    assert weights.shape[-2:] == (LENGTH, LENGTH)
    layer, head = np.unravel_index(mirrored(weights).argmax(), weights.shape[:2])
    assert mirrored(weights)[layer, head] >= 0.8
    assert (weights[layer, head].argmax(axis=1) == np.arange(LENGTH)[::-1]).all()


def test_the_mirrored_head_is_found_on_average_over_sequences(reversing: Service) -> None:
    with Client(reversing.target) as client:
        masses = [mirrored(client.attend(" ".join(sequence(seed))).weights) for seed in range(16)]
    assert np.mean(masses, axis=0).max() >= 0.8


def test_served_token_vectors_decode_to_the_reversed_sequence(
    reversing: Service,
) -> None:
    embeddings = (
        load_checkpoint(ROOT / "lab" / "checkpoints" / NAME).embedding.weight.detach().numpy()
    )
    texts = [sequence(seed) for seed in range(64)]
    with Client(reversing.target) as client:
        answers = client.encode_tokens([" ".join(text) for text in texts])
    named = [
        [LETTERS[each - FIRST] for each in (vectors @ embeddings.T).argmax(axis=1)]
        for vectors in answers
    ]
    right = np.mean(
        [
            a == b
            for one, text in zip(named, texts, strict=True)
            for a, b in zip(one, text[::-1], strict=True)
        ]
    )
    assert right >= 0.99


def test_a_sequence_longer_than_the_table_is_refused(reversing: Service) -> None:
    with (
        Client(reversing.target) as client,
        pytest.raises(InvalidInput, match=f"{LENGTH + 1} tokens"),
    ):
        client.attend(" ".join(sequence(0, LENGTH + 1)))
