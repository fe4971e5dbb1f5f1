"""Vectors of an installation by each way to ask for them."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from headlight.runtime.values import Floats
from tests.install.shell import Shell
from tests.ports import free_address

TEXTS = [
    "join two paths",
    "parse a date",
    "for line in open(path): print(line)",
    "return the number of lines of a file that match a regular expression " * 8,
]
EMBED = "headlight embed " + " ".join(f"'{text}'" for text in TEXTS)
TABLE = "headlight embed texts.parquet --text-column text --id-column id"


def served_vectors(shell: Shell, line: str) -> dict[str, Floats]:
    """Serve by a line; return the vectors of TEXTS over gRPC, over HTTP and of a table job."""
    write_table(shell.folder)
    api = free_address()
    with shell.at(shell.folder, HEADLIGHT_API=api).serving(line) as asking:
        printed = vectors(asking.run(EMBED))
        tei = _post(f"http://{api}/embed", {"inputs": TEXTS})
        openai = _post(f"http://{api}/v1/embeddings", {"input": TEXTS})["data"]
        asking.run(f"{TABLE} --out served.parquet")
    return {
        "gRPC": printed,
        "/embed": np.array(tei, dtype=np.float32),
        "/v1/embeddings": np.array([each["embedding"] for each in openai], dtype=np.float32),
        "served table": table_vectors(shell.folder / "served.parquet"),
    }


def local_vectors(shell: Shell, options: str) -> dict[str, Floats]:
    """Return the vectors of TEXTS in process and of a table job, with options of `embed`."""
    write_table(shell.folder)
    shell.run(f"{TABLE} --out local.parquet {options}")
    return {
        "local": vectors(shell.run(f"{EMBED} {options}")),
        "local table": table_vectors(shell.folder / "local.parquet"),
    }


def write_table(folder: Path) -> None:
    """Write the table that TABLE reads."""
    table = pa.table({"text": TEXTS, "id": range(len(TEXTS))})
    pq.write_table(table, folder / "texts.parquet")


def vectors(printed: str) -> Floats:
    """Return the vectors that `headlight embed` printed, a line each."""
    return np.array([line.split() for line in printed.splitlines()], dtype=np.float32)


def table_vectors(path: Path) -> Floats:
    """Return the vectors of a table."""
    column = pq.read_table(path).column("embedding")
    return np.array(column.to_pylist(), dtype=np.float32)


def _post(url: str, body: dict[str, Any]) -> Any:
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)
