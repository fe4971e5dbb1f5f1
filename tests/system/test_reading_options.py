"""Empty texts and spelled-out special tokens: options of the service, and those of a request."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headlight import AttentionSpec, Client, InvalidInput
from headlight.cli.commands import main
from headlight.runtime import Runtime
from tests.system.conftest import bundle_of
from tests.system.processes import Service

TEXTS = ["open a file", ""]
SPELLED = "open [SEP] file"


@pytest.fixture(scope="module")
def other() -> Iterator[Service]:
    """Return a service whose options differ from the defaults."""
    options = ("--special-tokens", "text", "--empty-texts", "encode")
    with Service(bundle_of("docs-rope"), *options) as running:
        yield running


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


def test_the_service_option_encodes_empty_texts_for_every_api(
    other: Service, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Client(other.target) as client:
        expected = client.encode(TEXTS)
        with pytest.raises(InvalidInput, match="is empty"):
            client.encode(TEXTS, empty_texts="refuse")
        openai = post(other, "/v1/embeddings", {"input": TEXTS})["data"]
        for vectors in (
            [each["embedding"] for each in openai],
            post(other, "/embed", {"inputs": TEXTS}),
        ):
            np.testing.assert_allclose(vectors, expected, atol=1e-5)
        lines = tmp_path / "texts.txt"
        lines.write_text("open a file\n\n")
        options = ["--file", str(lines), "--format", "json", "--target", other.target]
        assert main(["embed", *options]) == 2
        assert "line 2: is empty" in capsys.readouterr().err
        assert main(["embed", *options, "--empty-texts", "encode"]) == 0


def test_special_tokens_are_parsed_unless_a_request_says_text(rope: Service) -> None:
    with Client(rope.target) as client:
        assert client.model().special_tokens == "parse"
        [parsed], [plain] = (
            client.tokenize(SPELLED),
            client.tokenize(SPELLED, special_tokens="text"),
        )
        assert parsed.pieces == ("[CLS]", "open", "[SEP]", "file", "[SEP]")
        assert parsed.special == (True, False, True, False, True)
        assert (parsed.starts[2], parsed.ends[2]) == (5, 10)
        assert [at for at, special in enumerate(plain.special) if special] == [0, len(plain) - 1]
        assert plain.ids.count(parsed.ids[2]) == 1
        one, other = client.encode([SPELLED]), client.encode([SPELLED], special_tokens="text")
        assert one.tolist() == client.encode([list(parsed.ids)]).tolist()
        assert other.tolist() == client.encode([list(plain.ids)]).tolist()
        assert client.occlusion(SPELLED).places == (1, 3)
        assert len(client.occlusion(SPELLED, special_tokens="text").places) == len(plain) - 2
        spec = AttentionSpec.of(-1, drop_special=True)
        [without], [whole] = (
            client.attention(SPELLED, spec),
            client.attention(SPELLED, spec, special_tokens="text"),
        )
        assert without.values.shape[-2:] == (2, 2)
        assert whole.values.shape[-2:] == (len(plain) - 2,) * 2


def test_the_service_option_reads_special_tokens_as_text(
    other: Service, capsys: pytest.CaptureFixture[str]
) -> None:
    with Client(other.target) as client:
        assert client.model().special_tokens == "text"
        [usual], [parsed] = (
            client.tokenize(SPELLED),
            client.tokenize(SPELLED, special_tokens="parse"),
        )
        assert sum(usual.special) == 2
        assert sum(parsed.special) == 3
        assert main(["tokens", SPELLED, "--special-tokens", "parse", "--target", other.target]) == 0
        assert capsys.readouterr().out.count("(special)") == 3
        assert main(["info", "--target", other.target]) == 0
        assert "special tokens" in capsys.readouterr().out
