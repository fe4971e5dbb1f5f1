"""Documents ranked and texts classified over HTTP, in the form of each dialect."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from headlight.runtime import Runtime
from tests import scorers
from tests.service.frontends.http.http_service import HttpService, http_service
from tests.service.frontends.http.test_tei import refused
from tests.wire.test_openapi import check, operation_of

QUERY = "what is red"
DOCUMENTS = ["red", "a planet, and more of it", "x" * 60, "green"]
BODY: dict[str, Any] = {"query": QUERY, "documents": DOCUMENTS}
PATHS = ("/rerank", "/v1/rerank", "/v2/rerank", "/v3/rerank")


@pytest.fixture(scope="module")
def service(ranking: Runtime) -> Iterator[HttpService]:
    with http_service(ranking, max_request_tokens=400) as service:
        yield service


@pytest.fixture(scope="module")
def labelling(classifying: Runtime) -> Iterator[HttpService]:
    with http_service(classifying) as service:
        yield service


def test_texts_are_ranked_in_teis_form(service: HttpService, ranking: Runtime) -> None:
    expected = ranking.rerank(QUERY, DOCUMENTS)
    body = {"query": QUERY, "texts": DOCUMENTS, "truncate": True}
    for path in ("/rerank", "/", "/invocations"):
        reply = service.ask(path, body)
        assert reply.status == 200, reply.body
        assert [each["index"] for each in reply.json] == [each.index for each in expected]
        scores = [each["score"] for each in reply.json]
        np.testing.assert_allclose(scores, [each.score for each in expected], atol=1e-6)
        assert all(set(each) == {"index", "score"} for each in reply.json)
    assert int(reply.headers["x-compute-characters"]) == sum(map(len, DOCUMENTS)) + 4 * len(QUERY)
    options = {"raw_scores": True, "return_text": True, "top_n": 3}
    raw = service.ask("/rerank", body | options).json
    np.testing.assert_allclose(
        [each["score"] for each in raw], [each.logit for each in expected[:3]], atol=1e-5
    )
    assert [each["text"] for each in raw] == [each.document for each in expected[:3]]


def test_the_side_that_is_cut_decides(service: HttpService, ranking: Runtime) -> None:
    body = {"query": QUERY, "texts": DOCUMENTS[2:3], "truncate": True, "raw_scores": True}
    left = service.ask("/rerank", body | {"truncation_direction": "Left"}).json
    [expected] = ranking.rerank(QUERY, DOCUMENTS[2:3], truncate="start")
    assert left[0]["score"] == pytest.approx(expected.logit, abs=1e-5)


@pytest.mark.parametrize(
    ("change", "status", "kind", "message"),
    [
        ({"texts": []}, 400, "Empty", "texts: is empty"),
        ({"texts": ["a", ""]}, 400, "Empty", "texts[1]: is empty"),
        ({"query": ""}, 400, "Empty", "query: is empty"),
        ({"query": None}, 422, "Validation", "query: must be a text"),
        ({"texts": ["a", 1]}, 422, "Validation", "texts: must be a list of texts"),
        ({"texts": ["a", "b" * 60]}, 422, "Validation", "texts[1]: has 72 tokens"),
        ({"texts": ["a"] * 2049}, 422, "Validation", "texts: has 2049 entries"),
        ({"raw_scores": 1}, 422, "Validation", "raw_scores: must be true or false"),
    ],
)
def test_what_tei_refuses_is_named(
    service: HttpService, change: dict[str, Any], status: int, kind: str, message: str
) -> None:
    reply = service.ask("/rerank", {"query": QUERY, "texts": ["a"], **change})
    assert refused(reply, status, kind).startswith(message)


@pytest.mark.parametrize("path", PATHS)
def test_documents_are_ranked_in_one_form_for_all(
    service: HttpService, ranking: Runtime, path: str
) -> None:
    expected = ranking.rerank(QUERY, DOCUMENTS, top_n=2)
    body = BODY | {"model": service.model.name, "top_n": 2, "unknown": 1}
    found = service.ask(path, body | {"documents": [{"text": DOCUMENTS[0]}, *DOCUMENTS[1:]]}).json
    assert [each["index"] for each in found["results"]] == [each.index for each in expected]
    scores = [each["relevance_score"] for each in found["results"]]
    np.testing.assert_allclose(scores, [each.score for each in expected], atol=1e-6)
    assert "document" not in found["results"][0]
    assert (found["object"], found["model"]) == ("rerank", service.model.name)
    assert found["usage"]["total_tokens"] == found["meta"]["tokens"]["input_tokens"] > 40
    assert found["meta"]["api_version"] == {"version": "2" if path == "/v2/rerank" else "1"}
    raw = service.ask(path, body | {"return_documents": True, "use_activation": False}).json
    assert raw["results"][0]["document"] == {"text": expected[0].document}
    assert raw["results"][0]["relevance_score"] == pytest.approx(expected[0].logit, abs=1e-5)


def test_the_contract_is_served_as_json(
    service: HttpService, ranking: Runtime, labelling: HttpService, classifying: Runtime
) -> None:
    expected = ranking.rerank(QUERY, DOCUMENTS, top_n=2)
    cut = {"truncation": "TRUNCATION_CUT_END"}
    found = service.ask("/v1/rank", BODY | cut | {"top_n": 2, "return_documents": True}).json
    assert [each["document"] for each in found["results"]] == [each.document for each in expected]
    for ours, theirs in zip(found["results"], expected, strict=True):
        assert ours["logit"] == pytest.approx(theirs.logit, abs=1e-5)
        assert ours["score"] == pytest.approx(theirs.score, abs=1e-6)
        assert ours["item"]["truncated"] == (theirs.cut_tokens > 0)
    dry = service.ask("/v1/rank", BODY | cut | {"dry_run": True}).json
    assert (dry["results"], dry["usage"]) == ([], found["usage"])
    [labels] = classifying.classify(["a text"])
    [one] = labelling.ask("/v1/classify", {"inputs": [{"text": "a text"}]}).json["results"]
    assert [each["label"] for each in one["labels"]] == [each.label for each in labels]
    error = service.ask("/v1/rank", BODY).json["error"]
    assert (error["field"], error["reason"]) == ("documents[2]", "INVALID_INPUT")
    error = service.ask("/v1/rank", BODY | {"encoding": "base64"}).json["error"]
    assert error["message"].startswith("encoding: is no field of RerankRequest")


def test_weaviate_has_scores_in_the_order_of_its_documents(
    service: HttpService, ranking: Runtime
) -> None:
    expected = {each.document: each.score for each in ranking.rerank(QUERY, DOCUMENTS)}
    scores = service.ask("/rerank", BODY | {"property": ""}).json["scores"]
    assert [each["document"] for each in scores] == DOCUMENTS
    for each in scores:
        assert each["score"] == pytest.approx(expected[each["document"]], abs=1e-6)


def test_a_thousand_documents_are_split_by_the_service(
    service: HttpService, ranking: Runtime
) -> None:
    """They have fifty times the tokens that a request may have for other outputs."""
    documents = [f"{at:03} of them" for at in range(1000)]
    expected = ranking.rerank(QUERY, documents, top_n=5)
    found = service.ask("/v2/rerank", {"query": QUERY, "documents": documents}).json
    assert len({each["index"] for each in found["results"]}) == 1000
    one = len("whatisred") + len("000ofthem") + 3  # a character is a token, a space is none
    assert found["usage"]["total_tokens"] == 1000 * one
    best = [each["relevance_score"] for each in found["results"][:5]]
    np.testing.assert_allclose(best, [each.score for each in expected], atol=1e-5)


def test_answers_have_the_documented_schemas(service: HttpService, labelling: HttpService) -> None:
    texts = {"query": QUERY, "texts": DOCUMENTS, "truncate": True, "return_text": True}
    asked: list[tuple[HttpService, str, dict[str, Any] | None]] = [
        (service, "/rerank", texts),
        (service, "/rerank", BODY | {"property": "", "return_documents": True}),
        (service, "/v2/rerank", BODY | {"top_n": 2}),
        (service, "/v1/rank", BODY | {"truncation": "TRUNCATION_CUT_END"}),
        (labelling, "/v1/classify", {"inputs": [{"text": "a"}], "top_n": 1}),
        (service, "/predict", {"inputs": "a"}),
        (service, "/info", None),
        (service, "/score", {"text_1": "a", "text_2": ["b", "c"], "use_activation": False}),
        (labelling, "/classify", {"input": ["a", "b"], "truncate_prompt_tokens": -1}),
        (labelling, "/classify", {"input": ["a", "b"], "raw_scores": False}),
        (labelling, "/predict", {"inputs": [["a"], ["a", "b"]]}),
        (labelling, "/", {"inputs": ["a", "b"]}),
        (labelling, "/info", None),
    ]
    for door, path, body in asked:
        reply = door.ask(path, body)
        operation = operation_of("get" if body is None else "post", path)
        assert operation is not None
        check(reply.json, operation["responses"]["200"]["content"]["application/json"]["schema"])
        if body is not None:
            check(body, operation["requestBody"]["content"]["application/json"]["schema"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"documents": []}, "documents: is empty"),
        ({"documents": "a"}, "documents: must be a list of texts, or of objects"),
        ({"documents": ["a", {"title": "b"}]}, "documents[1]: must be a text, or an object"),
        ({"documents": ["a", ""]}, "documents[1]: is empty"),
        ({"query": ["a"]}, "query: must be a text"),
        ({"top_n": -1}, "top_n: must be a whole number from 0"),
        ({"instruction": "Find"}, "instruction: is not applied"),
        ({"rank_fields": ["title", "text"]}, "rank_fields: is not applied"),
        ({"relevant_spans": {"mode": "enabled"}}, "relevant_spans: is not applied"),
        ({"model": "rerank-v3.5"}, "model: "),
    ],
)
def test_what_cannot_be_ranked_is_named(
    service: HttpService, change: dict[str, Any], message: str
) -> None:
    reply = service.ask("/v1/rerank", BODY | change)
    assert reply.status == (404 if "model" in change else 400), reply.body
    assert reply.json["message"].startswith(message)
    assert reply.json["error"]["message"] == reply.json["message"] == reply.json["detail"]


def test_another_name_of_the_model_is_answered_if_the_service_is_told_so(ranking: Runtime) -> None:
    with http_service(ranking, any_model_name=True) as service:
        assert service.ask("/v2/rerank", BODY | {"model": "rerank-v3.5"}).status == 200


def test_texts_and_pairs_are_classified_in_teis_form(
    labelling: HttpService, classifying: Runtime
) -> None:
    inputs: list[Any] = ["a text", ("a text", "and another")]
    expected = classifying.classify(inputs)
    alone, pair = [[(each.label, each.score) for each in labels] for labels in expected]

    def labels(found: list[dict[str, Any]]) -> list[tuple[str, Any]]:
        return [(each["label"], pytest.approx(each["score"], abs=1e-6)) for each in found]

    for path in ("/predict", "/"):
        asked: list[tuple[Any, Any]] = [
            ("a text", alone),
            (["a text"], alone),
            ([*inputs[1]], pair),
        ]
        for value, own in asked:
            assert labels(labelling.ask(path, {"inputs": value}).json) == own
        several = labelling.ask(path, {"inputs": [["a text"], [*inputs[1]]]}).json
        assert [labels(each) for each in several] == [alone, pair]
    raw = labelling.ask("/predict", {"inputs": "a text", "raw_scores": True}).json
    assert raw[0]["score"] == pytest.approx(expected[0][0].logit, abs=1e-5)
    for value, message in (
        ([], "inputs[0]: must be a text, or a list of one or two texts"),
        ([["a"], ["a", "b", "c"]], "inputs[1]: must be a text, or a list of one or two texts"),
        ([["a"], [""]], "inputs[1]: is empty"),
    ):
        reply = labelling.ask("/predict", {"inputs": value})
        assert reply.json["error"].startswith(message), reply.body
    reply = labelling.ask("/rerank", {"query": "a", "texts": ["b"]})
    assert refused(reply, 424, "Backend").endswith("call POST /predict")
    reply = labelling.ask("/v1/rerank", BODY)
    assert reply.json["message"].startswith("model: gives 3 scores, and reranking takes one")


def test_parameters_of_huggingface_hub_make_lists_of_labels(
    labelling: HttpService, classifying: Runtime
) -> None:
    [expected] = classifying.classify(["a text"])

    def ask(**parameters: Any) -> Any:
        body = {"inputs": "a text", "parameters": parameters}
        return labelling.ask("/predict", body).json

    for parameters, most in (({}, 3), ({"top_k": 2}, 2), ({"function_to_apply": "softmax"}, 3)):
        [labels] = ask(**parameters)
        assert [each["label"] for each in labels] == [each.label for each in expected[:most]]
        assert labels[0]["score"] == pytest.approx(expected[0].score, abs=1e-6)
    [[likeliest]] = ask(function_to_apply="none", top_k=1)
    assert likeliest["score"] == pytest.approx(expected[0].logit, abs=1e-5)
    refusal = ask(function_to_apply="sigmoid")
    assert refusal["error"] == "function_to_apply: must be one of none, softmax"
    assert ask(top_k=-1)["error"].startswith("top_k: must be a whole number from 0")


def test_tokens_are_not_classified_as_texts(tmp_path_factory: pytest.TempPathFactory) -> None:
    with (
        Runtime(scorers.bundle(tmp_path_factory, "tagger"), threads=1) as runtime,
        http_service(runtime) as service,
    ):
        reply = service.ask("/predict", {"inputs": "a text"})
        assert refused(reply, 422, "Validation").startswith("model: has scores of each token")
        reply = service.ask("/pooling", {"input": "a text", "task": "classify"})
        assert reply.json["message"].startswith("task: has scores of each token")
        expected = runtime.scores(["b", "a text"])
        for fields, values in (({}, "values"), ({"use_activation": False}, "logits")):
            found = service.ask("/pooling", {"input": ["b", "a text"], **fields}).json["data"]
            for ours, theirs in zip(found, expected, strict=True):
                np.testing.assert_allclose(ours["data"], getattr(theirs, values), atol=1e-5)


def test_a_model_for_vectors_ranks_nothing() -> None:
    with http_service() as service:
        reply = service.ask("/v1/rerank", BODY)
        assert (reply.status, reply.json["error"]["param"]) == (400, "model")
        assert "this model gives no scores" in reply.json["message"]


def test_pairs_are_scored_as_by_vllm(service: HttpService, ranking: Runtime) -> None:
    scores = ranking.scores([(QUERY, "red"), (QUERY, "green")])
    for body in (
        {"queries": QUERY, "documents": ["red", "green"]},
        {"queries": [QUERY], "items": ["red", "green"]},
        {"text_1": [QUERY, QUERY], "text_2": ["red", "green"]},
        {"data_1": QUERY, "data_2": ["red", "green"], "use_activation": False},
    ):
        for path in ("/score", "/v1/score"):
            found = service.ask(path, body).json
            expected = [
                (each.logits if "use_activation" in body else each.values)[0] for each in scores
            ]
            np.testing.assert_allclose([e["score"] for e in found["data"]], expected, atol=1e-5)
        assert [each["index"] for each in found["data"]] == [0, 1]


def test_a_model_for_vectors_scores_pairs_by_cosine_as_vllm(runtime: Runtime) -> None:
    firsts, seconds = ["find red", "green"], ["red", "a planet"]
    vectors = runtime.encode([*firsts, *seconds], normalize=True)
    with http_service(runtime, max_items=30) as service:
        for texts, expected in (
            (firsts, (vectors[:2] * vectors[2:]).sum(axis=1)),
            (firsts[:1], vectors[2:] @ vectors[0]),
            (firsts[0], vectors[2:] @ vectors[0]),
        ):
            reply = service.ask("/score", {"text_1": texts, "text_2": seconds})
            found = [each["score"] for each in reply.json["data"]]
            np.testing.assert_allclose(found, expected, atol=1e-5)
        for body, message in (
            ({"text_1": "a", "text_2": ["b", ""]}, "text_2[1]: is empty"),
            ({"text_1": ["a", ""], "text_2": ["b", "c"]}, "text_1[1]: is empty"),
            ({"text_1": "", "text_2": "b"}, "text_1: is empty"),
            ({"text_1": ["a"] * 20, "text_2": ["b"] * 20}, "text_2: has 40 entries"),
        ):
            reply = service.ask("/score", body)
            assert (reply.status, reply.json["message"].startswith(message)) == (400, True), body


def test_texts_are_classified_as_by_infinity(labelling: HttpService, classifying: Runtime) -> None:
    expected = classifying.classify(["b", "a text"])
    body = {"input": ["b", "a text"], "model": "default/not-specified"}
    for raw in (False, True):
        found = labelling.ask("/classify", body | {"raw_scores": raw}).json
        assert found["object"] == "classify"
        for labels, its in zip(found["data"], expected, strict=True):
            assert [each["label"] for each in labels] == [each.label for each in its]
            scores = [each.logit if raw else each.score for each in its]
            np.testing.assert_allclose([each["score"] for each in labels], scores, atol=1e-5)


def test_texts_are_classified_as_by_vllm(labelling: HttpService, classifying: Runtime) -> None:
    [expected] = classifying.scores(["a text"])
    body = {"input": ["b", "a text"], "model": labelling.model.name}
    found = labelling.ask("/classify", body).json["data"][1]
    assert found["label"] == expected.labels[int(expected.logits.argmax())]
    np.testing.assert_allclose(found["probs"], expected.values, atol=1e-6)
    assert found["num_classes"] == len(found["probs"]) == 3
    for fields, values in (({}, expected.values), ({"use_activation": False}, expected.logits)):
        pooled = labelling.ask("/pooling", body | fields).json["data"][1]
        np.testing.assert_allclose(pooled["data"], values, atol=1e-5)
    reply = labelling.ask("/pooling", body | {"task": "token_classify"})
    assert reply.json["message"].startswith("task: this model has scores of a text")


def test_the_names_of_labels_count_in_the_size_of_an_answer(classifying: Runtime) -> None:
    with http_service(classifying, max_stream_output_bytes=1024) as service:
        for path, field, inputs in (
            ("/predict", "inputs", [["a"]] * 40),
            ("/classify", "input", ["a"] * 40),
        ):
            assert service.ask(path, {field: inputs[:10]}).status == 200
            reply = service.ask(path, {field: inputs})
            assert reply.status in (400, 422)
            assert f"{field}: " in reply.body.decode()
            assert "over 1024" in reply.body.decode()


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        ("/score", {"text_1": "a", "text_2": ["b", ""]}, "text_2[1]: is empty"),
        ("/score", {"text_1": "", "text_2": ["b"]}, "text_1: is empty"),
        ("/score", {"text_1": ["a", ""], "text_2": ["b", "c"]}, "text_1[1]: is empty"),
        ("/score", {"text_1": ["a", "b"], "text_2": ["c"]}, "text_2: has 1 entries for 2"),
        ("/score", {"queries": "a"}, "documents: must be a text, or a list of texts"),
        ("/score", {"text_1": "a", "text_2": "b", "instruction": "Find"}, "instruction: is not"),
        ("/score", {"text_1": "a", "text_2": "b", "instruction": 1}, "instruction: must be a text"),
        ("/classify", {"input": ["a", ""]}, "input[1]: is empty"),
        ("/classify", {"input": "a", "truncate_prompt_tokens": 8}, "truncate_prompt_tokens: is"),
    ],
)
def test_what_vllm_could_not_score_is_named(
    service: HttpService, path: str, body: dict[str, Any], message: str
) -> None:
    reply = service.ask(path, body)
    assert reply.status == 400
    assert reply.json["message"].startswith(message)
