"""Empty texts: one policy for service, request, command line and this process."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headlight import Client, InvalidInput
from headlight.cli.commands import main
from headlight.runtime import Runtime
from tests.system.conftest import bundle_of
from tests.system.processes import Service

TEXTS = ["open a file", ""]


def post(service: Service, path: str, body: Any) -> Any:
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(
        f"http://{service.rest}{path}", json.dumps(body).encode(), headers
    )
    with urllib.request.urlopen(request, timeout=30) as reply:
        return json.load(reply)


def test_an_empty_text_is_refused_by_its_index_unless_a_request_says_encode(
    rope: Service,
) -> None:
    with Client(rope.target) as client, Runtime(bundle_of("docs-rope")) as runtime:
        for encoder in (client, runtime):
            with pytest.raises(InvalidInput, match=r"inputs\[1\].text: is empty"):
                encoder.encode(TEXTS)
        vectors = client.encode(TEXTS, empty_texts="encode")
        np.testing.assert_allclose(vectors, runtime.encode(TEXTS, empty_texts="encode"), atol=1e-5)
        [special] = runtime.token_vectors("", empty_texts="encode")
        assert special.tokens.pieces == ("[CLS]", "[SEP]")
        np.testing.assert_allclose(
            vectors[1], runtime.encode([list(special.tokens.ids)])[0], atol=1e-5
        )


def test_the_service_option_holds_for_every_api(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle = bundle_of("docs-rope")
    with (
        Service(bundle, "--empty-texts", "encode", "--api", "127.0.0.1:0") as service,
        Client(service.target) as client,
    ):
        expected = client.encode(TEXTS)
        with pytest.raises(InvalidInput, match="is empty"):
            client.encode(TEXTS, empty_texts="refuse")
        openai = post(service, "/v1/embeddings", {"input": TEXTS})["data"]
        for vectors in (
            [each["embedding"] for each in openai],
            post(service, "/embed", {"inputs": TEXTS}),
        ):
            np.testing.assert_allclose(vectors, expected, atol=1e-5)
        lines = tmp_path / "texts.txt"
        lines.write_text("open a file\n\n")
        options = ["--file", str(lines), "--format", "json", "--target", service.target]
        assert main(["embed", *options]) == 2
        assert "line 2: is empty" in capsys.readouterr().err
        assert main(["embed", *options, "--empty-texts", "encode"]) == 0
