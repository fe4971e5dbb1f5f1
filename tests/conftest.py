"""Fixtures shared by all tests. Bundles are exported once a session: tracing a graph takes seconds, whatever its size."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from headlight.runtime import Runtime
from tests.factory import small_config, write_checkpoint

MakeBundle = Callable[[str], Path]


@pytest.fixture(scope="session")
def make_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> MakeBundle:
    """positions -> the folder of a small checkpoint with that scheme."""
    made: dict[str, Path] = {}

    def make(positions: str) -> Path:
        if positions not in made:
            # One scheme pre-norm with mean pooling, the other post-norm with the first token: each path is exported once.
            changes = {"rope": {}, "sinusoidal": {"norm": "post", "pooling": "cls", "scale_embeddings": True}}[
                positions
            ]
            config = small_config(positions=positions, **changes)
            made[positions] = write_checkpoint(tmp_path_factory.mktemp(f"checkpoint-{positions}"), config)
        return made[positions]

    return make


@pytest.fixture(scope="session")
def make_bundle(tmp_path_factory: pytest.TempPathFactory, make_checkpoint: MakeBundle) -> MakeBundle:
    """positions -> a bundle directory, exported and proven by the real exporter. Not to be changed: copy it first."""
    made: dict[str, Path] = {}

    def make(positions: str) -> Path:
        from export.writer import export_checkpoint

        if positions not in made:
            out = tmp_path_factory.mktemp("bundles") / f"small-{positions}"
            export_checkpoint(make_checkpoint(positions), out)
            made[positions] = out
        return made[positions]

    return make


@pytest.fixture(scope="session")
def bundle_path(make_bundle: MakeBundle) -> Path:
    """A small bundle with rotary positions."""
    return make_bundle("rope")


@pytest.fixture(scope="session")
def runtime(bundle_path: Path) -> Runtime:
    """The small rotary bundle, opened, on one thread."""
    return Runtime(bundle_path, threads=1)
