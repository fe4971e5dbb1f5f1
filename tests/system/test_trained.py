"""Every position scheme: trained for a few steps, exported and served.

One by the commands of a user, on the whole corpus; the others by the functions behind them, on a
small part of it, because reading the standard library and importing PyTorch take the most time and
are the same for all.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch

from headlight import Client
from headlight.outputs.registry import FLOORS
from headlight.runtime.parity.golden_inputs import distance
from headlight_model.checkpoint import load_checkpoint
from headlight_model.positions.position_schemes import POSITIONS
from tests.system import making
from tests.system.processes import ROOT, Service

TEXTS = ("join two paths", "def read(path):\n    return open(path).read()", "x " * 40)
BY_COMMAND = "rope"


def run(module: str, *arguments: str) -> None:
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


def make(positions: str, folder: Path) -> Path:
    """Write `checkpoint` and `bundle` into the folder, and return it."""
    run(
        "headlight_model.train",
        "--positions",
        positions,
        "--out",
        str(folder / "checkpoint"),
        "--quick",
        "--threads",
        "1",
    )
    run("headlight", "export", str(folder / "checkpoint"), "--out", str(folder / "bundle"))
    return folder


@pytest.fixture(scope="module")
def folders(
    makers: ProcessPoolExecutor, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mapping[str, Future[Path]]]:
    """Return checkpoint and bundle of each scheme, being made."""
    empty = {name: tmp_path_factory.mktemp(name) for name in sorted(POSITIONS)}
    with ThreadPoolExecutor(1) as waiting:
        by_command = {BY_COMMAND: waiting.submit(make, BY_COMMAND, empty.pop(BY_COMMAND))}
        yield by_command | {
            name: makers.submit(making.trained, name, folder) for name, folder in empty.items()
        }


@pytest.mark.parametrize("positions", sorted(POSITIONS))
def test_a_trained_exported_and_served_model_matches_pytorch(
    folders: Mapping[str, Future[Path]], positions: str
) -> None:
    folder = folders[positions].result()
    encoder = load_checkpoint(folder / "checkpoint")
    assert encoder.config.positions == positions
    with Service(folder / "bundle", "--threads", "1") as service, Client(service.target) as client:
        vectors = client.encode(TEXTS, truncate="end")  # limited by training in some schemes
        every_token = client.encode_tokens(TEXTS, truncate="end")
        for text, vector, tokens in zip(TEXTS, vectors, every_token, strict=True):
            attention, hidden = (
                client.attend(text, truncate="end"),
                client.hidden(text, truncate="end"),
            )
            with torch.inference_mode():
                expected = encoder(torch.tensor([attention.tokens.ids]), fused=False)
            got = {
                "pooled": vector,
                "tokens": tokens,
                "attention": attention.weights,
                "hidden": hidden.states,
            }
            reference = {"pooled": expected.pooled[0], "tokens": expected.tokens[0]}
            reference |= {
                "attention": torch.cat(expected.attention),
                "hidden": torch.cat(expected.hidden),
            }
            for name, value in reference.items():
                assert got[name].shape == tuple(value.shape), name
                assert distance(name, got[name], value.numpy()) <= FLOORS[name], name
            np.testing.assert_allclose(attention.weights.sum(-1), 1.0, atol=1e-5)
