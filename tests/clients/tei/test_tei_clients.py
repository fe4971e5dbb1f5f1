"""Clients of text-embeddings-inference against a real service: numbers, lists, errors."""

from __future__ import annotations

import asyncio
import importlib
import importlib.metadata
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from huggingface_hub import AsyncInferenceClient, InferenceClient
from huggingface_hub.errors import HfHubHTTPError, InferenceTimeoutError

from headlight import Client
from tests.clients.abandoned import LONG, SOON, abandoned, cancel_at_work
from tests.clients.conftest import DOCUMENTS, QUERY, Ranks
from tests.clients.overload import BUSY, QUEUE, refusals, twelve_at_once
from tests.clients.tei.conftest import BUNDLE, MANY, TEXTS
from tests.system.processes import ROOT, Service

PAGES = ROOT / "docs/clients"
REQUIREMENTS = Path(__file__).with_name("requirements.txt")
VERSIONS = {"huggingface_hub": "2.4.0"}  # of constraints.txt
TOKEN = "0123456789" * 4


@pytest.fixture(scope="module")
def hub(service: Service) -> InferenceClient:
    return InferenceClient(f"http://{service.rest}", token="any")


def test_the_versions_are_those_of_the_requirements() -> None:
    lines = REQUIREMENTS.read_text(encoding="utf-8").splitlines()
    pinned = dict(line.split("==") for line in lines if not line.startswith("#"))
    for name, version in (pinned | VERSIONS).items():
        assert importlib.metadata.version(name) == version


@pytest.mark.parametrize("page", ["huggingface-hub", "haystack"])
def test_the_page_runs_as_written(several: Service, ranks: Ranks, page: str) -> None:
    text = (PAGES / f"{page}.md").read_text(encoding="utf-8")
    program = "\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL))
    program = program.replace("127.0.0.1:50051", several.target)
    program = program.replace("http://127.0.0.1:8000", f"http://{several.rest}")
    shown = {
        "huggingface-hub": "print(vectors.shape, short.shape, len(likeness), len(labels))",
        "haystack": (
            "import numpy\n"
            "rows = [[len(each.embedding) for each in rows] for rows in (embedded, streamed)]\n"
            "numpy.testing.assert_allclose(\n"
            "    [e.embedding for e in embedded], [e.embedding for e in streamed], atol=1e-6)\n"
            "print(rows, len(vector), [texts.index(each.content) for each in ranked])\n"
            "streaming.close()"
        ),
    }
    done = subprocess.run(
        [sys.executable, "-c", f"{program}\n{shown[page]}"],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
        env={"HAYSTACK_TELEMETRY_ENABLED": "False", "PATH": "/usr/bin"},
    )
    assert done.returncode == 0, done.stderr
    best = [at for at, _ in ranks[:2]]
    results = {
        "huggingface-hub": "(2, 256) (1, 128) 2 2",
        "haystack": f"[[256, 256], [256, 256]] 256 {best}",
    }
    assert done.stdout.splitlines()[-1] == results[page]


def test_the_hub_client_gets_the_numbers_of_ours(hub: InferenceClient, expected: Any) -> None:
    np.testing.assert_allclose(hub.feature_extraction(TEXTS), expected, atol=1e-6)
    single = hub.feature_extraction(TEXTS[2], normalize=True, truncate=True)
    np.testing.assert_allclose(single, expected[2:], atol=1e-6)
    likeness = hub.sentence_similarity(TEXTS[0], TEXTS[1:])
    np.testing.assert_allclose(likeness, expected[1:] @ expected[0], atol=1e-6)


def test_the_hub_client_gets_the_longest_list(hub: InferenceClient, service: Service) -> None:
    many = [f"read file number {place}" for place in range(MANY)]
    with Client(service.target) as own:
        np.testing.assert_allclose(
            hub.feature_extraction(many), own.encode(many, normalize=True), atol=1e-6
        )
    with pytest.raises(HfHubHTTPError) as error:
        hub.feature_extraction([*many, "one more"])
    assert error.value.response.status_code == 422
    assert error.value.response.json()["error"] == "inputs: has 2049 entries; give 1 to 2048"


async def test_the_asyncio_hub_client(service: Service, expected: Any) -> None:
    client = AsyncInferenceClient(f"http://{service.rest}", token="any")
    try:
        found = await asyncio.gather(*(client.feature_extraction(text) for text in TEXTS))
    finally:
        await client.close()  # type: ignore[no-untyped-call]
    np.testing.assert_allclose(np.concatenate(found), expected, atol=1e-6)


def test_errors_of_the_hub_client(hub: InferenceClient) -> None:
    for text, status, kind in (("", 400, "Empty"), ("path " * 3000, 422, "Validation")):
        with pytest.raises(HfHubHTTPError) as error:
            hub.feature_extraction(text)
        assert error.value.response.status_code == status
        assert error.value.response.json()["error_type"] == kind


