"""Scores over the Open Inference Protocol: of pairs, and of texts."""

from __future__ import annotations

import grpc
import numpy as np

from headlight.runtime import Runtime
from headlight_service.frontends.oip import inference_messages as oip
from tests.service.calls import refused
from tests.service.conftest import Serve, Service
from tests.service.frontends.oip.inference_calls import InferenceStub, arrays, of_texts

PAIRS = [("what is red", "a planet"), ("what is red", "green"), ("a", "b")]


def asked(service: Service, *texts: str, pairs: bool = False) -> oip.ModelInferRequest:
    message = of_texts(*texts)
    message.model_name = service.model.name
    if pairs:
        message.inputs[0].shape[:] = [len(texts) // 2, 2]
    return message


async def test_pairs_have_scores_and_logits(serve: Serve, ranking: Runtime) -> None:
    expected = ranking.scores(PAIRS)
    async with serve(ranking) as service:
        stub = InferenceStub(service.channel)
        flat = [text for pair in PAIRS for text in pair]
        found = arrays(await stub.ModelInfer(asked(service, *flat, pairs=True)))
        for name, numbers in (("scores", "values"), ("logits", "logits")):
            np.testing.assert_allclose(
                found[name], [getattr(each, numbers) for each in expected], atol=1e-5
            )
        told = await stub.ModelMetadata(oip.ModelMetadataRequest(name=service.model.name))
        assert (told.inputs[0].name, list(told.inputs[0].shape)) == ("text", [-1, 2])
        assert [(each.name, list(each.shape)) for each in told.outputs] == [
            ("scores", [-1, 1]),
            ("logits", [-1, 1]),
        ]
        call = stub.ModelInfer(asked(service, "a", "b", "c", "x" * 60, pairs=True))
        error = await refused(call, grpc.StatusCode.INVALID_ARGUMENT)
        assert (error.details() or "").startswith("text[1]: has 64 tokens")


async def test_a_request_without_a_model_has_what_the_only_model_gives(
    serve: Serve, ranking: Runtime
) -> None:
    async with serve(ranking) as service:
        stub, message = InferenceStub(service.channel), asked(service, "a", "b", pairs=True)
        named = arrays(await stub.ModelInfer(message))
        message.model_name = ""
        assert arrays(await stub.ModelInfer(message)) == named
        message.outputs.add(name="embedding")
        error = await refused(stub.ModelInfer(message), grpc.StatusCode.INVALID_ARGUMENT)
    assert "scores, logits" in (error.details() or "")


async def test_texts_have_scores(serve: Serve, classifying: Runtime) -> None:
    texts = ["red", "a planet"]
    async with serve(classifying) as service:
        message = asked(service, *texts)
        message.outputs.add(name="scores")
        found = arrays(await InferenceStub(service.channel).ModelInfer(message))
    assert list(found) == ["scores"]
    values = [each.values for each in classifying.scores(texts)]
    np.testing.assert_allclose(found["scores"], values, atol=1e-6)
