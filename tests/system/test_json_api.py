"""The contract as JSON, of a shipped model: the numbers of gRPC, and the examples of the docs."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

from headlight.outputs.registry import OUTPUTS as EVERY
from headlight.pb import headlight_pb2 as pb
from headlight.pb import headlight_pb2_grpc as pb_grpc
from headlight_service.frontends.contract.json_encoding import json_value
from tests.system.processes import ROOT, Service

TEXTS = ("join two paths of a file system", "Größe 😀 of a file", "x")
RAGGED = [name for each in EVERY.values() if not each.stacked for name in each.tensor_names]


def attention(**fields: Any) -> pb.Outputs:
    return pb.Outputs(attention=pb.AttentionOutput(**fields))


SPAN = pb.TokenSelector(span=pb.TextSpan(start=0, end=1))
OUTPUTS = {
    "default": pb.Outputs(),
    "types": pb.Outputs(
        pooled=pb.PooledOutput(
            dimensions=64, dtypes=[pb.DATA_TYPE_FLOAT32, pb.DATA_TYPE_FLOAT16, pb.DATA_TYPE_BINARY]
        )
    ),
    "tokens": pb.Outputs(tokens=pb.TokensOutput(skip_special=True, normalize=True)),
    "hidden": pb.Outputs(hidden=pb.HiddenOutput(layers=[0, -1], tokens=SPAN)),
    "info": pb.Outputs(token_info=pb.TokenInfoOutput()),
    "everything": pb.Outputs(
        pooled=pb.PooledOutput(),
        tokens=pb.TokensOutput(dtype=pb.DATA_TYPE_FLOAT16),
        attention=pb.AttentionOutput(),
        hidden=pb.HiddenOutput(),
        token_info=pb.TokenInfoOutput(),
    ),
    "rows": attention(queries=SPAN, layers=[-1]),
    "pairs": attention(pairs=[pb.LayerHead(layer=0, head=1), pb.LayerHead(layer=-1, head=-1)]),
    "top_k": attention(top_k=3, dtype=pb.DATA_TYPE_UINT8),
    "mean": attention(reduce=[pb.REDUCTION_HEAD_MEAN, pb.REDUCTION_LAYER_MEAN]),
    "rollout": attention(reduce=[pb.REDUCTION_ROLLOUT]),
    "pooling": attention(reduce=[pb.REDUCTION_POOLING_WEIGHTS], dtype=pb.DATA_TYPE_FLOAT16),
    "statistics": attention(reduce=[pb.REDUCTION_STATISTICS]),
    "words": attention(unit=pb.UNIT_WORD, drop_special=True),
    "scores": attention(scores=True, heads=[0]),
    "sentences": pb.Outputs(
        spans=pb.SpansOutput(sentences=pb.SentenceSpans(), dtype=pb.DATA_TYPE_FLOAT16)
    ),
    "windows": pb.Outputs(
        spans=pb.SpansOutput(windows=pb.TokenWindows(size=2, overlap=1), beyond_max_length=True)
    ),
    "given": pb.Outputs(
        pooled=pb.PooledOutput(),
        spans=pb.SpansOutput(
            given=pb.GivenSpans(
                inputs=[pb.TextSpans(spans=[pb.TextSpan(start=0, end=1)]) for _ in TEXTS]
            ),
            dimensions=8,
        ),
    ),
}
TYPES = {
    "DATA_TYPE_FLOAT32": "<f4",
    "DATA_TYPE_FLOAT16": "<f2",
    "DATA_TYPE_UINT8": "u1",
    "DATA_TYPE_UINT16": "<u2",
    "DATA_TYPE_BINARY": "i1",
}


class Rest:
    """A service with its HTTP frontend."""

    def __init__(self, service: Service) -> None:
        self.address = service.rest
        self._channel = grpc.insecure_channel(service.target)
        self.stub = pb_grpc.HeadlightServiceStub(self._channel)

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        content = json.dumps(body).encode()
        request = urllib.request.Request(
            f"http://{self.address}{path}", content, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=60) as response:
            answer: dict[str, Any] = json.loads(response.read())
        return answer

    def close(self) -> None:
        self._channel.close()


@pytest.fixture(scope="module")
def rest(rope: Service) -> Iterator[Rest]:
    served = Rest(rope)
    yield served
    served.close()


def flat(nested: Any) -> list[Any]:
    if not isinstance(nested, list):
        return [nested]
    return [each for part in nested for each in flat(part)]


@pytest.mark.parametrize("name", OUTPUTS)
def test_numbers_are_those_of_grpc(rest: Rest, name: str) -> None:
    inputs = [pb.Input(text=text) for text in TEXTS]
    request = pb.EncodeRequest(inputs=inputs, outputs=OUTPUTS[name])
    expected, body = json_value(rest.stub.Encode(request)), json_value(request)
    exact, lists = (
        rest.post("/v1/encode", {**body, "encoding": encoding}) for encoding in ("base64", "list")
    )
    for each in (expected, exact, lists):
        del each["timings"]
    assert exact == expected
    for field in set(RAGGED) & set(expected):
        shapes = [tuple(shape["sizes"]) for shape in lists[field]["shapes"]]
        assert [np.shape(each) for each in lists[field]["data"]] == shapes
    tensors = [(lists[field], expected[field]) for field in RAGGED if field in expected]
    for found, same in [*tensors, *zip(lists["pooled"], expected["pooled"], strict=True)]:
        data = np.frombuffer(base64.b64decode(same.pop("data")), TYPES[same["dtype"]])
        # The shortest decimals read back exactly.
        np.testing.assert_array_equal(np.array(flat(found.pop("data")), data.dtype), data)
    assert lists == expected


def test_offsets_count_code_points(rest: Rest) -> None:
    body = {"inputs": [{"text": TEXTS[1]}], "outputs": {"token_info": {}}}
    tokens = rest.post("/v1/encode", body)["items"][0]["tokens"]
    words = [TEXTS[1][a:b] for a, b in zip(tokens["starts"], tokens["ends"], strict=True)]
    assert "".join(words) == TEXTS[1].replace(" ", "")


def test_occlusion_is_that_of_grpc(rest: Rest) -> None:
    request = pb.OccludeRequest(input=pb.Input(text=TEXTS[0]))
    answer = rest.post("/v1/occlude", json_value(request))
    expected = rest.stub.Occlude(request)
    # The scheduler may divide the encodings of one call into other batches than those of the other,
    # and the last bit of a vector depends on its batch.
    np.testing.assert_allclose(
        answer["moved"].pop("data"), np.frombuffer(expected.moved.data, "<f4"), atol=1e-6
    )
    expected.moved.ClearField("data")
    exact = json_value(expected)
    exact["moved"].pop("data", None)
    assert answer == exact


def test_an_answer_above_the_limit_of_grpc_is_sent(rest: Rest) -> None:
    """16 MiB of attention, as text, beside other requests."""
    length = 362
    body = {
        "inputs": [{"ids": {"ids": [7] * length}}],
        "outputs": {"attention": {}},
    }
    answer = rest.post("/v1/encode", body)
    attention = np.array(answer["attention"]["data"][0], np.float32)
    assert attention.nbytes == answer["data_bytes"] > 4 << 20
    np.testing.assert_allclose(attention.sum(-1), 1, atol=1e-4)


def code_of(page: str, language: str) -> list[str]:
    """Return the blocks of code of a page."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)


