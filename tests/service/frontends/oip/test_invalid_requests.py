"""Invalid requests: the status, the tensor or parameter named, and the remedy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import grpc
import numpy as np
import pytest
from google.rpc.error_details_pb2 import BadRequest

from headlight_service.frontends.oip import inference_messages as oip
from tests.service.calls import details_of, refused
from tests.service.conftest import Serve, Service
from tests.service.fakes import FakeRuntime
from tests.service.frontends.oip.inference_calls import (
    ATTENTION,
    InferenceStub,
    add_array,
    arrays,
    of_ids,
    of_texts,
    packed,
)

INVALID = grpc.StatusCode.INVALID_ARGUMENT
Change = Callable[[oip.ModelInferRequest], object]
ONES = np.ones((2, 3), dtype=np.int64)


def changed(change: Change, request: oip.ModelInferRequest | None = None) -> oip.ModelInferRequest:
    request = of_texts("a bb", "ccc") if request is None else request
    change(request)
    return request


def set_raw(raw: bytes, place: int = 0) -> Change:
    def change(request: oip.ModelInferRequest) -> None:
        request.raw_input_contents[place] = raw

    return change


def set_shape(*shape: int, place: int = 0) -> Change:
    def change(request: oip.ModelInferRequest) -> None:
        request.inputs[place].shape[:] = shape

    return change


def set_input(place: int = 0, **fields: Any) -> Change:
    def change(request: oip.ModelInferRequest) -> None:
        for name, value in fields.items():
            setattr(request.inputs[place], name, value)

    return change


def ids(mask: Any = None, **more: Any) -> oip.ModelInferRequest:
    request = oip.ModelInferRequest(model_name="fake")
    add_array(request, "input_ids", ONES)
    if mask is not None:
        add_array(request, "attention_mask", np.array(mask))
    for name, array in more.items():
        add_array(request, name, np.array(array))
    return request


def typed(count: int) -> oip.ModelInferRequest:
    request = oip.ModelInferRequest(model_name="fake")
    tensor = request.inputs.add(name="text", datatype="BYTES", shape=[2])
    tensor.contents.bytes_contents.extend([b"a"] * count)
    return request


TENSORS = {
    "short buffer": (changed(set_raw(packed("a bb"))), "text[1]", "the buffer of 8 bytes ends"),
    "long buffer": (changed(set_raw(packed("a", "b", "c"))), "text", "is the shape right?"),
    "length beyond": (changed(set_raw(b"\xff\xff\xff\xffa")), "text[0]", "in 4 bytes"),
    "not UTF-8": (of_texts("a", b"\xff\xfe"), "text[1]", "is not UTF-8; encode it so"),
    "shape of texts": (changed(set_shape(2, 2)), "text", "as [N] or [N, 1]"),
    "negative shape": (changed(set_shape(-1)), "text", "send 1 to 2048"),
    "no rows": (changed(set_shape(0)), "text", "send 1 to 2048"),
    "huge shape": (changed(set_shape(2**62)), "text", "send 1 to 2048"),
    "many axes": (changed(set_shape(*[1] * 9)), "text", "[1, 1, 1, 1, ...]"),
    "empty text": (of_texts("a", ""), "text[1]", "is empty"),
    "no tensors": (oip.ModelInferRequest(model_name="fake"), "inputs", "send one BYTES tensor"),
    "dtype of texts": (changed(set_input(datatype="FP32")), "text", "is not an input"),
    "dtype of ids": (
        changed(set_input(datatype="FP32"), of_ids([[1, 2]])),
        "input_ids",
        "send INT64, or texts as BYTES",
    ),
    "buffer of ids": (
        changed(set_raw(b"1234567"), of_ids([[1, 2]])),
        "input_ids",
        "7 bytes for INT64 of the shape [1, 2]; send 8 bytes for each element",
    ),
    "buffer of the mask": (
        changed(set_raw(b"1234567", 1), of_ids([[1, 2]])),
        "attention_mask",
        "send 8 bytes for each element",
    ),
    "shape of ids": (changed(set_shape(2), of_ids([[1, 2]])), "input_ids", "send ids as [N, T]"),
    "shape of the mask": (
        changed(set_shape(2, 1, place=1), of_ids([[1, 2]])),
        "attention_mask",
        "send [1, 2], as input_ids",
    ),
    "ids out of range": (of_ids([[1], [100]]), "input_ids[1]", "0 .. 99"),
    "negative id": (of_ids([[1], [-1]]), "input_ids[1]", "0 .. 99"),
    "mask with a gap": (ids([[1, 1, 1], [1, 0, 1]]), "attention_mask[1]", "one run of tokens"),
    "mask of other numbers": (ids([[1, 2, 1], [1, 1, 1]]), "attention_mask[0]", "one run"),
    "empty mask": (ids([[1, 1, 1], [0, 0, 0]]), "input_ids[1]", "has 0 ids; give 1 to 2000"),
    "unknown tensor": (ids(position_ids=ONES), "position_ids", "is not an input"),
    "mask alone": (
        changed(set_input(name="attention_mask"), ids()),
        "inputs",
        "has no texts and no ids",
    ),
    "two of one name": (ids(input_ids=ONES), "inputs", "send each tensor once"),
    "raw for one of two": (
        changed(lambda request: request.raw_input_contents.pop(), ids(ONES)),
        "raw_input_contents",
        "has 1 entries for 2 inputs",
    ),
    "raw beside typed": (
        changed(lambda request: request.inputs[0].contents.SetInParent()),
        "text",
        "contents beside raw_input_contents",
    ),
    "too few typed": (typed(1), "text", "has 1 entries in contents.bytes_contents for 2"),
    "shared memory": (
        changed(lambda request: request.inputs[0].parameters["shared_memory_region"].SetInParent()),
        "text",
        "send it in the message",
    ),
    "strange name": (
        changed(set_input(name="a\nb", datatype="INT64"), ids()),
        "inputs[0]",
        "is not an input",
    ),
    "10,000 texts": (of_texts(*["a"] * 10_000), "text", "has 10000 rows; send 1 to 2048"),
    "10,000 ids": (of_ids([[1]] * 10_000), "input_ids", "has 10000 rows; send 1 to 2048"),
}


@pytest.mark.parametrize("name", TENSORS)
async def test_an_invalid_tensor_is_named_with_the_remedy(service: Service, name: str) -> None:
    message, field, remedy = TENSORS[name]
    error = await refused(InferenceStub(service.channel).ModelInfer(message), INVALID)
    assert (error.details() or "").startswith(f"{field}: "), error.details()
    assert remedy in (error.details() or "")
    [violation] = details_of(error)["BadRequest"].field_violations
    assert isinstance(violation, BadRequest.FieldViolation)
    assert violation.field == field
    assert service.engine.batches == []
    assert service.metric("headlight_queue_tokens") == 0


OPTIONS: dict[str, tuple[dict[str, Any], str, str]] = {
    "unknown": ({"normalise": True}, "parameters.normalise", "Encode"),
    "of another model": ({"attention_layers": "0"}, "parameters.attention_layers", "normalize"),
    "type": ({"normalize": "yes"}, "parameters.normalize", "must be a boolean"),
    "number": ({"dimensions": 2.5}, "parameters.dimensions", "must be a whole number"),
    "boolean as number": ({"dimensions": True}, "parameters.dimensions", "must be a whole number"),
    "range": ({"dimensions": 5}, "parameters.dimensions", "1 .. 4"),
    "truncate": ({"truncate": "left"}, "parameters.truncate", "refuse, end, start"),
    "dtype": ({"dtype": "bf16"}, "parameters.dtype", "float32, float16"),
    "prompt": ({"prompt_name": "x"}, "parameters.prompt_name", ""),
    "two prompts": ({"prompt_name": "x", "prompt": "y"}, "parameters.prompt", "one of them"),
    "long": ({"prompt_name": "x" * 1001}, "parameters.prompt_name", "at most 1000"),
    "state": ({"sequence_id": 3}, "parameters.sequence_id", "keeps no state"),
    "timeout": ({"timeout": -1}, "parameters.timeout", "is negative; send microseconds"),
    "priority": ({"priority": -1}, "parameters.priority", "1 is the highest"),
    "layer": ({"model": ATTENTION, "attention_layers": 3}, "parameters.attention_layer", "-3 .. 2"),
    "layers": (
        {"model": ATTENTION, "attention_layers": "0,x"},
        "parameters.attention_layers",
        "0,3",
    ),
    "reduce": (
        {"model": ATTENTION, "attention_reduce": "x"},
        "parameters.attention_reduce",
        "rollout",
    ),
    "output": ({"outputs": ("x",)}, "outputs", "there is embedding"),
    "output twice": ({"outputs": ("embedding", "embedding")}, "outputs", "name each once"),
    "output of attention": ({"model": ATTENTION, "outputs": ("attention.x",)}, "outputs", "0,3"),
    "layer of an output": (
        {"model": ATTENTION, "outputs": ("attention.7",)},
        "parameters.attention_layer",
        "-3 .. 2",
    ),
    "two kinds": (
        {"model": ATTENTION, "outputs": ("attention.0", "attention.0.1")},
        "outputs",
        "either",
    ),
    "both": (
        {"model": ATTENTION, "outputs": ("attention", "attention.0")},
        "outputs",
        "is not an output",
    ),
    "layers twice": (
        {"model": ATTENTION, "outputs": ("attention.0",), "attention_layers": 1},
        "outputs",
        "leave out",
    ),
}


@pytest.mark.parametrize("name", OPTIONS)
async def test_an_invalid_option_is_named_with_the_remedy(service: Service, name: str) -> None:
    options, field, remedy = OPTIONS[name]
    message = of_texts("a bb ccc", **options)
    error = await refused(InferenceStub(service.channel).ModelInfer(message), INVALID)
    assert (error.details() or "").startswith(field), error.details()
    assert remedy in (error.details() or "")


@pytest.mark.parametrize("name", ["shared_memory_region", "classification"])
async def test_refused_parameters_of_outputs(service: Service, name: str) -> None:
    message = of_texts("a", outputs=("embedding",))
    message.outputs[0].parameters[name].int64_param = 1
    error = await refused(InferenceStub(service.channel).ModelInfer(message), INVALID)
    assert f"outputs.parameters.{name}: is not served" in (error.details() or "")


async def test_parameters_of_clients_are_ignored(service: Service) -> None:
    message = of_texts("a", content_type="str", triton_enable_empty_final_response=True)
    message.inputs[0].parameters["content_type"].string_param = "str"
    message.parameters["sequence_id"].int64_param = 0
    response = await InferenceStub(service.channel).ModelInfer(message)
    assert list(arrays(response)) == ["embedding"]


async def test_an_unknown_model_or_version_is_not_found(service: Service) -> None:
    stub = InferenceStub(service.channel)
    error = await refused(stub.ModelInfer(of_texts("a", model="x")), grpc.StatusCode.NOT_FOUND)
    assert "there is fake, fake.tokens, fake.attention" in (error.details() or "")
    other = of_texts("a")
    other.model_version = "2"
    error = await refused(stub.ModelInfer(other), grpc.StatusCode.NOT_FOUND)
    assert "fake has only version 1" in (error.details() or "")
    assert list(arrays(await stub.ModelInfer(of_texts("a", model="")))) == ["embedding"]


async def test_kinds_of_input_that_the_model_lacks_are_refused(serve: Serve) -> None:
    async with serve(FakeRuntime(accepts=("text",))) as service:
        error = await refused(InferenceStub(service.channel).ModelInfer(of_ids([[1]])), INVALID)
    assert error.details() == "input_ids: this model takes text"
    async with serve(FakeRuntime(tokenizer=False)) as service:
        error = await refused(InferenceStub(service.channel).ModelInfer(of_texts("a")), INVALID)
    assert error.details() == "text: this model takes ids"


async def test_a_message_that_cannot_be_decoded_is_invalid(service: Service) -> None:
    channel: Any = service.channel
    call = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
    for raw in (b"\xff", b"\x0a\x02\xff\xfe"):  # no message; a name that is not UTF-8
        error = await refused(call(raw), INVALID)
        assert "cannot be decoded" in (error.details() or "")
