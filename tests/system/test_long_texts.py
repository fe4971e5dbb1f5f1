"""A text far longer than the model takes is truncated alike by every interface."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from headlight import Client
from headlight.cli.commands import main
from headlight.runtime import Runtime
from headlight.runtime.tokenization.long_texts import CHARACTERS_PER_TOKEN
from tests.chaos.traffic.hostile import post
from tests.conftest import MakeBundle
from tests.system.processes import Service


def asked(service: Service, path: str, body: Mapping[str, Any]) -> Any:
    status, answer = post(service, path, body)
    assert status == 200, answer
    return json.loads(answer)


def test_truncation_gives_one_vector_for_a_long_text(
    tmp_path: Path, make_bundle: MakeBundle
) -> None:
    bundle = make_bundle("rope")
    text = "open a file, read 12 of 345. " * 690
    with Runtime(bundle) as runtime:
        assert len(text) > 20_000 > CHARACTERS_PER_TOKEN * runtime.model().max_length
        [expected] = runtime.encode([text], truncate="end")
    pq.write_table(pa.table({"body": [text, "a file"]}), tmp_path / "in.parquet")
    vectors = dict[str, Any]()

    def job(name: str, *options: str) -> None:
        out = tmp_path / f"{name}.parquet"
        command = ["embed", str(tmp_path / "in.parquet"), "--text-column", "body"]
        assert main([*command, *options, "--out", str(out)]) == 0
        table = pq.read_table(out)
        assert table.column("truncated").to_pylist() == [True, False]
        vectors[name] = table.column("embedding").to_pylist()[0]

    with Service(bundle) as service:
        [vectors["TEI"]] = asked(service, "/embed", {"inputs": text, "truncate": True})
        answer = asked(service, "/v1/embeddings", {"input": text, "truncate": "end"})
        vectors["OpenAI"] = answer["data"][0]["embedding"]
        with Client(service.target) as client:
            [vectors["gRPC"]] = client.encode([text], truncate="end")
        job("a job through the service", "--target", service.target, "--truncate", "end")
    job("a local job", "--local", str(bundle), "--truncate", "end")
    with Service(bundle, "--truncation", "end") as service:
        answer = asked(service, "/v1/embeddings", {"input": text})
        vectors["OpenAI, serve --truncation end"] = answer["data"][0]["embedding"]
        with Client(service.target) as client:
            [vectors["gRPC, serve --truncation end"]] = client.encode([text])
    for name, vector in vectors.items():
        np.testing.assert_allclose(vector, expected, atol=1e-5, rtol=0, err_msg=name)
