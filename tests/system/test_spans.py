"""Vectors of spans over the wire, against NumPy on PyTorch's token vectors."""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

from headlight import AsyncClient, Client, InvalidInput, SpanVectors, Windows
from headlight.pb import headlight_pb2 as pb
from headlight.pb import headlight_pb2_grpc as pb_grpc
from headlight.runtime.bundle.manifest import PREVIOUS_VERSION
from headlight.runtime.values import Floats
from headlight_model.checkpoint import load_checkpoint
from headlight_model.encoder import Encoder
from tests.factory import with_options
from tests.shipped import CHECKPOINTS
from tests.span_reference import SECOND, TEXT, expected_vectors
from tests.system.conftest import Small, bundle_of
from tests.system.processes import Service, exit_code

EXACT: Any = {"atol": 1e-5, "rtol": 0}
SAME: Any = {"atol": 1e-6, "rtol": 0}
LONG = " ".join(f"{TEXT} for the {number}. time." for number in range(200))
KINDS: list[Any] = ["sentences", Windows(6, 2), [[(0, 4), (2, 30)], [(0, len(SECOND))]]]


@pytest.fixture(scope="module")
def encoders() -> dict[str, Encoder]:
    return {name: load_checkpoint(CHECKPOINTS / name) for name in ("docs-rope", "docs-sinusoidal")}


def check(encoder: Encoder, found: list[SpanVectors]) -> None:
    for each in found:
        np.testing.assert_allclose(each.vectors, expected_vectors(encoder, each), **EXACT)


@pytest.mark.parametrize("spans", KINDS, ids=str)
def test_shipped_models_with_and_without_dense_layers(
    served: tuple[str, Service], encoders: dict[str, Encoder], spans: Any
) -> None:
    name, service = served
    with Client(service.target) as client:
        found = client.span_vectors([TEXT, SECOND], spans)
        check(encoders[name], found)
        for at, each in enumerate(found):
            own = [spans[at]] if isinstance(spans, list) else spans
            [alone] = client.span_vectors([(TEXT, SECOND)[at]], own)
            np.testing.assert_allclose(each.vectors, alone.vectors, **SAME)
            assert (each.characters, each.tokens) == (alone.characters, alone.tokens)


def test_a_whole_text_with_special_tokens_is_the_pooled_vector(
    served: tuple[str, Service],
) -> None:
    _, service = served
    with Client(service.target) as client:
        [found] = client.span_vectors([TEXT], [[(0, len(TEXT))]], include_special=True)
        np.testing.assert_allclose(found.vectors[0], client.encode(TEXT), **EXACT)


def test_small_models_of_all_positions(small: Small) -> None:
    _, service, encoder = small
    with Client(service.target) as client:
        inputs: list[Any] = [TEXT, SECOND]
        if "text" not in client.model().accepts:
            inputs = [list(range(5, 60)), [7]]
        found = client.span_vectors(inputs, Windows(9, 3), pooling="mean")
        check(encoder, found)
        if "text" in client.model().accepts:
            check(encoder, client.span_vectors(inputs, "sentences", pooling="mean", prompt="as: "))
            check(
                encoder,
                client.span_vectors([TEXT * 3], "sentences", pooling="mean", truncate="end"),
            )


