"""Every refusal of the service, in the words of the command line."""

from __future__ import annotations

import re
from pathlib import Path

import grpc
import pytest
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo
from google.rpc.status_pb2 import Status

from headlight.cli.commands import parser
from headlight.cli.error_advice import COMMAND_LINE, advice
from headlight.cli.files import PARTIAL
from headlight.errors import InvalidInput, Overloaded, Unauthenticated, Unavailable
from headlight.reasons import Phrase, Reason
from tests.headlight.cli.conftest import Run
from tests.headlight.fake_server import FakeServicer, Refusal, refused

ROOT = Path(__file__).resolve().parents[3]
# Names of fields, messages and parts of the wire, which a user of the command line never sees.
OF_THE_WIRE = re.compile(
    r"inputs\[|outputs\.|prompt_text|(?<!--)\btruncation\b|GetModel|EncodeStream|\breplica\b|metadata"
    r"|\bfield\b|\bcontract\b|\.proto\b|\bsend\b"
)
# What the command line can meet: its own library, and the service over gRPC.
RAISED = (
    *ROOT.glob("headlight/runtime/**/*.py"),
    *ROOT.glob("service/headlight_service/core/**/*.py"),
    *ROOT.glob("service/headlight_service/frontends/contract/[!j]*.py"),  # not those of JSON
    *ROOT.glob("service/headlight_service/frontends/grpc/*.py"),
    *ROOT.glob("service/headlight_service/frontends/grpc/calls/*.py"),
    *ROOT.glob("service/headlight_service/frontends/grpc/transport/*.py"),
    ROOT / "service/headlight_service/security/auth_tokens.py",
    ROOT / "headlight/spec.py",
    *ROOT.glob("headlight/client/**/*.py"),
    *ROOT.glob("headlight/wire/*.py"),
)
NOT_FROM_HERE = {
    Reason.ID_BYTES,
    Reason.ID_IN_USE,
    Reason.NO_MESSAGE,
    Reason.SET_TWICE,
    Reason.TWO_PROMPTS_SET,  # argparse refuses both options
    Reason.TWO_TOKENS,
}


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        (
            ["tokens", "a", "b"],
            InvalidInput(
                "inputs[1].text",
                Reason.CHARACTERS,
                characters=9000,
                most=4096,
                remedy=Phrase.SHORTEN_OR_SPLIT,
            ),
            (
                "text 2: has 9000 characters; at most 4096 are read; shorten it, or split it into "
                "several texts"
            ),
        ),
        (
            ["embed", "a"],
            InvalidInput("truncation", Reason.NOT_KNOWN, number=7),
            "--truncate: 7 is not known to this server; leave the option out",
        ),
        (
            ["embed", "a", "--no-normalize"],
            InvalidInput("outputs.pooled.normalize", Reason.INT8_CALIBRATED, form="normalised"),
            (
                "--normalize: int8 was calibrated on vectors normalised; "
                "leave out --normalize and --no-normalize"
            ),
        ),
        (
            ["embed", "a"],
            InvalidInput("outputs.pooled.dtypes[0]", Reason.INT8_RANGES, width=8, have="none"),
            (
                "--dtype: int8 of 8 dimensions needs their ranges, and this bundle has none; "
                "export it with `headlight export --calibration TEXTS`"
            ),
        ),
        (
            ["embed", "a"],
            InvalidInput("inputs", Reason.TOO_MANY_TOKENS, most=64),
            "the texts: have more than 64 tokens together; give fewer or shorter texts",
        ),
        (
            ["attend", "a"],
            InvalidInput(
                "outputs.attention",
                Reason.ANSWER_BYTES,
                size=99,
                most=9,
                fits=Phrase.LAYERS_FIT,
                fitting=2,
                among=4,
                remedy=Phrase.LESS_OF_A_REQUEST,
            ),
            (
                "attention: the answer would have 99 bytes, over 9; 2 of these 4 layers would "
                "fit; choose a layer by --layer, or give fewer or shorter texts"
            ),
        ),
        (
            ["embed", "a"],
            InvalidInput("inputs[0].head_mask", Reason.HEAD_MASK_RANGE),
            "--importance: has a value outside 0 to 1; 1 keeps a head, 0 removes it",
        ),
        (
            ["embed", "a"],
            InvalidInput("outputs", Reason.NEWER),
            "the request: asks for something that this server does not know; it is older than "
            "this command",
        ),
        (
            ["embed", "a"],
            InvalidInput("", Reason.UNDECODABLE),
            "the message cannot be decoded; are both of one version?",
        ),
    ],
)
def test_a_refusal_names_an_option_or_a_text_and_its_remedy(
    run: Run, servicer: FakeServicer, arguments: list[str], error: InvalidInput, says: str
) -> None:
    servicer.refusals.append(refused(error))
    assert run(*arguments) == (2, "", f"headlight: {says}\n")


