"""Every embedding option over the wire, of a trained model, against NumPy on PyTorch's vectors."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import grpc
import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from headlight import AsyncClient, AttentionSpec, Client, InvalidInput, Span
from headlight.pb import headlight_pb2 as pb
from headlight.pb import headlight_pb2_grpc as pb_grpc
from headlight.runtime.values import Floats
from headlight.spec import VectorType
from headlight.wire.reassembly import Answer, Assembly
from headlight_model.checkpoint import load_checkpoint
from tests.factory import with_options
from tests.headlight.expecting import expecting
from tests.shipped import DIM, DOCS_ROPE, TRAINED_DIMENSIONS
from tests.system.conftest import bundle_of
from tests.system.processes import Service

TEXTS = [
    "join two paths",
    "split the extension from a path name",
    "a",
    "wait for all threads to finish, then go on",
]
PROMPTS = {"query": "what is to be done: ", "passage": "text:", "none": ""}
WIDTHS = (64, DIM)
TYPES: tuple[VectorType, ...] = ("int8", "float32", "ubinary", "float16", "binary")


@pytest.fixture(scope="module")
def whole(rope: Service) -> Floats:
    """Return PyTorch's vectors before truncation and normalisation, float32 [N, D]."""
    encoder = load_checkpoint(DOCS_ROPE)
    encoder.config = dataclasses.replace(encoder.config, normalize=False)
    with Client(rope.target) as client, torch.inference_mode():
        ids = [torch.tensor([tokens.ids]) for tokens in client.tokenize(TEXTS)]
        rows: Floats = torch.cat([encoder(each).pooled for each in ids]).numpy()
    return rows


def scaled(rows: NDArray[Any]) -> NDArray[Any]:
    lengths: NDArray[np.float64] = np.linalg.norm(rows.astype(np.float64), axis=-1, keepdims=True)
    unit: NDArray[Any] = rows / lengths
    return unit


@pytest.fixture(scope="module")
def ranges(whole: Floats) -> dict[str, Floats]:
    """Return the ranges of all texts but the first, whose values exceed them."""
    found = {}
    for width in WIDTHS:
        rows = scaled(whole[1:, :width]).astype(np.float32)
        found[f"int8_{width}"] = np.stack([rows.min(0), rows.max(0)])
    return found