def test_both_clients_and_both_ways_give_the_same(rope: Service) -> None:
    """One answer of Encode, and frames of a stream whose spans take several chunks."""
    texts = [LONG, TEXT]

    async def ask() -> list[SpanVectors]:
        async with AsyncClient(rope.target) as client:
            return await client.span_vectors(texts, Windows(3, 1), beyond_max_length=True)

    with Client(rope.target) as client, grpc.insecure_channel(rope.target) as channel:
        found = client.span_vectors(texts, Windows(3, 1), beyond_max_length=True)
        stub = pb_grpc.HeadlightServiceStub(channel)
        spans = pb.SpansOutput(windows=pb.TokenWindows(size=3, overlap=1), beyond_max_length=True)
        request = pb.EncodeRequest(
            inputs=[pb.Input(text=text) for text in texts], outputs=pb.Outputs(spans=spans)
        )
        dry = pb.EncodeRequest()
        dry.CopyFrom(request)
        dry.dry_run = True
        told = stub.Encode(dry)
        assert told.data_bytes == sum(each.vectors.nbytes for each in found) > 1 << 20
        assert [len(places.token_starts) for places in told.span_places] == [*map(len, found)]
        frames = list(stub.EncodeStream(iter([pb.EncodeStreamRequest(id="a", encode=request)])))
        chunks = [frame.chunk for frame in frames if frame.HasField("chunk")]
        assert {chunk.output for chunk in chunks} == {pb.OUTPUT_KIND_SPANS}
        assert len(chunks) > 2
        data = b"".join(chunk.data for chunk in chunks)
    assert found[0].window_starts
    assert not found[1].window_starts
    for each, other in zip(found, asyncio.run(ask()), strict=True):
        np.testing.assert_allclose(each.vectors, other.vectors, **SAME)
        assert each.token_ranges == other.token_ranges
    flat = np.concatenate([each.vectors.ravel() for each in found])
    np.testing.assert_allclose(np.frombuffer(data, "<f4"), flat, **SAME)


def test_long_texts_are_read_in_windows_of_the_longest_input(
    rope: Service, encoders: dict[str, Encoder]
) -> None:
    with Client(rope.target) as client:
        [found] = client.span_vectors([LONG], "sentences", beyond_max_length=True)
        limit = client.model().max_length
    tokens, starts = found.tokens, found.window_starts
    assert len(tokens) > 2 * limit
    # In the middle of its window, a token's vector is that of the window alone.
    start = starts[1]
    ids = [tokens.ids[0], *tokens.ids[start : start + limit - 2], tokens.ids[-1]]
    from tests.span_reference import behind_pooling, pytorch_tokens

    vectors: Floats = pytorch_tokens(encoders["docs-rope"], ids)
    middle = start + limit // 2
    at = next(at for at, own in enumerate(found.token_ranges) if own.start >= middle)
    own = [token - start + 1 for token in found.token_ranges[at]]
    expected = behind_pooling(encoders["docs-rope"], vectors[own].mean(axis=0, keepdims=True))
    np.testing.assert_allclose(found.vectors[at], expected[0], **EXACT)


def test_many_texts_with_their_own_spans(rope: Service) -> None:
    texts = [f"{SECOND} {number}" for number in range(700)]
    spans = [[(number % 3, 8)] for number in range(700)]
    with Client(rope.target) as client:
        found = client.span_vectors(texts, spans)
        assert [each.characters[0][:2] for each in found] == [each[0] for each in spans]
        spans[650] = [(4, 5)]
        with pytest.raises(InvalidInput, match=r"given.inputs\[650\].spans\[0\]: shares no"):
            client.span_vectors(texts, spans)
        with pytest.raises(InvalidInput, match=r"inputs\[650\].ids: needs a single text"):
            client.span_vectors([*texts[:650], [5, 6], *texts[651:]], "sentences")
        # More spans than a request may have go into several.
        many = client.span_vectors([SECOND] * 4, [[(0, 8)] * 9_000] * 4, dimensions=1)
        assert [len(each) for each in many] == [9_000] * 4
        with grpc.insecure_channel(rope.target) as channel:
            lists = [pb.TextSpans(spans=[pb.TextSpan(end=8)] * 9_000)] * 4
            spans_of_all = pb.SpansOutput(given=pb.GivenSpans(inputs=lists), dimensions=1)
            request = pb.EncodeRequest(
                inputs=[pb.Input(text=SECOND)] * 4, outputs=pb.Outputs(spans=spans_of_all)
            )
            with pytest.raises(grpc.RpcError) as error:
                pb_grpc.HeadlightServiceStub(channel).Encode(request)
            assert "outputs.spans: has 36000 spans; at most 16384 a request" in str(error.value)


