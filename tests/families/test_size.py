"""A model of a common embedding size: time of its export, and needs of its service."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.random_bert import make
from headlight import Client
from headlight_export.folders.origin import read_origin
from headlight_export.writer.bundle_writer import export_checkpoint, export_origin
from tests.factory import small_config, write_checkpoint
from tests.system.processes import Service


@pytest.fixture(scope="module")
def minilm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return its bundle."""
    folder = tmp_path_factory.mktemp("minilm")
    origin = read_origin(make(folder, "minilm"))
    export_origin(origin, folder / "bundle")
    return folder / "bundle"


def resident(service: Service) -> int:
    """Return the private bytes of the process, the weights included.

    File pages belong to the kernel; how many are mapped depends on how it keeps the file.
    """
    lines = Path(f"/proc/{service.process.pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Anonymous:"))


def test_the_service_needs_little_more_memory_than_the_weights(
    minilm: Path, tmp_path: Path
) -> None:
    """Beyond the needs of a service with a model of some kilobytes."""
    export_checkpoint(
        write_checkpoint(tmp_path / "checkpoint", small_config()), tmp_path / "bundle"
    )
    weights = (minilm / "weights.bin").stat().st_size
    # malloc never trims the end of a second heap, and a race decides which heap the loading thread
    # gets: a quarter of the weights more, in one start of fifty.
    one_heap = {"MALLOC_ARENA_MAX": "1"}
    with (
        Service(tmp_path / "bundle", environment=one_heap) as bare,
        Service(minilm, environment=one_heap) as full,
    ):
        for service in (bare, full):
            with Client(service.target) as client:
                client.encode(["one text", "and another"])
        # The embedding table once (0.52), the matrices of each graph, and those of a lone batch on
        # either: another copy would be 2.9.
        assert resident(full) - resident(bare) <= 2.6 * weights
