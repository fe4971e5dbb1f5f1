"""Every name of a model addresses it through each door."""

from __future__ import annotations

from headlight.pb import headlight_pb2 as pb
from headlight_service.frontends.oip import inference_messages as oip
from tests.service.calls import request
from tests.service.conftest import Serve
from tests.service.fakes import FakeRuntime
from tests.service.frontends.http.http_service import http_service
from tests.service.frontends.oip.inference_calls import InferenceStub, of_texts

NAMES = ("text-embedding-3-small", "mine", "folder", "org/fake", "fake")
SERVED = NAMES[:2]


def runtime() -> FakeRuntime:
    """Return one that was exported from the Hub, under a name of its own."""
    return FakeRuntime(name="folder", source={"hub": {"model": "org/fake"}})


def test_over_http() -> None:
    with http_service(runtime(), served_model_name=SERVED) as service:
        listed = [each["id"] for each in service.ask("/v1/models").json["data"]]
        assert listed == [*NAMES]
        for name in NAMES:
            answer = service.ask("/v1/embeddings", {"input": "a", "model": name})
            assert (answer.status, answer.json["model"]) == (200, NAMES[0])
            assert service.ask(f"/v1/models/{name}").json["id"] == name
            body = {"inputs": [{"text": "a"}], "model": name}
            assert service.ask("/v1/encode", body).json["model"]["name"] == "folder"
        info = service.ask("/info").json
        assert (info["model_id"], info["served_model_name"]) == (NAMES[0], NAMES[0])
        assert service.ask("/meta").json["model"] == NAMES[0]


async def test_over_grpc_and_triton(serve: Serve) -> None:
    async with serve(runtime(), served_model_name=SERVED) as service:
        stub = InferenceStub(service.channel)
        for name in NAMES:
            answer = await service.stub.Encode(request(pb.Input(text="a"), model=name))
            assert answer.model.name == "folder"
            vectors = await stub.ModelInfer(of_texts("a", model=name))
            assert vectors.model_name == NAMES[0]
            tokens = await stub.ModelMetadata(oip.ModelMetadataRequest(name=f"{name}.tokens"))
            assert tokens.name == f"{NAMES[0]}.tokens"


def test_an_unknown_name_is_answered_only_on_request() -> None:
    body = {"input": "a", "model": "other"}
    with http_service(runtime()) as service:
        reply = service.ask("/v1/embeddings", body)
        assert (reply.status, reply.json["error"]["code"]) == (404, "model_not_found")
        assert "folder, org/fake, fake" in reply.json["message"]
    with http_service(runtime(), any_model_name=True) as service:
        answer = service.ask("/v1/embeddings", body)
        assert (answer.status, answer.json["model"]) == (200, "folder")
        assert service.ask("/v1/encode", {**body, "inputs": []}).status != 200
        assert service.ask("/v1/models/other").status == 404
