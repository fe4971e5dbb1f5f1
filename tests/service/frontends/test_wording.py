"""Each refusal has words at each edge, and nothing but its reason decides what is done about it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from headlight.cli.commands import parser
from headlight.cli.error_advice import COMMAND_LINE, advice
from headlight.errors import PYTHON, Code, HeadlightError, InvalidInput, Overloaded
from headlight.reasons import Phrase, Reason
from headlight.refusals import CONTRACT, Edge, Refusal, from_metadata, text_of, to_metadata
from headlight.wire.status_errors import error_of_status
from headlight_service.frontends.failure import failure_of
from headlight_service.frontends.grpc.grpc_status import error_status
from headlight_service.frontends.http.dialects import contract_api, openai, tei, weaviate
from headlight_service.frontends.http.dialects.home_page import EDGE
from headlight_service.frontends.http.http_status import error_response
from headlight_service.frontends.oip import inference_messages as oip
from headlight_service.frontends.oip.infer_decoding import edge_of
from headlight_service.frontends.tei.tei_requests import ONE_TEXT, SEVERAL_TEXTS

ROOT = Path(__file__).resolve().parents[3]
OIP = edge_of(oip.ModelInferRequest())
EDGES = {
    "contract": CONTRACT,
    "python": PYTHON,
    "command line": COMMAND_LINE,
    "tei, one text": ONE_TEXT,
    "tei": SEVERAL_TEXTS,
    "openai": openai.EDGE,
    "weaviate": weaviate.EDGE,
    "page": EDGE,
    "oip": OIP,
}
HOLE = re.compile(r"(?<!{){(\w+)}")
ALL = [*Reason, *Phrase]
# Arguments that phrases have, of which a refusal has those of its own.
OF_PHRASES = {hole for each in Phrase for hole in HOLE.findall(each.value) if hole.islower()}


def holes(template: str) -> set[str]:
    return {hole for hole in HOLE.findall(template) if not hole.isupper()}


@pytest.mark.parametrize("edge", EDGES.values(), ids=EDGES)
def test_each_reason_has_words_at_each_edge(edge: Edge) -> None:
    given = {hole: "7" for each in ALL for hole in holes(each.value)}
    parts = {"fits": Phrase.LAYERS_FIT, "kind": Phrase.TEXT, "remedy": Phrase.USE_PROMPT}
    assert set(edge.sentences) == set(ALL)
    for each, template in edge.sentences.items():
        # A client may have no other arguments than those that the contract's words need.
        assert holes(template) <= holes(each.value), each
        assert {hole for hole in HOLE.findall(template) if hole.isupper()} <= set(
            Phrase.__members__
        ), each
    for reason in Reason:
        args = {hole: given[hole] for hole in holes(reason.value) | OF_PHRASES} | {
            hole: part for hole, part in parts.items() if hole in holes(reason.value)
        }
        said = edge.problem(Refusal(Code.INVALID_INPUT, (), reason, args))
        assert said
        assert not re.search(r"{\w*}", said.replace("{...}", "")), said


def test_no_two_reasons_have_one_name_or_sentence() -> None:
    for kind in (Reason, Phrase):
        assert len(kind) == len(kind.__members__)
        assert all(re.fullmatch(r"[A-Z][A-Z0-9_]*", name) for name in kind.__members__)


def calls() -> Iterator[tuple[str, ast.Call]]:
    """Yield the calls that make an error, and where they stand."""
    folders = (ROOT / "headlight", ROOT / "service/headlight_service")
    kinds = {error.__name__ for error in kinds_of(HeadlightError)}
    for path in sorted(path for folder in folders for path in folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", None) in kinds:
                yield f"{path.relative_to(ROOT)}:{node.lineno}", node


def kinds_of(kind: type[HeadlightError]) -> Iterator[type[HeadlightError]]:
    yield kind
    for below in kind.__subclasses__():
        yield from kinds_of(below)


def test_who_refuses_gives_the_arguments_of_the_reason() -> None:
    """A missing one would become an internal error."""
    found = 0
    for where, call in calls():
        reason = next(
            (
                Reason[each.attr]
                for each in call.args
                if isinstance(each, ast.Attribute)
                and isinstance(each.value, ast.Name)
                and each.value.id == "Reason"
            ),
            None,
        )
        given = {each.arg for each in call.keywords}
        if reason is not None and None not in given:
            found += 1
            assert holes(reason.value) <= given, where
    assert found > 150


def test_who_refuses_input_writes_no_sentence() -> None:
    for where, call in calls():
        if isinstance(call.func, ast.Name) and call.func.id == "InvalidInput":
            problem = call.args[1]
            assert not isinstance(problem, ast.Constant | ast.JoinedStr), where


ERRORS = [
    InvalidInput("inputs[3].text", Reason.EMPTY_TEXT),
    InvalidInput("inputs[3].text", Reason.TOO_LONG, tokens=70, most=64),
    InvalidInput("prompt_name", Reason.NO_SUCH_PROMPT, names="query"),
    InvalidInput("outputs.pooled.dimensions", Reason.DIMENSIONS, value=9, width=8),
    InvalidInput(
        "outputs.attention",
        Reason.ANSWER_BYTES,
        size=99,
        most=9,
        fits=Phrase.LAYERS_FIT,
        fitting=2,
        among=4,
        remedy=Phrase.LESS_OF_ONE_MESSAGE,
    ),
    InvalidInput("outputs.attention.keys[0]", Reason.NO_SUCH_TOKEN, value=9, last=2, input=1),
    Overloaded(Reason.QUEUE_FULL, 2.0, held=9, limit=8, tokens=1),
    Overloaded(
        Reason.ANSWERS_HELD, 2.0, "outputs.hidden", size=9, held=8, limit=8, fits="", fitting=0
    ),
]


@pytest.mark.parametrize("error", ERRORS, ids=str)
def test_a_client_rebuilds_the_refusal(error: HeadlightError) -> None:
    again = error_of_status(error_status(error).frame)
    assert type(again) is type(error)
    assert again.refusal == error.refusal
    assert str(again) == str(error)


def test_metadata_of_others_are_no_refusal() -> None:
    good = to_metadata(ERRORS[4].refusal)
    assert from_metadata(Code.INVALID_INPUT, (), good) is not None
    for name, value in (("refusal", "OF_LATER"), ("remedy", "OF_LATER"), ("input", "many")):
        assert from_metadata(Code.INVALID_INPUT, (), good | {name: value}) is None
    for name in good:
        less = {each: value for each, value in good.items() if each != name}
        assert from_metadata(Code.INVALID_INPUT, (), less) is None, name


@pytest.mark.parametrize("error", ERRORS, ids=str)
def test_only_the_reason_decides(error: HeadlightError, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other words at every edge change what is said, but no status, type, field or remedy."""
    before = decisions(error)
    for edge in EDGES.values():
        other = {each: f"words of {each.name}" for each in edge.sentences}
        monkeypatch.setattr(edge, "sentences", other)
    assert decisions(error) == before
    words = f"words of {error.refusal.reason.name}"
    assert words in advice(error, parser().parse_args(["embed", "a", "b", "c", "d"]))
    for dialect in (tei, openai, weaviate, contract_api):
        failure = failure_of(error, dict)
        assert words in error_response(failure, dialect.EDGE).message


