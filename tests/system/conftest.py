"""One running service for each shipped model, shared by the tests that leave it as they found it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from export.writer import export_checkpoint
from model.checkpoint import TOKENIZER, load_checkpoint
from model.encoder import Encoder
from tests.factory import KINDS, kind_config, write_checkpoint
from tests.system.processes import ROOT, Service

Small = tuple[str, Service, Encoder]

MODELS = ("docs-rope", "docs-sinusoidal")


def bundle_of(model: str) -> Path:
    """Made by `make export`, on which `make system` depends."""
    return ROOT / "build" / "bundles" / model


@pytest.fixture(scope="session")
def rope() -> Iterator[Service]:
    with Service(bundle_of("docs-rope")) as service:
        yield service


@pytest.fixture(scope="session")
def sinusoidal() -> Iterator[Service]:
    with Service(bundle_of("docs-sinusoidal")) as service:
        yield service


@pytest.fixture(scope="session", params=MODELS)
def served(request: pytest.FixtureRequest) -> tuple[str, Service]:
    """Each model in turn: its name and the service that has it."""
    service: Service = request.getfixturevalue("rope" if request.param == "docs-rope" else "sinusoidal")
    return request.param, service


@pytest.fixture(scope="session", params=list(KINDS))
def small(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Small]:
    """Each kind of small model in turn, freshly initialised, its attention sharpened: name, service, the model in PyTorch."""
    folder = tmp_path_factory.mktemp(request.param)
    checkpoint = write_checkpoint(folder / "checkpoint", kind_config(request.param))
    if request.param == "none":  # one of them takes ids alone
        (checkpoint / TOKENIZER).unlink()
    export_checkpoint(checkpoint, folder / "bundle")
    with Service(folder / "bundle") as service:
        yield request.param, service, load_checkpoint(checkpoint)
