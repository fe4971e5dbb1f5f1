"""Every refusal of the service, in the words of the command line."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from headlight.cli.commands import main, parser
from headlight.cli.error_advice import advice, in_words
from headlight.cli.files import PARTIAL
from headlight.errors import Unauthenticated, Unavailable
from tests.headlight.fake_server import FakeServicer, Refusal

ROOT = Path(__file__).resolve().parents[3]
INVALID, SHED = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.RESOURCE_EXHAUSTED
# Names of fields, messages and parts of the wire, which a user of the command line never sees.
OF_THE_WIRE = re.compile(
    r"inputs\[|outputs\.|prompt_text|(?<!--)\btruncation\b|GetModel|EncodeStream|\breplica\b|metadata"
    r"|\bfield\b|\bcontract\b|\.proto\b|\bsend\b"
)
SAID = (
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
    "and prompt_text are both set; send one of them",  # argparse refuses both options
    "its bytes are no message of the contract",  # a server that is not ours
}


@pytest.mark.parametrize(
    ("arguments", "refusal", "says"),
    [
        (
            ["attend", "a"],
            "inputs[0].text: has 70 tokens, the model takes 64; shorten it or ask for truncation",
            (
                "the text: has 70 tokens, the model takes 64; "
                "shorten it, or cut it by --truncate end"
            ),
        ),
        (
            ["tokens", "a", "b"],
            "inputs[1].text: has 9000 characters; at most 4096 are read; shorten it, or split it",
            "text 2: has 9000 characters; at most 4096 are read; shorten it, or split it",
        ),
        (
            ["embed", "a"],
            "truncation: 7 is not known to this server; see the contract, or leave the field out",
            "--truncate: 7 is not known to this server; leave the option out",
        ),
        (
            ["embed", "a"],
            "priority: 7 is not known to this server; see the contract, or leave the field out",
            "--priority: 7 is not known to this server; leave the option out",
        ),
        (
            ["embed", "a", "--prompt-name", "x"],
            "prompt_name: is not a prompt of this model; choose query, or use prompt_text",
            "--prompt-name: is not a prompt of this model; choose query, or use --prompt",
        ),
        (
            ["embed", "a", "--prompt-name", "x"],
            "prompt_name: is not a prompt of this model; choose none, or use prompt_text",
            "--prompt-name: is not a prompt of this model; it has none; use --prompt",
        ),
        (
            ["embed", "1 2", "--token-ids", "--prompt", "x"],
            (
                "inputs[0].ids: a prompt is put before a text, but ids are used unchanged; "
                "leave it out"
            ),
            "--prompt: is put before a text, but ids are used unchanged; leave it out",
        ),
        (
            ["embed", "a", "--no-normalize"],
            (
                "outputs.pooled.normalize: int8 was calibrated on vectors normalised; "
                "leave normalize out"
            ),
            (
                "--normalize: int8 was calibrated on vectors normalised; "
                "leave out --normalize and --no-normalize"
            ),
        ),
        (
            ["embed", "a"],
            "outputs.pooled.dtypes[0]: int8 of 8 dimensions needs their ranges",
            "--dtype: int8 of 8 dimensions needs their ranges",
        ),
        (
            ["embed", "a"],
            "inputs: have more than 64 tokens together; split the request",
            "the texts: have more than 64 tokens together; give fewer or shorter texts",
        ),
        (
            ["attend", "a"],
            (
                "outputs.attention: this server was started with --attention off; "
                "GetModel lists the outputs"
            ),
            (
                "attention: this server was started with --attention off; "
                "`headlight info` lists what it gives"
            ),
        ),
        (
            ["attend", "a"],
            (
                "outputs.attention: the answer would have 99 bytes, over 9; 2 of these 4 layers "
                "would fit; ask for fewer layers or inputs per request, or reduce attention"
            ),
            (
                "attention: the answer would have 99 bytes, over 9; 2 of these 4 layers would "
                "fit; choose a layer by --layer, or give fewer or shorter texts"
            ),
        ),
        (
            ["attend", "a"],
            "inputs[0].text: this model takes ids",
            "the text: this model takes token ids, as of `headlight embed --token-ids`",
        ),
        (
            ["embed", "a"],
            "outputs: asks for something that this server does not know; it is older than the "
            "client",
            "the request: asks for something that this server does not know; it is older than "
            "this command",
        ),
        (
            ["embed", "a"],
            "the message cannot be decoded; is the client built from this server's .proto?",
            "the message cannot be decoded; are both of one version?",
        ),
    ],
)
def test_a_refusal_names_an_option_or_a_text_and_its_remedy(
    target: str,
    servicer: FakeServicer,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    refusal: str,
    says: str,
) -> None:
    if "--token-ids" in arguments:
        servicer.accepts = ("ids",)
    servicer.refusals.append(Refusal(INVALID, refusal))
    assert main([*arguments, "--target", target]) == 2
    assert capsys.readouterr().err == f"headlight: {says}\n"


def test_a_line_of_a_file_is_named_also_where_it_is_left_out(
    target: str, servicer: FakeServicer, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "texts.txt"
    path.write_text("one\ntwo\nthree\n")
    command = ["embed", "--file", str(path), "--target", target]
    problem = "has 70 tokens, the model takes 64; shorten it or ask for truncation"
    ours = "has 70 tokens, the model takes 64; shorten it, or cut it by --truncate end"
    servicer.refusals.append(Refusal(INVALID, f"inputs[1].text: {problem}"))
    assert main(command) == 2
    said = f"headlight: {path}, line 2: {ours}, or leave such lines out by --skip-bad\n"
    assert capsys.readouterr().err == said
    servicer.refusals.append(Refusal(INVALID, f"inputs[1].text: {problem}"))
    assert main([*command, "--skip-bad", "--format", "json"]) == PARTIAL
    out, err = capsys.readouterr()
    assert err.startswith(f"headlight: {path}, line 2: {ours} (skipped)\n")
    assert ours in out


@pytest.mark.parametrize(
    ("refusal", "says"),
    [
        (
            "the queue is full (9 of 8 tokens, 1 asked for); wait, or ask another replica",
            "the queue is full (9 of 8 tokens, 1 asked for); wait, or name another service by "
            "--target; try again in 2 s",
        ),
        (
            "outputs.attention: the answer would have 9 bytes; 8 of 8 are in use; wait, or ask "
            "another replica",
            "attention: the answer would have 9 bytes; 8 of 8 are in use; wait, or name another "
            "service by --target; try again in 2 s",
        ),
        (
            "too many calls are open on this replica; close idle streams, or try another replica",
            "too many calls are open on the service; name another service by --target; try again "
            "in 2 s",
        ),
    ],
)
def test_a_service_under_load_names_no_field_either(
    target: str,
    servicer: FakeServicer,
    capsys: pytest.CaptureFixture[str],
    refusal: str,
    says: str,
) -> None:
    trailing = (("grpc-retry-pushback-ms", "2000"),)
    servicer.refusals.append(Refusal(SHED, refusal, trailing))
    assert main(["embed", "a", "--target", target, "--timeout", "1"]) == 1
    assert capsys.readouterr().err == f"headlight: {says}\n"


def test_a_token_and_a_service_that_is_not_ready_have_their_remedies() -> None:
    arguments = parser().parse_args(["info", "--target", "h:1"])
    wanted = "give one by --token-file, HEADLIGHT_TOKEN_FILE or HEADLIGHT_TOKEN"
    none = "the call has no token; send it as metadata or a header, `authorization: Bearer TOKEN`"
    assert advice(Unauthenticated(none), arguments) == f"the call has no token; {wanted}"
    wrong = "the token is not one of this server's; was it replaced?"
    said = f"the token is not one of this server's; {wanted}"
    assert advice(Unauthenticated(wrong), arguments) == said
    loading = "the model is still being loaded; try again soon, or another replica"
    assert advice(Unavailable(loading), arguments) == (
        "the model is still being loaded; try again soon, or name another service by --target"
    )


def messages(path: Path) -> Iterator[str]:
    """Yield the texts in a module that may be part of a message; no docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in docstrings:
            text = str(node.value)
            if text.count(" ") > 1:
                yield text


def test_no_message_of_the_service_keeps_words_of_the_wire() -> None:
    found = [text for path in SAID for text in messages(path)]
    assert len([text for text in found if OF_THE_WIRE.search(text)]) > 20
    wrong = {text for text in found if OF_THE_WIRE.search(in_words(text))}
    assert wrong == NOT_FROM_HERE, "add the remedy to PHRASES in headlight/cli/error_advice.py"
