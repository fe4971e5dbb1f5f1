"""A small bundle with Dense layers, which no other kind has."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from headlight.runtime import Runtime
from headlight_model.checkpoint import load_checkpoint
from headlight_model.config import Dense
from headlight_model.encoder import Encoder
from tests.conftest import MakeBundle
from tests.factory import small_config, write_checkpoint
from tests.once import once

DENSE = (Dense(width=20, bias=True, activation="tanh"), Dense(width=12, bias=False))


class Model(NamedTuple):
    """A runtime and its model in PyTorch."""

    runtime: Runtime
    encoder: Encoder


@pytest.fixture(scope="session")
def dense_bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with `checkpoint` and `bundle` of a model with two Dense layers."""
    from headlight_export.writer.bundle_writer import export_checkpoint

    def make(folder: Path) -> None:
        folder.mkdir()
        config = small_config(layers=1, max_length=32, dense=DENSE, include_prompt=False)
        export_checkpoint(write_checkpoint(folder / "checkpoint", config), folder / "bundle")

    return once(tmp_path_factory, "small-dense", make)


@pytest.fixture(scope="session")
def dense(dense_bundle: Path) -> Model:
    return Model(
        Runtime(dense_bundle / "bundle", threads=1), load_checkpoint(dense_bundle / "checkpoint")
    )


@pytest.fixture(scope="session", params=["rope", "learned", "alibi", "sinusoidal", "causal"])
def model(
    request: pytest.FixtureRequest, make_bundle: MakeBundle, make_checkpoint: MakeBundle
) -> Model:
    """Return small models without Dense layers; the last two pool by one token."""
    return Model(
        Runtime(make_bundle(request.param), threads=1),
        load_checkpoint(make_checkpoint(request.param)),
    )
