"""docs/guides/bulk.md as written: each block of sh and Python, in order, in one folder.

A service and an object store run on loopback. `tests.bulk.page_commands` has what is replaced.
"""

from __future__ import annotations

import dataclasses
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import fsspec
import numpy as np
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from moto.server import ThreadedMotoServer

from headlight.cli.files import PARTIAL
from tests.bulk.page_commands import stop_nodes, write_commands
from tests.ports import free_port
from tests.system.processes import ROOT, Service

PAGE = (ROOT / "docs/guides/bulk.md").read_text(encoding="utf-8")
BUNDLE = ROOT / "build/bundles/docs-rope"
BLOCK_SECONDS = 240
ROWS = 998


@dataclasses.dataclass(frozen=True)
class Block:
    """A block of code.

    Attributes:
        language: sh or python.
        shown: the output that the page shows below it; None: none.
        heading: above it.
    """

    language: str
    text: str
    shown: str | None
    heading: str


def blocks() -> list[Block]:
    """Return the blocks of the page that can be run."""
    found: list[Block] = []
    heading = ""
    pattern = r"^(?:#+ (?P<heading>[^\n]*)|```(?P<language>\w*)\n(?P<text>.*?)^```)$"
    for match in re.finditer(pattern, PAGE, re.DOTALL | re.MULTILINE):
        if match["heading"]:
            heading = match["heading"]
        elif match["language"]:
            found.append(Block(match["language"], match["text"], None, heading))
        else:
            found[-1] = dataclasses.replace(found[-1], shown=match["text"])
    return found


BLOCKS = blocks()


@dataclasses.dataclass(frozen=True)
class Place:
    """Where the blocks are run, and what they find there.

    Attributes:
        addresses: by those that the page names.
    """

    folder: Path
    addresses: Mapping[str, str]
    environment: Mapping[str, str]


@pytest.fixture(scope="module")
def store() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture(scope="module")
def place(store: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("page")
    write_commands(folder / "bin", ROOT)
    (folder / "docs").mkdir()  # as a clone has
    with Service(BUNDLE) as service:
        addresses = {
            "127.0.0.1:50051": service.target,
            "http://127.0.0.1:9000": store,
            "6379": str(free_port()),
        }
        environment = {
            **os.environ,
            "PATH": f"{folder}/bin:{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            "HEADLIGHT_TARGET": service.target,
            "AWS_ACCESS_KEY_ID": "any",
            "AWS_SECRET_ACCESS_KEY": "any",
            "AWS_DEFAULT_REGION": "us-east-1",
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_AUTH_MODE": "disabled",
        }
        try:
            yield Place(folder, addresses, environment)
        finally:
            stop_nodes(folder)


@pytest.mark.parametrize("number", range(len(BLOCKS)), ids=lambda at: BLOCKS[at].heading)
def test_each_block_runs_as_written(
    place: Place, store: str, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    block = BLOCKS[number]
    if "s3://corpus" in block.text:
        fill(store, place, monkeypatch)
    text = block.text
    for shown, address in place.addresses.items():
        text = text.replace(shown, address)
    command = {"sh": ["/bin/sh", "-eu", "-c"], "python": [sys.executable, "-c"]}[block.language]
    done = subprocess.run(
        [*command, text],
        cwd=place.folder,
        env=place.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=BLOCK_SECONDS,
        check=False,
    )
    assert done.returncode in (0, PARTIAL), done.stdout
    if block.shown is not None:
        assert done.stdout.replace(str(place.folder), "/data") == block.shown


def fill(store: str, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the documents into the bucket that the page names."""
    for name, value in place.environment.items():
        if name.startswith("AWS_"):
            monkeypatch.setenv(name, value)
    system = fsspec.filesystem("s3", endpoint_url=store, skip_instance_cache=True)
    system.mkdir("corpus")
    system.put(str(place.folder / "documents"), "corpus/documents", recursive=True)


def test_all_ways_have_the_same_vectors(place: Place) -> None:
    """Runs after the blocks, and reads what they have written."""
    expected = vectors(place.folder / "vectors.parquet")
    assert len(expected) == ROWS
    mapped = np.load(place.folder / "vectors.npy")
    np.testing.assert_array_equal(mapped, np.array([expected[row] for row in sorted(expected)]))
    ways = ("parts", "served.parquet", "vectors-ray", "vectors-fleet", "vectors-pipeline")
    for name in (*ways, "vectors-cluster"):
        found = vectors(place.folder / name)
        assert found.keys() == expected.keys(), name
        assert max(np.abs(found[row] - expected[row]).max() for row in expected) <= 1e-6, name
    small = pq.read_table(place.folder / "small.parquet")
    assert small.column_names[:4] == ["id", "language", "embedding_float16", "embedding_ubinary"]


def vectors(path: Path) -> dict[int, np.ndarray[tuple[int, ...], np.dtype[np.float32]]]:
    """Return the vectors of an output by id."""
    table = ds.dataset(path, format="parquet").to_table(columns=["id", "embedding"])
    table = table.filter(table["embedding"].is_valid())
    flat = table["embedding"].combine_chunks().flatten().to_numpy().reshape(len(table), -1)
    return dict(zip(table["id"].to_pylist(), flat, strict=True))


def test_blocks_are_found_with_their_outputs() -> None:
    assert {block.language for block in BLOCKS} == {"sh", "python"}
    assert sum(block.shown is not None for block in BLOCKS) == 3
    assert PAGE.count("```") == 2 * (len(BLOCKS) + 3)