def test_the_typescript_example_prints_attention(rest: Rest, tmp_path: Path) -> None:
    program = tmp_path / "attention.mjs"
    example, _ = code_of("clients/typescript.md", "js")
    program.write_text(example, encoding="utf-8")
    command = ["node", str(program), f"http://{rest.address}"]
    ran = run(*command, TEXTS[0])
    assert ran.returncode == 0, ran.stderr
    lines = ran.stdout.splitlines()
    body = {"inputs": [{"text": TEXTS[0]}], "outputs": {"token_info": {}}}
    pieces = rest.post("/v1/encode", body)["items"][0]["tokens"]["pieces"]
    assert [line.partition(": ")[0] for line in lines] == pieces
    for line in lines:
        weights = [float(each) for each in re.findall(r" (\d\.\d{3})(?:,|$)", line)]
        assert len(weights) == 3
        assert weights == sorted(weights, reverse=True)
    ran = run(*command, "")
    assert ran.returncode == 1
    assert "INVALID_ARGUMENT: inputs[0].text: is empty" in ran.stderr


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_curl_examples_have_answers(rest: Rest) -> None:
    attention, occlusion, model, dry, shown = (
        json.loads(run("sh", "-c", each.replace("127.0.0.1:8000", rest.address)).stdout)
        for page in ("clients/curl.md", "json-api.md")
        for each in code_of(page, "sh")
        if re.search(r"/v1/(encode|occlude|model)\b(?!s)", each)
    )
    [weights] = attention["attention"]["data"]
    np.testing.assert_allclose(np.sum(weights, axis=-1), 1, atol=1e-5)
    assert len(occlusion["moved"]["data"]) == len(occlusion["tokens"])
    assert model["model"] == attention["model"]
    assert dry["data_bytes"] == 4 * dry["attention"]["offsets"][-1]
    assert shown["attention"]["dtype"] == "DATA_TYPE_FLOAT16"
