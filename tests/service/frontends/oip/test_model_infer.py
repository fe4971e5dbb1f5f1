"""ModelInfer over a real socket, compared with headlight.v1."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import numpy as np
import pytest

from headlight.pb import headlight_pb2 as pb
from headlight.runtime import Runtime
from headlight_service.frontends.oip import inference_messages as oip
from tests.service.calls import refused, request, until
from tests.service.conftest import Serve, Service
from tests.service.fakes import DIM, HEADS, LAYERS, FakeRuntime
from tests.service.frontends.oip.inference_calls import (
    ATTENTION,
    TOKENS,
    InferenceStub,
    add_array,
    arrays,
    of_ids,
    of_texts,
)

TEXTS = ("a bb ccc", "dddd", "ee ff")
INVALID = grpc.StatusCode.INVALID_ARGUMENT


async def encoded(service: Service, outputs: pb.Outputs | None = None) -> pb.EncodeResponse:
    """Return the answer of headlight.v1 for TEXTS."""
    inputs = [pb.Input(text=text) for text in TEXTS]
    found: pb.EncodeResponse = await service.stub.Encode(request(*inputs, outputs=outputs))
    return found


async def test_vectors_of_texts_equal_those_of_the_own_contract(service: Service) -> None:
    message = of_texts(*TEXTS)
    message.id = "mine"
    response = await InferenceStub(service.channel).ModelInfer(message)
    expected = await encoded(service)
    assert (response.model_name, response.model_version, response.id) == ("fake", "1", "mine")
    assert response.parameters["token_count"].int64_param == 6
    assert response.parameters["bundle_sha256"].string_param == "ab" * 32
    assert list(arrays(response)) == ["embedding"]
    assert list(response.outputs[0].shape) == [3, DIM]
    assert response.raw_output_contents[0] == expected.pooled[0].data


@pytest.mark.parametrize("datatype", ["INT64", "INT32"])
async def test_padded_ids_equal_the_same_ids_of_the_own_contract(
    service: Service, datatype: str
) -> None:
    ids = [[1, 2, 3], [4], [5, 6]]
    response = await InferenceStub(service.channel).ModelInfer(of_ids(ids, datatype=datatype))
    inputs = [pb.Input(ids=pb.TokenIds(ids=each)) for each in ids]
    expected = await service.stub.Encode(request(*inputs))
    assert response.raw_output_contents[0] == expected.pooled[0].data


async def test_a_mask_may_pad_on_the_left(service: Service) -> None:
    message = oip.ModelInferRequest(model_name="fake")
    add_array(message, "input_ids", np.array([[0, 7, 8], [1, 2, 3]]))
    add_array(message, "attention_mask", np.array([[0, 1, 1], [1, 1, 1]]))
    response = await InferenceStub(service.channel).ModelInfer(message)
    right = await InferenceStub(service.channel).ModelInfer(of_ids([[7, 8], [1, 2, 3]]))
    assert response.raw_output_contents == right.raw_output_contents


async def test_typed_contents_are_accepted_and_answers_are_raw(service: Service) -> None:
    message = oip.ModelInferRequest(model_name="fake")
    message.inputs.add(name="any", datatype="BYTES", shape=[3, 1]).contents.bytes_contents.extend(
        text.encode() for text in TEXTS
    )
    response = await InferenceStub(service.channel).ModelInfer(message)
    expected = await encoded(service)
    assert response.raw_output_contents[0] == expected.pooled[0].data
    assert not response.outputs[0].HasField("contents")


async def test_token_vectors_are_padded_and_have_lengths(service: Service) -> None:
    response = await InferenceStub(service.channel).ModelInfer(of_texts(*TEXTS, model=TOKENS))
    expected = await encoded(service, pb.Outputs(tokens=pb.TokensOutput()))
    found = arrays(response)
    assert list(found) == ["token_embeddings", "lengths", "input_ids", "offsets"]
    assert found["token_embeddings"].shape == (3, 3, DIM)
    assert found["lengths"].tolist() == [3, 1, 2]
    assert found["input_ids"].tolist() == [[1, 2, 3], [4, 0, 0], [2, 2, 0]]
    assert found["offsets"].shape == (3, 3, 2)
    rows = [found["token_embeddings"][item, :length] for item, length in enumerate([3, 1, 2])]
    assert b"".join(row.tobytes() for row in rows) == expected.tokens.data
    assert not found["token_embeddings"][1, 1:].any()


async def test_attention_is_padded_on_both_axes(service: Service) -> None:
    message = of_texts(*TEXTS, model=ATTENTION, outputs=("lengths", "attention"))
    response = await InferenceStub(service.channel).ModelInfer(message)
    expected = await encoded(service, pb.Outputs(attention=pb.AttentionOutput()))
    found = arrays(response)
    assert list(found) == ["lengths", "attention"]
    maps = found["attention"]
    assert maps.shape == (3, LAYERS, HEADS, 3, 3)
    inside = [maps[item, :, :, :n, :n] for item, n in enumerate(found["lengths"])]
    assert b"".join(np.ascontiguousarray(each).tobytes() for each in inside) == (
        expected.attention.data
    )
    assert not maps[1, :, :, 1:].any()
    assert not maps[1, :, :, :, 1:].any()


@pytest.mark.parametrize(
    ("options", "selected"),
    [
        ({"attention_layers": "-1,0", "attention_heads": 1}, {"layers": [-1, 0], "heads": [1]}),
        ({"attention_reduce": "head_mean"}, {"reduce": [pb.REDUCTION_HEAD_MEAN]}),
        ({"attention_reduce": "rollout"}, {"reduce": [pb.REDUCTION_ROLLOUT]}),
        ({"attention_scores": True, "dtype": "float16"}, {"scores": True, "dtype": 2}),
    ],
)
async def test_parameters_select_attention(
    service: Service, options: dict[str, Any], selected: dict[str, Any]
) -> None:
    message = of_texts("a bb ccc", model=ATTENTION, outputs=("attention",), **options)
    outputs = pb.Outputs(attention=pb.AttentionOutput(**selected))
    response = await InferenceStub(service.channel).ModelInfer(message)
    expected = await service.stub.Encode(request(pb.Input(text="a bb ccc"), outputs=outputs))
    assert response.raw_output_contents[0] == expected.attention.data


@pytest.mark.parametrize(
    ("names", "selected", "shape"),
    [
        (("attention.-1", "attention.0"), {"layers": [-1, 0]}, [1, HEADS, 3, 3]),
        (
            ("attention.2.1", "attention.0.0"),
            {"pairs": [pb.LayerHead(layer=2, head=1), pb.LayerHead(layer=0, head=0)]},
            [1, 3, 3],
        ),
    ],
)
async def test_names_of_outputs_select_attention(
    service: Service, names: tuple[str, ...], selected: dict[str, Any], shape: list[int]
) -> None:
    message = of_texts("a bb ccc", model=ATTENTION, outputs=names)
    outputs = pb.Outputs(attention=pb.AttentionOutput(**selected))
    response = await InferenceStub(service.channel).ModelInfer(message)
    expected = await service.stub.Encode(request(pb.Input(text="a bb ccc"), outputs=outputs))
    assert [each.name for each in response.outputs] == list(names)
    assert [list(each.shape) for each in response.outputs] == [shape, shape]
    assert b"".join(response.raw_output_contents) == expected.attention.data


async def test_options_of_vectors_are_those_of_the_own_contract(serve: Serve) -> None:
    options: dict[str, Any] = {
        "dimensions": 2,
        "normalize": False,
        "dtype": "float16",
        "prompt_name": "query",
    }
    runtime = FakeRuntime(prompts={"query": "find this "})
    wanted = pb.PooledOutput(dimensions=2, normalize=False, dtypes=[pb.DATA_TYPE_FLOAT16])
    async with serve(runtime) as service:
        response = await InferenceStub(service.channel).ModelInfer(of_texts("a bb", **options))
        expected = await service.stub.Encode(
            request(pb.Input(text="a bb"), outputs=pb.Outputs(pooled=wanted), prompt_name="query")
        )
    assert response.outputs[0].datatype == "FP16"
    assert list(response.outputs[0].shape) == [1, 2]
    assert response.raw_output_contents[0] == expected.pooled[0].data


async def test_a_long_text_is_cut_only_if_asked(service: Service) -> None:
    long = " ".join(["word"] * 2001)
    stub = InferenceStub(service.channel)
    error = await refused(stub.ModelInfer(of_texts("a", long)), INVALID)
    assert (error.details() or "").startswith("text[1]: has 2001 tokens")
    for truncate in ("end", True):
        response = await stub.ModelInfer(of_texts(long, truncate=truncate))
        assert response.parameters["token_count"].int64_param == 2000


async def test_timeout_in_microseconds_is_a_deadline(service: Service) -> None:
    service.engine.gate.clear()
    stub = InferenceStub(service.channel)
    first = asyncio.ensure_future(stub.ModelInfer(of_texts("a")))
    second = asyncio.ensure_future(stub.ModelInfer(of_texts("bb")))
    await service.started()
    late = await refused(
        stub.ModelInfer(of_texts("ccc", timeout=1)), grpc.StatusCode.DEADLINE_EXCEEDED
    )
    assert late.details()
    service.engine.gate.set()
    assert len((await first).outputs) == len((await second).outputs) == 1


@pytest.mark.parametrize(
    ("number", "priority"), [(0, "interactive"), (1, "interactive"), (2, "bulk")]
)
async def test_priorities_from_two_are_bulk(service: Service, number: int, priority: str) -> None:
    message = of_texts("a")
    message.parameters["priority"].uint64_param = number  # as tritonclient sends it
    await InferenceStub(service.channel).ModelInfer(message)
    assert service.metric("headlight_texts_total", priority=priority) == 1


async def test_a_cancelled_call_is_withdrawn(single: Service) -> None:
    single.engine.gate.clear()
    stub = InferenceStub(single.channel)
    first = asyncio.ensure_future(stub.ModelInfer(of_texts("a")))
    await single.started()
    waiting = stub.ModelInfer(of_texts("bb"))
    await until(lambda: single.metric("headlight_queue_tokens") == 2)
    waiting.cancel()
    await until(lambda: single.metric("headlight_queue_tokens") == 1)
    single.engine.gate.set()
    await first
    assert [[len(each.ids) for each in batch] for batch in single.engine.batches] == [[1]]


async def test_an_answer_whose_padding_is_too_large_is_refused_before_it_runs(
    serve: Serve,
) -> None:
    texts = [" ".join(["w"] * 200), *["a"] * 7]
    async with serve(max_stream_output_bytes=1 << 20) as service:
        message = of_texts(*texts, model=ATTENTION, outputs=("attention",))
        error = await refused(InferenceStub(service.channel).ModelInfer(message), INVALID)
        assert "the padded answer would have" in (error.details() or "")
        assert "headlight.v1.HeadlightService/EncodeStream does not pad" in (error.details() or "")
        assert service.engine.batches == []


async def test_the_shipped_model_answers_alike_on_both_contracts(
    serve: Serve, bundle_path: Any
) -> None:
    runtime: Any = Runtime(bundle_path, provider="cpu", threads=1, streams=1)
    texts = ["join two paths", "read a file, line by line"]
    name = runtime.bundle.manifest.name
    async with serve(runtime) as service:
        stub = InferenceStub(service.channel)
        inputs = [pb.Input(text=text) for text in texts]
        kinds = {
            "": pb.Outputs(pooled=pb.PooledOutput()),
            ".tokens": pb.Outputs(tokens=pb.TokensOutput(), token_info=pb.TokenInfoOutput()),
            ".attention": pb.Outputs(attention=pb.AttentionOutput()),
        }
        own = {
            suffix: await service.stub.Encode(request(*inputs, outputs=outputs))
            for suffix, outputs in kinds.items()
        }
        found = {
            suffix: arrays(await stub.ModelInfer(of_texts(*texts, model=name + suffix)))
            for suffix in kinds
        }
    assert found[""]["embedding"].tobytes() == own[""].pooled[0].data
    lengths = found[".attention"]["lengths"].tolist()
    assert found[".tokens"]["lengths"].tolist() == lengths
    rows, maps = found[".tokens"]["token_embeddings"], found[".attention"]["attention"]
    cut = [rows[item, :n].tobytes() for item, n in enumerate(lengths)]
    assert b"".join(cut) == own[".tokens"].tokens.data
    cut = [maps[item, :, :, :n, :n].tobytes() for item, n in enumerate(lengths)]
    assert b"".join(cut) == own[".attention"].attention.data
    np.testing.assert_allclose(maps[0, :, :, : lengths[0]].sum(axis=-1), 1, atol=1e-5)
    tokens = own[".tokens"].items[0].tokens
    offsets = found[".tokens"]["offsets"][0, : lengths[0]].tolist()
    assert offsets == [list(each) for each in zip(tokens.starts, tokens.ends, strict=True)]
    assert found[".tokens"]["input_ids"][0, : lengths[0]].tolist() == list(tokens.ids)