def decisions(error: HeadlightError) -> list[object]:
    """Return what edges decide about a refusal, besides its words."""
    arguments = parser().parse_args(["embed", "a", "b", "c", "d", "--timeout", "9"])
    problem = COMMAND_LINE.problem(error.refusal)
    found: list[object] = [advice(error, arguments).replace(problem, "")]
    for dialect in (tei, openai, weaviate, contract_api):
        refused = error_response(failure_of(error, dict), dialect.EDGE)
        response = dialect.encode_error(refused)
        body = response.body.decode().replace(refused.message.replace('"', '\\"'), "")
        found += [response.status, body, refused.field]
    status = error_status(error, edge=OIP)
    return [*found, status.status, status.field, status.reason, dict(status.metadata)]


@pytest.mark.parametrize(
    ("edge", "field", "name"),
    [
        (PYTHON, "inputs[3].head_mask", "head_mask"),
        (PYTHON, "inputs[3].text", "inputs[3].text"),
        (COMMAND_LINE, "outputs.pooled.dtypes[0]", "--dtype"),
        (COMMAND_LINE, "outputs.spans.windows.size", "--spans N"),
        (COMMAND_LINE, "outputs.hidden.layers[3]", "the request"),
        (ONE_TEXT, "inputs[0].text", "inputs"),
        (SEVERAL_TEXTS, "inputs[3].ids.segments", "inputs[3]"),
        (SEVERAL_TEXTS, "inputs.sentences[2].text", "inputs.sentences[2]"),
        (openai.EDGE, "inputs[3].text", "input[3]"),
        (openai.EDGE, "inputs", "input"),
        (openai.EDGE, "outputs.pooled.dimensions", "dimensions"),
        (OIP, "inputs[3].ids.segments[2]", "token_type_ids[3]"),
        (OIP, "outputs.attention.layer_runs[0]", "parameters.attention_layer"),
        (OIP, "outputs.parameters.classification", "outputs.parameters.classification"),
        (CONTRACT, "outputs.attention.layers[3]", "outputs.attention.layers[3]"),
        (CONTRACT, "X-Request-Timeout", "X-Request-Timeout"),
        (CONTRACT, "a b: [c", "a b: [c"),
    ],
)
def test_the_longest_prefix_names_a_field(edge: Edge, field: str, name: str) -> None:
    path = InvalidInput(field, "x").refusal.path
    assert text_of(path) == field
    assert edge.name(path) == name
