"""Compare over a real socket: sizes, limits, memory, waves and streams, without a model."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import grpc
import pytest

from headlight.comparison import CompareSpec
from headlight.errors import InvalidInput
from headlight.evidence_methods import EVIDENCE_METHODS
from headlight.pb import headlight_pb2 as pb
from headlight.results import ModelRef
from headlight.runtime.comparison.comparison_layout import ComparisonLayout, comparison_outputs
from headlight_service.core.admission.admission_control import Admission
from headlight_service.core.admission.answer_window import AnswerWindow
from headlight_service.core.admission.estimates import WaitEstimate
from headlight_service.core.requests.answer import Answer, Prepared
from headlight_service.core.requests.request import ComparisonRequest, OutputSpec
from headlight_service.frontends.contract.comparison_forms import CompareForm
from tests.service.calls import details_of, refused, text_of, until
from tests.service.conftest import Serve, Service
from tests.service.fakes import DIM, FakeRuntime
from tests.service.frontends.grpc.test_encode_stream import ask, frames_of, kinds

INVALID, EXHAUSTED = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.RESOURCE_EXHAUSTED
LATE, HIDE, ATTEND = (
    pb.EvidenceRequest(method=method, unit=pb.UNIT_TOKEN)
    for method in (
        pb.EVIDENCE_METHOD_LATE_INTERACTION,
        pb.EVIDENCE_METHOD_OCCLUSION,
        pb.EVIDENCE_METHOD_ATTENTION,
    )
)
FORMS: dict[str, dict[str, Any]] = {
    "scores": {},
    "sorted": {"sort": True},
    "late interaction": {"late_interaction": pb.LateInteraction()},
    "evidence": {"evidence": [LATE, HIDE, ATTEND]},
    "best": {"evidence": [pb.EvidenceRequest(unit=pb.UNIT_TOKEN, top_k=2)]},
    "matrix": {"matrix": pb.SimilarityMatrix()},
    "halves": {"matrix": pb.SimilarityMatrix(dtype=pb.DATA_TYPE_FLOAT16)},
    "all": {
        "late_interaction": pb.LateInteraction(),
        "evidence": [HIDE, LATE],
        "matrix": pb.SimilarityMatrix(),
    },
}

ROOMY: dict[str, Any] = {"max_request_tokens": 131072, "max_queue_tokens": 262144}


def of(*lengths: int, **fields: Any) -> pb.CompareRequest:
    """Return a request with passages of so many tokens, and a query of three."""
    return pb.CompareRequest(query=text_of(3), passages=map(text_of, lengths), **fields)


def data_of(answer: pb.CompareResponse) -> int:
    """Return the bytes of all numbers of an answer."""
    size = 0
    for passage in answer.passages:
        size += 4 + 4 * passage.HasField("max_sim_mean") + len(passage.matrix.data)
        for evidence in passage.evidence:
            size += len(evidence.weights.data) + len(evidence.matched_cosines.data)
    return size


def admission_of(service: Service) -> Admission:
    return service.model.admission


async def test_a_dry_run_has_the_size_and_runs_nothing(service: Service) -> None:
    for form in FORMS.values():
        computed = len(service.engine.batches)
        planned = await service.stub.Compare(of(4, 2, 7, dry_run=True, **form))
        assert len(service.engine.batches) == computed
        answer = await service.stub.Compare(of(4, 2, 7, **form))
        await service.in_flight.idle()
        assert admission_of(service).outputs.held == 0
        assert planned.data_bytes == answer.data_bytes == data_of(answer)
        assert [each.item for each in planned.passages] == sorted(
            [each.item for each in answer.passages],
            key=lambda item: [4, 2, 7].index(item.token_count),
        )
        assert {len(each.evidence) for each in planned.passages} == {0}
        usage = pb.Usage(token_count=16, prompt_token_count=0, original_token_count=16)
        assert answer.usage == planned.usage == usage


async def test_token_vectors_are_held_until_they_are_compared(service: Service) -> None:
    fields = {"late_interaction": pb.LateInteraction(), "evidence": [HIDE]}
    outputs = admission_of(service).outputs
    call = await service.hold(service.stub.Compare(of(500, **fields)))
    whole = outputs.held
    with admission_of(service).lock:
        others = admission_of(service).tokens.free
        admission_of(service).tokens.take(others)
    service.engine.gate.set()
    await until(lambda: admission_of(service)._waiting.count > 0)  # its first wave
    assert whole - outputs.held >= 4 * DIM * (3 + 500), "the vectors are compared"
    with admission_of(service).lock:
        admission_of(service).give_tokens(WaitEstimate(1), others, "interactive")
    answer = await call
    await service.in_flight.idle()
    assert outputs.held == 0
    hidden = [item.occluded for batch in service.engine.batches for item in batch]
    assert sorted(hidden) == [(), (), *((at,) for at in range(500))]
    assert list(answer.passages[0].evidence[0].weights.shape) == [500]


class Small:
    """Form of a small answer."""

    def overhead_bytes(self, ref: ModelRef, prepared: Prepared, plan: ComparisonLayout) -> int:
        return 7


async def test_too_many_token_vectors_are_refused_by_name(serve: Serve) -> None:
    spec = CompareSpec(late_interaction=True)
    outputs = OutputSpec(**comparison_outputs(spec, FakeRuntime().model()), token_info=True)
    async with serve(
        max_output_bytes=1 << 20, max_unary_response_bytes=1 << 19, **ROOMY
    ) as service:
        wanted = ComparisonRequest(["word " * 1500] * 60, outputs, spec=spec)
        handle = service.pipeline.submit(wanted, Small())
        with pytest.raises(
            InvalidInput,
            match=r"^passages: their vectors and the answer would take \d+ bytes, over",
        ):
            await asyncio.to_thread(handle.result)
        assert service.engine.batches == []
        assert admission_of(service).outputs.held == admission_of(service).requests.held == 0


async def test_a_stream_holds_the_vectors_until_they_are_compared_and_then_the_answer(
    service: Service,
) -> None:
    spec, window = CompareSpec(late_interaction=True), AnswerWindow(1 << 30, 0)
    outputs = OutputSpec(**comparison_outputs(spec, FakeRuntime().model()), token_info=True)
    service.engine.gate.clear()
    wanted = ComparisonRequest(["word", "word " * 500], outputs, spec=spec)
    handle = service.pipeline.submit(wanted, Small(), window=window)
    await service.started()
    rows = 4 * DIM * (1 + 500 + 2)
    assert window._held == handle.answer_bytes == rows + 4 * 500 + 7
    service.engine.gate.set()
    await asyncio.to_thread(handle.result)
    assert window._held == handle.answer_bytes == 7
    handle.close()
    assert window._held == admission_of(service).outputs.held == 0


async def test_a_caller_that_disconnects_releases_everything(service: Service) -> None:
    admission = admission_of(service)
    call = await service.hold(service.stub.Compare(of(9, evidence=[HIDE, LATE])))
    others = admission.tokens.free
    admission.tokens.take(others)
    service.engine.gate.set()
    await until(lambda: admission.tokens.held == others)  # the whole inputs are computed
    call.cancel()
    await service.in_flight.idle()
    assert service.metric("headlight_cancelled_total", stage="queue") == 1
    assert (admission.tokens.held, admission.outputs.held, admission.requests.held) == (
        others,
        0,
        0,
    )


async def test_it_is_counted_and_timed_as_an_encoding(service: Service) -> None:
    answer = await service.stub.Compare(of(4, 4, evidence=[HIDE]))
    sent = service.metric("headlight_output_bytes_total", output="comparison")
    assert sent == answer.data_bytes
    stage = {"model": "fake", "priority": "interactive", "stage": "total"}
    assert service.sample("headlight_stage_seconds_count", **stage) == 1
    texts = service.metric("headlight_texts_total", priority="interactive")
    assert texts == 3 + 8, "an encoding for each hidden unit"
    assert answer.timings.total_ns > answer.timings.infer_ns > 0


async def test_the_whole_work_is_checked_against_the_deadline(single: Service) -> None:
    first = await single.hold(single.stub.Compare(of(2)))
    single.model.estimate.worked_off(tokens=1000, seconds=60.0)
    call = single.stub.Compare(of(100, evidence=[HIDE]), timeout=300)
    error = await refused(call, EXHAUSTED)
    assert details_of(error)["ErrorInfo"].reason == "WAIT_BEYOND_DEADLINE"
    single.engine.gate.set()
    await first


SPANS = pb.TextSpans(spans=[pb.TextSpan(start=0, end=4)])
REFUSED: dict[str, tuple[pb.CompareRequest, str, str]] = {
    "no passages": (of(), "passages", "has 0 entries; give 1 to 2047"),
    "10,000 passages": (of(*[1] * 10_000), "passages", "has 10000 entries; give 1 to 2047"),
    "no query": (pb.CompareRequest(passages=[text_of(1)]), "query", "is empty; set text or ids"),
    "empty query": (
        pb.CompareRequest(query=pb.Input(text=""), passages=[text_of(1)]),
        "query.text",
        "is empty; give at least one character",
    ),
    "empty passage": (
        pb.CompareRequest(query=text_of(1), passages=[text_of(1), pb.Input(text="")]),
        "passages[1].text",
        "is empty",
    ),
    "many tokens": (of(*[1900] * 100), "passages", "have more than 131072 tokens together"),
    "more than all methods": (
        of(1, evidence=[LATE] * (len(EVIDENCE_METHODS) + 1)),
        "evidence",
        "has 7 entries; give at most 6",
    ),
    "twice": (of(1, evidence=[HIDE, HIDE]), "evidence[1].method", "occlusion is requested twice"),
    "method": (of(1, evidence=[pb.EvidenceRequest(method=9)]), "evidence[0].method", "9 is not"),  # type: ignore[arg-type]
    "unit": (of(1, evidence=[pb.EvidenceRequest(unit=9)]), "evidence[0].unit", "9 is not"),  # type: ignore[arg-type]
    "lists of spans": (
        of(1, evidence=[pb.EvidenceRequest(unit=pb.UNIT_SPAN, spans=[SPANS] * 2)]),
        "evidence[0].spans",
        "has 2 lists for 1 passages",
    ),
    "missing spans": (
        of(1, 2, evidence=[pb.EvidenceRequest(unit=pb.UNIT_SPAN, spans=[SPANS])]),
        "evidence[0].spans",
        "has 1 lists for 2 passages",
    ),
    "spans of tokens": (
        of(1, evidence=[pb.EvidenceRequest(unit=pb.UNIT_TOKEN, spans=[SPANS])]),
        "evidence[0].spans",
        'are of unit "span" alone',
    ),
    "many spans": (
        of(
            1,
            evidence=[
                pb.EvidenceRequest(
                    unit=pb.UNIT_SPAN, spans=[pb.TextSpans(spans=[pb.TextSpan()] * 3000)]
                )
            ],
        ),
        "evidence[0].spans[0].spans",
        "has 3000 entries; give at most 2000",
    ),
    "layers": (
        of(1, evidence=[pb.EvidenceRequest(method=pb.EVIDENCE_METHOD_ATTENTION, layers=[3])]),
        "evidence[0].layers[0]",
        "is 3; valid are -3 .. 2",
    ),
    "matrix": (
        of(40, matrix=pb.SimilarityMatrix(max_bytes=479)),
        "matrix.max_bytes",
        "the matrices have 480 bytes, over the 479 allowed",
    ),
    "matrix type": (
        of(1, matrix=pb.SimilarityMatrix(dtype=pb.DATA_TYPE_UINT8)),
        "matrix.dtype",
        "3 is not known",
    ),
    "large": (
        of(*[1000] * 60, evidence=[LATE, HIDE, ATTEND]),
        "passages",
        "the answer may have ",
    ),
}


async def test_bad_input_and_limits_are_refused_by_name(serve: Serve) -> None:
    async with serve(**ROOMY) as service:
        for request, field, problem in REFUSED.values():
            error = await refused(service.stub.Compare(request), INVALID)
            assert (error.details() or "").startswith(f"{field}: {problem}")
            assert details_of(error)["BadRequest"].field_violations[0].field == field
        await service.in_flight.idle()
        assert service.engine.batches == []
        assert admission_of(service).outputs.held == admission_of(service).requests.held == 0


async def test_an_input_and_a_target_of_too_many_tokens_are_refused_as_the_input(
    serve: Serve,
) -> None:
    request = pb.OccludeRequest(input=text_of(1500), target_text="word " * 1500)
    async with serve(max_request_tokens=2000) as service:
        error = await refused(service.stub.Occlude(request), INVALID)
    assert (error.details() or "").startswith("input: have more than 2000 tokens together")


async def test_without_room_for_a_passage_the_remedy_is_the_option(serve: Serve) -> None:
    async with serve(max_items=1) as service:
        error = await refused(service.stub.Compare(of(1)), INVALID)
    assert "--max-items 2 or more" in (error.details() or "")


async def test_unknown_fields_of_a_newer_client_are_refused(service: Service) -> None:
    for part in ("evidence", "matrix", "late_interaction"):
        request = of(2)
        inner: Any = request.evidence.add() if part == "evidence" else getattr(request, part)
        inner.MergeFromString(b"\xa0\x06\x01")  # field 100
        error = await refused(service.stub.Compare(request), INVALID)
        field = details_of(error)["BadRequest"].field_violations[0].field
        assert field == ("evidence[0]" if part == "evidence" else part)
        assert "asks for something that this server does not know" in (error.details() or "")


@pytest.mark.parametrize(
    ("changes", "field"),
    [({"attend": False}, "evidence[0].method"), ({"pooling": "max"}, "evidence[0].method")],
    ids=["without attention", "max"],
)
async def test_a_method_that_the_model_cannot_have_is_refused(
    serve: Serve, changes: dict[str, Any], field: str
) -> None:
    async with serve(FakeRuntime(**changes)) as service:
        error = await refused(service.stub.Compare(of(2, evidence=[ATTEND])), INVALID)
        assert details_of(error)["BadRequest"].field_violations[0].field == field
        answer = await service.stub.Compare(of(2, evidence=[LATE, HIDE]))
    assert len(answer.passages[0].evidence) == 2


async def test_the_pooled_token_is_not_hidden(serve: Serve) -> None:
    async with serve(FakeRuntime(pooling="last")) as service:
        answer = await service.stub.Compare(of(4, evidence=[HIDE]))
    assert list(answer.passages[0].evidence[0].units.tokens) == [0, 1, 2]


async def test_prompts_of_query_and_passages_have_defaults_of_their_own(serve: Serve) -> None:
    prompts = {"query": "q: ", "passage": "p: ", "other": "o: "}
    runtime = FakeRuntime(prompts=prompts, default_prompt="other")
    async with serve(runtime) as service:
        request = pb.CompareRequest(query=pb.Input(text="a"), passages=[pb.Input(text="b")])
        await service.stub.Compare(request)
        request.query_prompt_name = "other"
        request.passage_prompt_text = ""
        await service.stub.Compare(request)
        await service.stub.Occlude(pb.OccludeRequest(input=pb.Input(text="c d"), target_text="t"))
        request.passage_prompt_name = "none"
        error = await refused(service.stub.Compare(request), INVALID)
    assert (error.details() or "").startswith("passage_prompt_name: is not a prompt")
    assert runtime.tokenizer is not None
    read = runtime.tokenizer.texts
    assert read == ["q: a", "p: b", "o: a", "b", "o: c d", "q: t"]


def streamed(request_id: str, request: pb.CompareRequest) -> pb.EncodeStreamRequest:
    return pb.EncodeStreamRequest(id=request_id, compare=request)


async def test_a_stream_answers_comparisons_beside_encodings(service: Service) -> None:
    wanted = of(4, 9, evidence=[LATE, HIDE], sort=True)
    requests = [ask("encode"), streamed("compare", wanted), streamed("bad", of()), ask("again")]
    expected = await service.stub.Compare(wanted)
    frames = await frames_of(service.stub.EncodeStream(iter(requests)))
    await service.in_flight.idle()
    assert admission_of(service).outputs.held == 0
    assert kinds(frames, "encode") == kinds(frames, "again") == ["response"]
    assert kinds(frames, "compare") == ["comparison"]
    [error] = [frame.error for frame in frames if frame.id == "bad"]
    assert error.field == "passages"
    [found] = [frame.comparison for frame in frames if frame.id == "compare"]
    expected.ClearField("timings")
    found.ClearField("timings")
    assert found == expected


async def test_a_stream_encodes_comparisons_beside_the_event_loop(
    monkeypatch: pytest.MonkeyPatch, service: Service
) -> None:
    threads, message = list[threading.Thread](), CompareForm.message

    def recorded(form: CompareForm, answer: Answer) -> pb.CompareResponse:
        threads.append(threading.current_thread())
        return message(form, answer)

    monkeypatch.setattr(CompareForm, "message", recorded)
    frames = await frames_of(service.stub.EncodeStream(iter([streamed("a", of(4))])))
    assert kinds(frames, "a") == ["comparison"]
    assert len(threads) == 1
    assert threads[0] is not threading.current_thread(), "which has the event loop"


async def test_a_frame_of_a_stream_is_limited(serve: Serve) -> None:
    request = of(*[1000] * 60, evidence=[LATE, HIDE, ATTEND])
    async with serve(
        max_unary_response_bytes=1 << 30, max_output_bytes=4 << 30, **ROOMY
    ) as service:
        call = service.stub.EncodeStream(iter([streamed("large", request)]))
        [frame] = await frames_of(call)
        assert service.engine.batches == []
    assert (frame.error.field, frame.WhichOneof("frame")) == ("passages", "error")
    assert "over 3145728" in frame.error.message


async def test_a_target_is_compared_with_the_input(service: Service) -> None:
    call = await service.hold(
        service.stub.Occlude(pb.OccludeRequest(input=text_of(5), target_text="word word"))
    )
    held = admission_of(service).outputs.held
    service.engine.gate.set()
    by_text = await call
    plain = await service.stub.Occlude(pb.OccludeRequest(input=text_of(5)))
    vector = pb.TargetVector(values=[1, 0, 0, 0])
    by_vector = await service.stub.Occlude(
        pb.OccludeRequest(input=text_of(5), target_vector=vector)
    )
    request = pb.OccludeRequest(input=text_of(5), target_vector=pb.TargetVector(values=[1]))
    error = await refused(service.stub.Occlude(request), INVALID)
    assert held == by_text.ByteSize() + 2 * 4 * DIM, "vectors of input and target"
    assert (plain.HasField("fall"), plain.HasField("similarity")) == (False, False)
    for answer in (by_vector, by_text):
        assert answer.moved == plain.moved
        assert list(answer.fall.shape) == [5]
        assert -1 <= answer.similarity <= 1.0001
    assert (error.details() or "") == "target_vector: has 1 numbers; give the 4 of a pooled vector"
