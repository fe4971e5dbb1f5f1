"""The models of the protocol and what they say of themselves, over a real socket."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import grpc
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from headlight import __version__
from headlight_service.frontends.oip import inference_messages as oip
from tests.service.calls import refused
from tests.service.conftest import Serve, Service
from tests.service.fakes import ARCHITECTURE, HEADS, LAYERS, MAX_LENGTH, FakeRuntime
from tests.service.frontends.oip.inference_calls import (
    ATTENTION,
    FAKE,
    SERVICE,
    TOKENS,
    InferenceStub,
    arrays,
    of_texts,
)

REFUSED = [method.name for method in SERVICE.methods if method.input_type.name == "UnservedRequest"]


async def test_server_and_models_are_live_ready_and_described(service: Service) -> None:
    stub = InferenceStub(service.channel)
    assert (await stub.ServerLive(oip.ServerLiveRequest())).live
    assert (await stub.ServerReady(oip.ServerReadyRequest())).ready
    told = await stub.ServerMetadata(oip.ServerMetadataRequest())
    assert (told.name, told.version) == ("headlight", __version__)
    assert "statistics" not in told.extensions  # else perf_analyzer would ask for them
    for name in (FAKE, TOKENS, ATTENTION):
        assert (await stub.ModelReady(oip.ModelReadyRequest(name=name))).ready
    listed = await stub.RepositoryIndex(oip.RepositoryIndexRequest())
    assert [(each.name, each.version, each.state) for each in listed.models] == [
        (name, "1", "READY") for name in (FAKE, TOKENS, ATTENTION)
    ]
    error = await refused(
        stub.ModelReady(oip.ModelReadyRequest(name="x")), grpc.StatusCode.NOT_FOUND
    )
    assert "there is fake, fake.tokens, fake.attention" in (error.details() or "")
    service.readiness.set(serving=False)
    assert not (await stub.ServerReady(oip.ServerReadyRequest())).ready
    assert not (await stub.ModelReady(oip.ModelReadyRequest(name=FAKE))).ready
    listed = await stub.RepositoryIndex(oip.RepositoryIndexRequest())
    assert {each.state for each in listed.models} == {"UNAVAILABLE"}
    ready = await stub.RepositoryIndex(oip.RepositoryIndexRequest(ready=True))
    assert not ready.models


async def test_outputs_without_names_are_those_of_the_metadata(service: Service) -> None:
    stub = InferenceStub(service.channel)
    for name in (FAKE, TOKENS, ATTENTION):
        told = await stub.ModelMetadata(oip.ModelMetadataRequest(name=name))
        config = (await stub.ModelConfig(oip.ModelConfigRequest(name=name))).config
        found = arrays(await stub.ModelInfer(of_texts("a bb", model=name)))
        described = {each.name: tuple(each.shape) for each in told.outputs}
        assert list(found) == list(described)
        for output, shape in described.items():
            pairs = zip(found[output].shape, shape, strict=True)
            assert all(wanted in (-1, extent) for extent, wanted in pairs), output
        assert [each.name for each in config.output] == list(described)
        assert [each.name for each in told.inputs] == ["text", "input_ids", "attention_mask"]
        assert [each.optional for each in config.input] == [False, True, True]
        limits = service.model.limits
        largest = limits.max_items if name == FAKE else limits.max_request_tokens // MAX_LENGTH
        assert config.max_batch_size == largest
        assert told.properties["bundle_sha256"] == "ab" * 32
    assert described["attention"] == (-1, LAYERS, HEADS, -1, -1)


async def test_without_attention_there_are_two_models(serve: Serve) -> None:
    async with serve(FakeRuntime(attend=False)) as service:
        stub = InferenceStub(service.channel)
        listed = await stub.RepositoryIndex(oip.RepositoryIndexRequest())
        assert [each.name for each in listed.models] == [FAKE, TOKENS]
        await refused(stub.ModelInfer(of_texts("a", model=ATTENTION)), grpc.StatusCode.NOT_FOUND)


async def test_the_name_alone_is_of_what_the_model_is_for(serve: Serve) -> None:
    shape = dataclasses.replace(ARCHITECTURE, terms=True, multi_vector_dim=4)
    outputs = ("pooled", "tokens", "sparse", "multi_vector", "token_info")
    for task, kind in (("embed", "embedding"), ("multi_vector", "multi_vector")):
        runtime = FakeRuntime(architecture=shape, outputs=outputs, task=task, attend=False)
        async with serve(runtime) as service:
            stub = InferenceStub(service.channel)
            listed = await stub.RepositoryIndex(oip.RepositoryIndexRequest())
            told = await stub.ModelMetadata(oip.ModelMetadataRequest())
        kinds = ["embedding", "sparse", "multi_vector", "tokens"]
        kinds.remove(kind)
        assert [each.name for each in listed.models] == [FAKE, *(f"{FAKE}.{k}" for k in kinds)]
        assert (told.name, told.outputs[0].name) == (FAKE, kind)


@pytest.mark.parametrize("name", REFUSED)
async def test_refused_methods_name_the_remedy(service: Service, name: str) -> None:
    method = getattr(InferenceStub(service.channel), name)
    error = await refused(method(oip.UnservedRequest()), grpc.StatusCode.UNIMPLEMENTED)
    labels = {"grpc_type": "unary", "grpc_service": SERVICE.full_name, "grpc_method": name}
    assert service.sample("grpc_server_handled_total", **labels, grpc_code="UNIMPLEMENTED") == 1
    assert len((error.details() or "").split()) > 5


def test_every_method_that_changes_models_is_refused() -> None:
    assert {"RepositoryModelLoad", "RepositoryModelUnload", "ModelStatistics"} <= {*REFUSED}


async def test_reflection_has_the_service_under_its_true_name(service: Service) -> None:
    stub = reflection_pb2_grpc.ServerReflectionStub(service.channel)
    asked = [
        reflection_pb2.ServerReflectionRequest(file_containing_symbol=name)
        for name in (
            SERVICE.full_name,
            "headlight.v1.HeadlightService",
            "grpc.health.v1.Health",
            "tei.v1.Embed",
        )
    ]
    found = [answer async for answer in stub.ServerReflectionInfo(iter(asked))]
    files = [
        FileDescriptorProto.FromString(answer.file_descriptor_response.file_descriptor_proto[0])
        for answer in found
    ]
    assert [file.package for file in files] == [
        "inference",
        "headlight.v1",
        "grpc.health.v1",
        "tei.v1",
    ]
    methods = {method.name for service in files[0].service for method in service.method}
    assert {"ModelInfer", "ModelStreamInfer", "ModelReady"} <= methods


async def test_calls_need_a_token_if_the_service_has_tokens(serve: Serve) -> None:
    class NoToken:
        def authenticate(self, call: object) -> None:
            from headlight.errors import Unauthenticated

            raise Unauthenticated("no token")

    async with serve(authenticator=NoToken()) as service:
        stub = InferenceStub(service.channel)
        for call in (stub.ServerLive(oip.ServerLiveRequest()), stub.ModelInfer(of_texts("a"))):
            await refused(call, grpc.StatusCode.UNAUTHENTICATED)


def test_another_copy_of_the_messages_may_be_in_the_process() -> None:
    """As tritonclient's is, in protobuf's default pool."""
    proto = Path(__file__).parents[4] / "proto/inference/inference.proto"
    assert "package inference;" in proto.read_text(encoding="utf-8")
    program = (
        "from google.protobuf import descriptor_pb2, descriptor_pool\n"
        "file = descriptor_pb2.FileDescriptorProto(name='a', package='inference')\n"
        "file.message_type.add(name='ModelInferRequest')\n"
        "descriptor_pool.Default().AddSerializedFile(file.SerializeToString())\n"
        "from headlight_service.app import server_setup\n"
        "from headlight_service.frontends.oip import inference_messages as oip\n"
        "assert oip.ModelInferRequest(id='1').id == '1'\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
