"""The HTTP frontend of the real process: numbers, and the page of curl."""

from __future__ import annotations

import json
import re
import subprocess
import urllib.request
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from headlight import Client
from tests import scorers
from tests.system.processes import ROOT, Service

PAGE = ROOT / "docs/clients/curl.md"
COMMANDS = re.findall(r"```sh\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
BUNDLE = ROOT / "build/bundles/docs-rope"


def post(service: Service, path: str, body: Any) -> Any:
    request = urllib.request.Request(
        f"http://{service.rest}{path}",
        json.dumps(body).encode(),
        {"content-type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=60) as response:
        return json.loads(response.read())


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Models for all requests of the page of curl."""
    with Service([BUNDLE, scorers.bundle(tmp_path_factory, "reranker")]) as service:
        yield service


@pytest.mark.parametrize("command", COMMANDS, ids=lambda text: text[:60])
def test_the_page_of_curl_runs_as_written(several: Service, command: str) -> None:
    done = subprocess.run(
        ["bash", "-euc", command.replace("127.0.0.1:8000", several.rest)],
        capture_output=True,
        check=True,
        timeout=60,
    )
    for answer in done.stdout.replace(b"}{", b"}\n{").splitlines():
        assert "error" not in json.loads(answer)


def test_numbers_of_all_forms_equal_those_of_grpc(rope: Service) -> None:
    texts = ["join two paths", "Zürich", "x = 1"]
    with Client(rope.target) as client:
        expected = np.asarray(client.encode(texts))
    openai = post(rope, "/v1/embeddings", {"input": texts})["data"]
    weaviate = post(rope, "/vectors", {"texts": texts})["vectors"]
    for found in ([each["embedding"] for each in openai], weaviate):
        assert np.abs(np.asarray(found, dtype=np.float32) - expected).max() <= 1e-6