def test_the_hub_client_raises_what_is_refused_for_load() -> None:
    """It does not retry; the error has the delay after which it may."""
    with Service(BUNDLE, *QUEUE) as service:
        client = InferenceClient(f"http://{service.rest}", token="any")
        answers = twelve_at_once(service, lambda: client.feature_extraction(BUSY))
        errors = [each for each in answers if isinstance(each, HfHubHTTPError)]
        assert len(errors) == refusals(service)
    assert {each.response.status_code for each in errors} == {429}
    assert all(int(each.response.headers["retry-after"]) > 0 for each in errors)


def test_a_timeout_of_the_hub_client_ends_the_work(hub: InferenceClient, service: Service) -> None:
    hasty = InferenceClient(f"http://{service.rest}", token="any", timeout=SOON)
    with abandoned(service, "tei", "/"), pytest.raises(InferenceTimeoutError):
        hasty.feature_extraction(LONG)
    assert hub.feature_extraction("a").shape == (1, 256)


async def test_a_cancelled_task_of_the_hub_client_ends_the_work(service: Service) -> None:
    async with AsyncInferenceClient(f"http://{service.rest}", token="any") as client:
        with abandoned(service, "tei", "/"):
            await cancel_at_work(service, client.feature_extraction(LONG))
        assert (await client.feature_extraction("a")).shape == (1, 256)


async def test_a_cancelled_task_of_haystack_ends_the_work(service: Service) -> None:
    from haystack import Document  # takes seconds to import
    from haystack_integrations.components.embedders.huggingface_api import (
        HuggingFaceAPIDocumentEmbedder,
    )

    embedder = HuggingFaceAPIDocumentEmbedder(
        api_type="text_embeddings_inference",
        api_params={"url": f"http://{service.rest}"},
        batch_size=len(LONG),
        concurrency_limit=1,
        progress_bar=False,
    )
    documents = [Document(content=f"{place} {text}") for place, text in enumerate(LONG)]
    with abandoned(service, "tei", "/"):
        await cancel_at_work(service, embedder.run_async(documents))
    found = await embedder.run_async([Document(content="a")])
    assert len(found["documents"][0].embedding) == 256
    await embedder.close_async()


def test_haystack_ranks_documents(several: Service, ranks: Ranks) -> None:
    from haystack import Document  # takes seconds to import
    from haystack_integrations.components.rankers.huggingface_api import HuggingFaceTEIRanker

    ranker = HuggingFaceTEIRanker(url=f"http://{several.rest}")
    documents = [Document(content=each) for each in DOCUMENTS]
    ranked = ranker.run(QUERY, documents)["documents"]
    assert [(DOCUMENTS.index(each.content), each.score) for each in ranked] == ranks
    with pytest.raises(Exception, match="query: is empty"):
        ranker.run("", documents)
    ranker.close()


# Haystack registers stubs of its own, which those of `test_tei_stubs` cannot stand beside.
RANKED_OVER_GRPC = """
import json, sys
from haystack import Document
from haystack_integrations.components.rankers.huggingface_api import HuggingFaceTEIRanker
url, query, *texts = sys.argv[1:]
ranker = HuggingFaceTEIRanker(url=url, use_grpc=True)
ranked = ranker.run(query, [Document(content=each) for each in texts])["documents"]
print(json.dumps([(texts.index(each.content), each.score) for each in ranked]))
ranker.close()
"""


def test_haystack_ranks_documents_over_grpc(several: Service, ranks: Ranks) -> None:
    command = [sys.executable, "-c", RANKED_OVER_GRPC, several.target, QUERY, *DOCUMENTS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert [tuple(each) for each in json.loads(done.stdout)] == ranks


def test_the_hub_client_classifies(several: Service) -> None:
    with Client(several.target, model="classifier") as client:
        [expected] = client.classify(["parse a date"])
    hub = InferenceClient(f"http://{several.rest}/predict", token="any")
    labels = hub.text_classification("parse a date")
    assert [each.label for each in labels] == [each.label for each in expected]
    scores = [each.score for each in expected]
    np.testing.assert_allclose([each.score for each in labels], scores, atol=1e-6)
    [raw] = hub.text_classification("parse a date", function_to_apply="none", top_k=1)
    assert raw.score == pytest.approx(expected[0].logit, abs=1e-5)
    with pytest.raises(HfHubHTTPError, match="422"):
        hub.text_classification("parse a date", function_to_apply="sigmoid")


def test_the_hub_client_with_a_token(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text(f"reader {TOKEN}\n", encoding="ascii")
    tokens.chmod(0o600)
    with Service(BUNDLE, "--auth-tokens", str(tokens)) as service:
        known = InferenceClient(f"http://{service.rest}", token=TOKEN)
        assert known.feature_extraction("a").shape == (1, 256)
        with pytest.raises(HfHubHTTPError) as error:
            InferenceClient(f"http://{service.rest}", token="wrong").feature_extraction("a")
        assert error.value.response.status_code == 401
