"""Fixtures shared by all tests.

Bundles are exported once: tracing a graph takes seconds, whatever its size.
"""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headlight.runtime import Runtime
from tests import graph_operators, scorers
from tests.drawing import load_profiles
from tests.factory import kind_config, write_checkpoint
from tests.once import once

MakeBundle = Callable[[str], Path]
# What services and runtimes measure is kept there, and not in the home of whoever runs the tests.
CACHE = tempfile.TemporaryDirectory(prefix="headlight-cache-")
os.environ["HEADLIGHT_CACHE"] = CACHE.name
graph_operators.build_once()
load_profiles()  # before any test is defined, which takes over what is true by then
# A shell starts what runs in its background with SIGINT ignored, and processes inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def make_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> MakeBundle:
    """Return a function from a key of KINDS to the folder of a small checkpoint."""
    return lambda kind: once(
        tmp_path_factory,
        f"checkpoint-{kind}",
        lambda folder: write_checkpoint(folder, kind_config(kind)),
    )


@pytest.fixture(scope="session")
def make_bundle(
    tmp_path_factory: pytest.TempPathFactory, make_checkpoint: MakeBundle
) -> MakeBundle:
    """Return a function from a key of KINDS to a bundle, made and checked by the real exporter.

    Do not change it: copy it first.
    """

    def make(kind: str) -> Path:
        from headlight_export.writer.bundle_writer import export_checkpoint

        return once(
            tmp_path_factory,
            f"small-{kind}",
            lambda out: export_checkpoint(make_checkpoint(kind), out),
        )

    return make


@pytest.fixture(scope="session")
def bundle_path(make_bundle: MakeBundle) -> Path:
    """Return a small bundle with rotary positions."""
    return make_bundle("rope")


@pytest.fixture(scope="session")
def runtime(bundle_path: Path) -> Runtime:
    """Return a runtime of the small rotary bundle, on one thread."""
    return Runtime(bundle_path, threads=1)


@pytest.fixture(scope="module")
def ranking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    """Return a runtime of a small model that scores pairs; services change it."""
    with Runtime(scorers.bundle(tmp_path_factory, "reranker"), threads=1) as runtime:
        yield runtime


@pytest.fixture(scope="module")
def classifying(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    """Return a runtime of a small model that classifies texts; services change it."""
    with Runtime(scorers.bundle(tmp_path_factory, "classifier"), threads=1) as runtime:
        yield runtime


@pytest.fixture(scope="module")
def weighting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    """Return a runtime of a small model that weights terms; services change it."""
    with Runtime(scorers.bundle(tmp_path_factory, "sparse"), threads=1) as runtime:
        yield runtime


@pytest.fixture(scope="module")
def matching(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    """Return a runtime of a small model that has several vectors of a text; services change it."""
    with Runtime(scorers.bundle(tmp_path_factory, "multi_vector"), threads=1) as runtime:
        yield runtime