def test_an_older_bundle_refuses_spans_alone(tmp_path: Any) -> None:
    bundle = bundle_of("docs-rope")
    graphs = json.loads((bundle / "manifest.json").read_text())["graphs"]
    older = with_options(
        bundle,
        tmp_path / "older",
        graphs=[graph for graph in graphs if graph["role"] != "head"],
        dense_layers=None,
        format_version=PREVIOUS_VERSION,
    )
    with Service(older) as service, Client(service.target) as client:
        assert "spans" not in client.model().outputs
        assert client.encode(SECOND).shape == (256,)
        with pytest.raises(InvalidInput, match="headlight export MODEL --out BUNDLE"):
            client.span_vectors([SECOND], "sentences")


def post(service: Service, outputs: dict[str, Any], text: str = TEXT) -> Any:
    body = json.dumps({"inputs": [{"text": text}], "outputs": outputs}).encode()
    request = urllib.request.Request(
        f"http://{service.rest}/v1/encode", body, {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as response:
        return json.load(response)


@pytest.mark.parametrize(
    ("outputs", "problem"),
    [
        ({"spans": {"sentences": {}, "windows": {"size": 1}}}, "is set, and so is sentences"),
        ({"spans": {"windows": {}}}, "outputs.spans.windows.size: is 0"),
        ({"spans": {"given": {"inputs": [{}]}}}, "given.inputs[0]: has 0 spans"),
        (
            {"spans": {"sentences": {}, "beyond_max_length": True}, "pooled": {}},
            "outputs.spans.beyond_max_length: takes no other outputs than token_info",
        ),
        (
            {"spans": {"sentences": {}, "pooling": "cls"}},
            "outputs.spans.pooling: is 'cls'; must be one of mean",
        ),
    ],
)
def test_http_refuses_by_name(rope: Service, outputs: dict[str, Any], problem: str) -> None:
    with pytest.raises(urllib.error.HTTPError) as error:
        post(rope, outputs)
    assert error.value.code == 400
    assert problem in error.value.read().decode()


def test_bytes_of_spans_are_counted(rope: Service) -> None:
    before = rope.counted('headlight_output_bytes_total{model="docs-rope",output="spans"}')
    with Client(rope.target) as client:
        [found] = client.span_vectors([TEXT], "sentences", dtype="float16")
    after = rope.counted('headlight_output_bytes_total{model="docs-rope",output="spans"}')
    assert after - before == found.vectors.nbytes


def test_the_command_line_writes_a_line_for_each_span(rope: Service, tmp_path: Path) -> None:
    out = tmp_path / "spans.jsonl"
    for spans in ("sentences", "6:2"):
        options = ("--spans", spans, "--out", str(out), "--target", rope.target)
        assert exit_code("embed", TEXT, SECOND, *options) == 0
        lines = [json.loads(line) for line in out.read_text().splitlines()]
        with Client(rope.target) as client:
            kind: Any = Windows(6, 2) if spans == "6:2" else "sentences"
            found = client.span_vectors([TEXT, SECOND], kind)
        assert [line["text"] for line in lines] == [0] * len(found[0]) + [1] * len(found[1])
        characters = [span[:2] for each in found for span in each.characters]
        assert [(line["start"], line["end"]) for line in lines] == characters
        vectors = np.array([line["embedding"] for line in lines])
        whole = np.concatenate([each.vectors for each in found])
        np.testing.assert_allclose(vectors, whole, **SAME)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--spans", "words"], "is not sentences, N or N:OVERLAP, as 64:16"),
        (["--spans", "sentences", "--format", "npy", "--out", "a.npy"], "use --format jsonl"),
        (["--spans", "4", "--dtype", "int8"], "one --dtype, float32 or float16"),
        (["--spans", "4:4"], "--spans OVERLAP: is 4; must be from 0 to 3"),
        (["--spans", "4", "--progress"], "--progress: is not for --spans; leave it out"),
        (["--spans", "4", "--retry-for", "2"], "--retry-for: is not for --spans; leave it out"),
        (["--beyond-max-length"], "--beyond-max-length: needs --spans"),
    ],
)
def test_the_command_line_refuses_by_option(
    rope: Service, options: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code("embed", TEXT, *options, "--target", rope.target) == 2
    assert problem in capsys.readouterr().err
