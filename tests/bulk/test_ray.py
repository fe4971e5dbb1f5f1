"""Embedder in Ray, on one machine and on two nodes of processes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.dataset as ds
import pytest

from headlight.runtime import Runtime
from tests.bulk.processes import ENVIRONMENT, driver
from tests.bulk.ray_faults import faults
from tests.bulk.rows import BAD, read_vectors, write_rows
from tests.system.processes import ROOT, Service

ROWS = 20_000
RUN_SECONDS = 300
GROWTH = 1.25  # of the memory of a process, from the second quarter of a run to the last
OUTPUTS = """
import sys, warnings
import ray
from headlight import AttentionSpec
from headlight.ray import Embedder
source, output, place, value = sys.argv[1:]
ray.init(num_cpus=3, object_store_memory=200 * 2**20, include_dashboard=False)
ray.data.read_parquet(source, num_cpus=0.1).map_batches(
    Embedder,
    fn_constructor_kwargs={
        place: value,
        "dtype": "float16",
        "tokens": True,
        "spans": "sentences",
        "attention": AttentionSpec.of(layers=-1, reduce="head_mean"),
    },
    batch_format="pyarrow",
    batch_size=64,
    compute=ray.data.ActorPoolStrategy(size=2),
    num_cpus=1,
).write_parquet(output, ray_remote_args={"num_cpus": 0.1})
"""


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_rows(tmp_path_factory.mktemp("bulk") / "texts", ROWS)


@pytest.fixture(params=["bundle", "target"])
def place(request: pytest.FixtureRequest, bundle_path: Path) -> Any:
    """Return the option that names the model, and its value."""
    if request.param == "bundle":
        yield "bundle", str(bundle_path)
        return
    with Service(bundle_path) as service:
        yield "target", service.target


def texts(source: Path, rows: int) -> list[str | None]:
    """Return the texts in the order of their ids."""
    found: list[str | None] = ds.dataset(source).to_table().sort_by("id")["text"].to_pylist()[:rows]
    return found


@pytest.mark.timeout(RUN_SECONDS)
def test_two_workers_give_what_the_runtime_gives(
    source: Path, place: tuple[str, str], runtime: Runtime, tmp_path: Path
) -> None:
    output, log = tmp_path / "vectors", tmp_path / "log"
    options = (f"--{place[0]}", place[1], "--workers", "2", "--part-rows", "2000")
    assert driver(source, output, log, *options).wait(RUN_SECONDS) == 0, log.read_text()
    assert f"{ROWS} rows, {3 * ROWS // 1000} rejected" in log.read_text()
    found = read_vectors(output)
    assert found.ids.tolist() == list(range(ROWS))
    assert found.rejected.tolist() == [number % 1000 in BAD for number in range(ROWS)]
    good = [text for number, text in enumerate(texts(source, ROWS)) if number % 1000 not in BAD]
    expected = runtime.encode([text for text in good if text])
    assert np.abs(found.vectors[~found.rejected] - expected).max() <= 1e-6


@pytest.mark.timeout(RUN_SECONDS)
def test_all_outputs_are_written_to_parquet(
    place: tuple[str, str], runtime: Runtime, tmp_path: Path
) -> None:
    source, output = write_rows(tmp_path / "texts", 200), tmp_path / "outputs"
    done = subprocess.run(
        [sys.executable, "-c", OUTPUTS, str(source), str(output), *place],
        cwd=ROOT,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
        timeout=RUN_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    rows = ds.dataset(output).to_table().sort_by("id").to_pylist()
    assert [row["id"] for row in rows if row["error"]] == list(BAD)
    assert all(row["token_embeddings"] is None for row in rows if row["error"])
    good = [row for row in rows if not row["error"]]
    read = [row["text"] for row in good]
    vectors = runtime.encode(read, dtype="float16")
    np.testing.assert_allclose([row["embedding"] for row in good], vectors, atol=1e-3)
    tokens = runtime.encode_tokens(read)
    spans = runtime.span_vectors(read, "sentences")
    for row, own, span in zip(good, tokens, spans, strict=True):
        np.testing.assert_allclose(row["token_embeddings"], own, atol=2e-6)
        np.testing.assert_allclose(row["span_embeddings"], span.vectors, atol=2e-6)
        assert row["attention_shape"] == [1, len(own), len(own)]
        sums = np.reshape(row["attention"], row["attention_shape"]).sum(axis=-1)
        np.testing.assert_allclose(sums, 1, atol=1e-5)


@pytest.mark.timeout(RUN_SECONDS)
@pytest.mark.parametrize(
    ("options", "line"),
    [
        (("--text-column", "body"), "no column body; there are id, text"),
        (("--id-column", "key"), "no column key; there are id, text"),
    ],
)
def test_a_missing_column_is_one_line(
    source: Path, bundle_path: Path, tmp_path: Path, options: tuple[str, str], line: str
) -> None:
    log = tmp_path / "log"
    job = driver(source, tmp_path / "vectors", log, "--bundle", str(bundle_path), *options)
    assert job.wait(RUN_SECONDS) == 1
    assert log.read_text() == f"{source}: {line}\n"


@pytest.mark.timeout(3600)
def test_kills_lose_and_repeat_nothing(
    bundle_path: Path,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    report: dict[str, Any],
) -> None:
    rows, kills = (request.config.getoption(name) for name in ("--rows", "--kills"))
    found = report["ray"] = faults(tmp_path, bundle_path, rows=rows, kills=kills)
    told = json.dumps(found, indent=2)
    assert sum(sum(found[mode]["kills"].values()) for mode in ("bundle", "target")) == kills, told
    for mode in ("bundle", "target"):
        numbers = found[mode]
        assert numbers["rows"] == rows, told
        assert numbers["missing"] == numbers["repeated"] == numbers["other reasons"] == 0, told
        assert numbers["rejected"] == 3 * rows // 1000, told
        assert numbers["largest difference"] <= 1e-6, told
    for middle, late, _ in found["uninterrupted"][
        "MiB (second quarter, last quarter, peak)"
    ].values():
        assert late <= GROWTH * middle, told
