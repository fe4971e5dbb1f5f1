"""A model of every scheme of positions, trained for a few steps, exported and served by the commands a user would give."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch

from export.reference import BASE_TOLERANCE
from headlight import Client
from headlight.runtime.parity import distance
from model.checkpoint import load_checkpoint
from model.positions import POSITIONS
from tests.system.processes import ROOT, Service

TEXTS = ("join two paths", "def read(path):\n    return open(path).read()", "x " * 40)


def run(module: str, *arguments: str) -> None:
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


def make(positions: str, folder: Path) -> Path:
    run("model.train", "--positions", positions, "--out", str(folder / "checkpoint"), "--quick", "--threads", "1")
    run("export", str(folder / "checkpoint"), "--out", str(folder / "bundle"))
    return folder


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Future[Path]]]:
    """Checkpoint and bundle of each scheme, in the making: two at a time, as most of the work is on one core."""
    with ThreadPoolExecutor(2) as pool:
        yield {name: pool.submit(make, name, tmp_path_factory.mktemp(name)) for name in sorted(POSITIONS)}
        pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize("positions", sorted(POSITIONS))
def test_trained_exported_and_served_it_is_what_pytorch_computes(
    folders: Mapping[str, Future[Path]], positions: str
) -> None:
    folder = folders[positions].result()
    encoder = load_checkpoint(folder / "checkpoint")
    assert encoder.config.positions == positions
    with Service(folder / "bundle", "--threads", "1") as service, Client(service.target) as client:
        vectors = client.encode(TEXTS, truncate="end")  # some schemes take no more than was trained
        every_token = client.encode_tokens(TEXTS, truncate="end")
        for text, vector, tokens in zip(TEXTS, vectors, every_token, strict=True):
            attention, hidden = client.attend(text, truncate="end"), client.hidden(text, truncate="end")
            with torch.inference_mode():
                expected = encoder(torch.tensor([attention.tokens.ids]), fused=False)
            got = {"pooled": vector, "tokens": tokens, "attention": attention.weights, "hidden": hidden.states}
            reference = {"pooled": expected.pooled[0], "tokens": expected.tokens[0]}
            reference |= {"attention": torch.cat(expected.attention), "hidden": torch.cat(expected.hidden)}
            for name, value in reference.items():
                assert got[name].shape == tuple(value.shape), name
                assert distance(name, got[name], value.numpy()) <= BASE_TOLERANCE[name], name
            np.testing.assert_allclose(attention.weights.sum(-1), 1.0, atol=1e-5)