@pytest.fixture(scope="module")
def service(
    ranges: dict[str, Floats], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    target = tmp_path_factory.mktemp("options") / "bundle"
    options: dict[str, Any] = {
        "prompts": PROMPTS,
        "default_prompt": "passage",
        "dimensions": [64],
        "similarity": "dot",
    }
    with Service(with_options(bundle_of("docs-rope"), target, ranges, **options)) as running:
        yield running


@pytest.fixture(scope="module")
def client(service: Service) -> Iterator[Client]:
    with Client(service.target, timeout=60) as connected:
        yield connected


@pytest.mark.parametrize("width", [1, 3, 64, 100, DIM, None])
@pytest.mark.parametrize("unit", [True, False, None])
def test_vectors_are_truncated_then_normalised(
    client: Client, whole: Floats, width: int | None, unit: bool | None
) -> None:
    got = client.encode(TEXTS, dimensions=width, normalize=unit, prompt="")
    cut = whole[:, :width]
    assert got.dtype == np.float32
    if unit is False:
        np.testing.assert_allclose(
            got, cut, atol=1e-5 * np.linalg.norm(whole, axis=1).max(), rtol=0
        )
    else:
        tolerance = 1e-5 * (np.linalg.norm(whole, axis=1) / np.linalg.norm(cut, axis=1)).max()
        np.testing.assert_allclose(got, scaled(cut), atol=tolerance, rtol=0)
        np.testing.assert_allclose(np.linalg.norm(got, axis=1), 1, atol=1e-6)


@pytest.mark.parametrize("width", WIDTHS)
def test_all_types_in_one_answer(client: Client, ranges: dict[str, Floats], width: int) -> None:
    found = client.encode_with_info(TEXTS, dimensions=width, dtype=TYPES, prompt="")
    assert tuple(found.by_type) == TYPES
    exact = found.by_type["float32"]
    np.testing.assert_array_equal(exact, client.encode(TEXTS, dimensions=width, prompt=""))
    np.testing.assert_array_equal(found.by_type["float16"], exact.astype(np.float16))
    least, most = ranges[f"int8_{width}"]
    steps = np.where(most == least, 1, (most - least) / np.float32(255))
    counted = np.clip(np.floor((exact - least) / steps), 0, 255) - 128
    np.testing.assert_array_equal(found.by_type["int8"], counted.astype(np.int8))
    assert (np.abs(found.by_type["int8"][0].astype(int)) >= 127).any(), (
        "the first text leaves the ranges"
    )
    bits = np.packbits(exact > 0, axis=-1)
    np.testing.assert_array_equal(found.by_type["ubinary"], bits)
    np.testing.assert_array_equal(found.by_type["binary"].astype(int), bits.astype(int) - 128)


def test_every_form_is_independent_of_the_batch(client: Client) -> None:
    others = [" ".join(f"word{i} number {j}" for j in range(1 + (i * 5) % 23)) for i in range(40)]
    form: dict[str, Any] = {"dimensions": 64, "dtype": TYPES}
    alone = client.encode_with_info(TEXTS[:1], **form).by_type
    for place in (0, 17, 40):
        texts = [*others[:place], TEXTS[0], *others[place:]]
        batch = client.encode_with_info(texts, **form).by_type
        np.testing.assert_allclose(batch["float32"][place], alone["float32"][0], atol=1e-6, rtol=0)
        assert (
            np.abs(batch["int8"][place].astype(int) - alone["int8"][0]).max() <= 1
        )  # one step, if the value is on its edge
        clear = np.abs(alone["float32"][0]) > 1e-6
        for name in ("ubinary", "binary"):
            told, before = (
                np.unpackbits(each.view(np.uint8)) for each in (batch[name][place], alone[name][0])
            )
            np.testing.assert_array_equal(told[clear], before[clear])


def test_prompts_precede_texts(client: Client) -> None:
    for asked, prefix in (
        ({}, PROMPTS["passage"]),
        ({"prompt_name": "query"}, PROMPTS["query"]),
        ({"prompt_name": "none"}, ""),
        ({"prompt": "note: "}, "note: "),
        ({"prompt": ""}, ""),
    ):
        found = client.encode_with_info(TEXTS, **asked)  # type: ignore[arg-type]  # keys of Reading
        written = client.encode_with_info([prefix + text for text in TEXTS], prompt="")
        np.testing.assert_array_equal(found.token_counts, written.token_counts)
        np.testing.assert_allclose(found.vectors, written.vectors, atol=1e-6, rtol=0)
        alone = client.tokenize([prefix], prompt="")[0] if prefix else ()
        assert found.prompt_token_counts.tolist() == [max(0, len(alone) - 2)] * len(TEXTS)
        assert found.usage.tokens == found.token_counts.sum() == found.usage.original_tokens
        assert found.usage.prompt_tokens == found.prompt_token_counts.sum()


def test_ids_are_used_unchanged(client: Client) -> None:
    ids = client.tokenize(TEXTS[:1], prompt="")[0].ids
    np.testing.assert_allclose(
        client.encode([ids]), client.encode(TEXTS[:1], prompt=""), atol=1e-6, rtol=0
    )
    with pytest.raises(
        InvalidInput,
        match=r"inputs\[0\]\.ids: a prompt is put before a text, but ids are used unchanged",
    ):
        client.encode([ids], prompt_name="query")


def test_offsets_and_spans_refer_to_the_text_without_its_prompt(client: Client) -> None:
    text = "日本 paths"
    [bare], [prompted] = (
        client.tokenize([text], prompt=""),
        client.tokenize([text], prompt="query: "),
    )
    own = [at for at in range(len(prompted)) if not (prompted.prompt[at] or prompted.special[at])]
    assert [prompted.starts[at] for at in own] == [
        s for s, x in zip(bare.starts, bare.special, strict=True) if not x
    ]
    assert any(prompted.prompt)
    assert prompted.labels(text)[own[-1]].strip() == text[prompted.starts[own[-1]] :].strip()
    [maps] = client.attention([text], AttentionSpec(queries=Span(3, 8)), prompt="query: ")
    chosen = [token for unit in maps.queries.tokens for token in unit]
    assert set(chosen) <= set(own)
    assert (
        "".join(text[maps.tokens.starts[at] : maps.tokens.ends[at]] for at in chosen).strip()
        == "paths"
    )


@pytest.mark.parametrize("side", ["end", "start"])
def test_truncation_shortens_the_text_and_not_its_prompt(client: Client, side: Any) -> None:
    text = " ".join(f"word{number}" for number in range(2500))
    [found] = client.token_vectors([text], skip_special=True, truncate=side, prompt_name="query")
    limit = client.model().max_length
    assert len(found.tokens) == limit
    assert found.places == tuple(range(1, limit - 1))
    told = client.encode_with_info([text], truncate=side, prompt_name="query")
    assert told.truncated.tolist() == [True]
    assert told.usage.tokens == limit < told.usage.original_tokens
    kept = [at for at in range(limit) if found.tokens.prompt[at]]
    assert len(kept) == told.usage.prompt_tokens > 0
    assert kept == list(range(1, 1 + len(kept)))
    own = slice(1 + len(kept), limit - 1)
    reached = found.tokens.starts[own][0] == 0, found.tokens.ends[own][-1] == len(text)
    assert reached == ((True, False) if side == "end" else (False, True))


def test_filtered_token_vectors_equal_the_selected_rows(client: Client) -> None:
    [whole] = client.encode_tokens(TEXTS[1:2], prompt_name="query")
    [found] = client.token_vectors(
        TEXTS[1:2],
        skip_special=True,
        skip_prompt=True,
        normalize=True,
        prompt_name="query",
    )
    own = [
        at for at in range(len(whole)) if not (found.tokens.special[at] or found.tokens.prompt[at])
    ]
    assert list(found.places) == own
    np.testing.assert_allclose(found.vectors, scaled(whole[own]), atol=1e-5)
    labels = found.tokens.labels(TEXTS[1])
    assert "".join(labels[at] for at in own).replace(" ", "") == TEXTS[1].replace(" ", "")
    [half] = client.encode_tokens(
        TEXTS[1:2], skip_special=True, dtype="float16", prompt_name="query"
    )
    np.testing.assert_array_equal(half, whole[1:-1].astype(np.float16))


async def test_the_asyncio_client_has_the_same_options(service: Service, client: Client) -> None:
    form: dict[str, Any] = {"dimensions": 64, "dtype": "int8", "prompt_name": "query"}
    async with AsyncClient(service.target) as other:
        got = await other.encode(TEXTS, **form)
        assert np.abs(got.astype(int) - client.encode(TEXTS, **form)).max() <= 1
        [tokens] = await other.token_vectors(TEXTS[:1], skip_special=True)
        assert tokens.places == tuple(range(1, len(tokens.tokens) - 1))


def test_chunked_answers_equal_unary_ones(service: Service) -> None:
    """Some megabytes: each type of pooled vectors, and the vectors of chosen tokens.

    A dry run reports the bytes before.
    """
    outputs = pb.Outputs(
        pooled=pb.PooledOutput(
            dtypes=[pb.DATA_TYPE_INT8, pb.DATA_TYPE_FLOAT32, pb.DATA_TYPE_UBINARY]
        ),
        tokens=pb.TokensOutput(skip_special=True, normalize=True, dtype=pb.DATA_TYPE_FLOAT16),
    )
    texts = [f"{text} {number} " * 4 for text in TEXTS for number in range(30)]
    request = pb.EncodeRequest(inputs=[pb.Input(text=text) for text in texts], outputs=outputs)
    with Client(service.target) as client:
        expect = expecting(client.model(), outputs, texts)
    with grpc.insecure_channel(service.target) as channel:
        stub = pb_grpc.HeadlightServiceStub(channel)
        assembly, answer, kinds = Assembly(expect), None, []
        for frame in stub.EncodeStream(iter([pb.EncodeStreamRequest(id="a", encode=request)])):
            kinds.append(frame.WhichOneof("frame"))
            answer = assembly.receive(frame)
        request.dry_run = True
        dry = stub.Encode(request)
        request.dry_run = False
        del request.inputs[7:]
        small = stub.Encode(request)
    assert kinds[:2] == ["header", "chunk"]
    assert isinstance(answer, Answer)
    assert (
        dry.data_bytes
        == sum(array.nbytes for array in answer.data.values())
        == answer.response.data_bytes
        > 1 << 20
    )
    assert [list(tensor.shape) for tensor in dry.pooled] == [
        [120, DIM],
        [120, DIM],
        [120, DIM // 8],
    ]
    np.testing.assert_allclose(
        answer.part("pooled[1]", 0)[:7],
        np.frombuffer(small.pooled[1].data, "<f4").reshape(7, -1),
        atol=1e-6,
    )
    np.testing.assert_array_equal(
        answer.part("pooled[2]", 0), np.packbits(answer.part("pooled[1]", 0) > 0, axis=-1)
    )
    row = answer.part("tokens", 3)
    assert (
        len(row)
        == len(answer.response.kept_tokens[3].indices)
        == answer.response.items[3].token_count - 2
    )


def test_occlusion_includes_the_prompt(client: Client) -> None:
    with_default, bare = client.occlusion(TEXTS[0]), client.occlusion(TEXTS[0], prompt="")
    assert len(with_default.places) - len(bare.places) == sum(with_default.tokens.prompt) > 0
    whole, *holes = np.asarray(client.encode([TEXTS[0]], prompt="")), *bare.moved
    assert whole.shape == (1, DIM)
    assert max(holes) > 1e-3


def test_the_model_description_lists_the_embedding_options(client: Client, rope: Service) -> None:
    model = client.model()
    assert (model.prompts, model.default_prompt, model.include_prompt) == (PROMPTS, "passage", True)
    assert (model.pooled_dim, model.trained_dimensions, model.int8_dimensions) == (
        DIM,
        (64,),
        WIDTHS,
    )
    assert set(model.pooled_types) == set(TYPES)
    assert model.similarity == "dot"
    with Client(rope.target) as plain:
        other = plain.model()
    assert (other.prompts, other.default_prompt, other.similarity) == ({}, None, None)
    assert other.trained_dimensions == TRAINED_DIMENSIONS
    assert "int8" not in other.pooled_types


def test_what_cannot_be_is_refused_with_a_remedy(client: Client) -> None:
    with pytest.raises(
        InvalidInput, match=rf"int8 of 32 .* has those of 64, {DIM}; .*export --cal"
    ):
        client.encode_with_info(TEXTS, dimensions=32, dtype="int8")
    with pytest.raises(InvalidInput, match=r"prompt_name: .*; choose query, passage, none"):
        client.encode(TEXTS, prompt_name="qery")
    with pytest.raises(InvalidInput, match=r"prompt: has 4097 characters; at most 4096"):
        client.encode(TEXTS, prompt="x" * 4097)


def test_int8_without_ranges_is_refused(rope: Service) -> None:
    with (
        Client(rope.target) as client,
        pytest.raises(InvalidInput, match=r"this bundle has none; export it with .*--calibration"),
    ):
        client.encode(TEXTS, dtype="int8")


@pytest.mark.parametrize(
    ("form", "message"),
    [
        (
            {"skip_special": True},
            r"outputs\.tokens\.skip_special: special tokens are known only for texts",
        ),
        ({"skip_special": True, "skip_prompt": True}, r"outputs\.tokens"),
    ],
)
def test_tokens_that_cannot_be_told_apart_are_refused(
    client: Client, form: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        client.encode_tokens([[7, 8]], **form)