def test_a_line_of_a_file_is_named_also_where_it_is_left_out(
    run: Run, servicer: FakeServicer, tmp_path: Path
) -> None:
    path = tmp_path / "texts.txt"
    path.write_text("one\ntwo\nthree\n")
    command = ["embed", "--file", str(path)]
    error = InvalidInput("inputs[1].text", Reason.TOO_LONG, tokens=70, most=64)
    ours = "has 70 tokens, the model takes 64; shorten it, or cut it by --truncate end"
    servicer.refusals.append(refused(error))
    said = f"headlight: {path}, line 2: {ours}, or leave such lines out by --skip-bad\n"
    assert run(*command) == (2, "", said)
    servicer.refusals.append(refused(error))
    code, out, err = run(*command, "--skip-bad", "--format", "json")
    assert code == PARTIAL
    assert err.startswith(f"headlight: {path}, line 2: {ours} (skipped)\n")
    assert ours in out


def test_a_refusal_without_a_reason_is_passed_on(run: Run, servicer: FakeServicer) -> None:
    """Of an older service, or with a reason of a newer one."""
    for metadata in ({}, {"refusal": "OF_LATER", "most": "64"}, {"refusal": "TOO_LONG"}):
        older = Refusal(grpc.StatusCode.INVALID_ARGUMENT, "inputs[1].text: is too long; shorten it")
        if metadata:
            older = refused(InvalidInput("inputs[1].text", "is too long; shorten it"))
            older.trailing = with_metadata(older, metadata)
            older.metadata = metadata
        servicer.refusals.append(older)
        said = "headlight: text 2: is too long; shorten it\n"
        assert run("embed", "a", "b") == (2, "", said)


def with_metadata(refusal: Refusal, metadata: dict[str, str]) -> tuple[tuple[str, bytes], ...]:
    status = Status(code=refusal.code.value[0], message=refusal.message)
    violation = BadRequest.FieldViolation(field=refusal.field)
    status.details.add().Pack(ErrorInfo(reason="INVALID_INPUT", metadata=metadata))
    status.details.add().Pack(BadRequest(field_violations=[violation]))
    return (("grpc-status-details-bin", status.SerializeToString()),)


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (
            Overloaded(Reason.QUEUE_FULL, 2.0, held=9, limit=8, tokens=1),
            "the queue is full (9 of 8 tokens, 1 asked for); wait, or name another service by "
            "--target; try again in 2 s",
        ),
        (
            Overloaded(
                Reason.ANSWERS_HELD,
                2.0,
                "outputs.attention",
                size=9,
                held=8,
                limit=8,
                fits=Phrase.INPUTS_FIT,
                fitting=1,
                among=2,
            ),
            "attention: the answer would have 9 bytes; 8 of 8 are in use; the first 1 of these 2 "
            "texts would fit; wait, or name another service by --target; try again in 2 s",
        ),
        (
            Unauthenticated(Reason.NO_TOKEN),
            "the call has no token; give one by --token-file, HEADLIGHT_TOKEN_FILE or "
            "HEADLIGHT_TOKEN",
        ),
        (
            Overloaded(Reason.TOO_MANY_CALLS, 2.0),
            "too many calls are open on the service; name another service by --target; try again "
            "in 2 s",
        ),
    ],
)
def test_a_service_that_does_not_serve_names_no_field_either(
    run: Run, servicer: FakeServicer, error: Overloaded | Unauthenticated, says: str
) -> None:
    servicer.refusals.append(refused(error))
    assert run("embed", "a", "--timeout", "1") == (1, "", f"headlight: {says}\n")


def test_a_token_and_a_service_that_is_not_ready_have_their_remedies() -> None:
    arguments = parser().parse_args(["info", "--target", "h:1"])
    wanted = "give one by --token-file, HEADLIGHT_TOKEN_FILE or HEADLIGHT_TOKEN"
    assert advice(Unauthenticated(Reason.NO_TOKEN), arguments) == f"the call has no token; {wanted}"
    said = f"the token is not one of this server's; {wanted}"
    assert advice(Unauthenticated(Reason.WRONG_TOKEN), arguments) == said
    assert advice(Unavailable(Reason.LOADING), arguments) == (
        "the model is still being loaded; try again soon, or name another service by --target"
    )


def test_no_message_of_the_service_keeps_words_of_the_wire() -> None:
    named = re.compile(r"Reason\.([A-Z0-9_]+)")
    met = {Reason[name] for path in RAISED for name in named.findall(path.read_text("utf-8"))}
    assert len(met) > 100
    wrong = {each for each in met - NOT_FROM_HERE if OF_THE_WIRE.search(words(each))}
    assert wrong == set(), "word it in headlight/cli/error_advice.py"


def words(reason: Reason | Phrase) -> str:
    """Return all words of a sentence, those of its remedies included."""
    template = COMMAND_LINE.sentences[reason]
    return template + "".join(
        words(Phrase[name]) for name in re.findall(r"{([A-Z0-9_]+)}", template)
    )
