"""The command line against a hostile server.

One line on standard error, no data, and no control character anywhere.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

from headlight import Client, HeadlightError
from headlight.pb import headlight_pb2 as pb
from headlight.printable import escaped, json_escaped
from tests.headlight.cli.conftest import Run
from tests.headlight.fake_server import FakeServicer, Refusal

# Window title, its 8-bit form, DEL, right-to-left override, isolates, a
# forged line.
EVIL = "a\x1b]0;b\x07\x9b2J\x7f\u202ec\u2066d\u2069\u200f\u2028\u0085e\x00\r\nheadlight: f"
# C0 except the newline that ends a line, DEL, C1, direction marks and overrides, line
# separators.
RAW = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]"
)
EVERY_CONTROL = [*range(32), *range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)]


def test_every_control_character_is_escaped() -> None:
    for code in EVERY_CONTROL:
        assert escaped(f"a{chr(code)}b").isprintable(), code
        shown = json_escaped(json.dumps(chr(code), ensure_ascii=False))
        assert (json.loads(shown), shown.isprintable()) == (chr(code), True)


def test_ordinary_text_is_unchanged() -> None:
    text = "Grüße, 日本語 👩\u200d💻 می\u200cخواهم\u00a0\u3000x"
    assert escaped(text) == text
    assert json_escaped(text) == text


COMMANDS = (["embed", "one"], ["attend", "one"], ["tokens", "one"], ["heads", "one two"], ["info"])


@pytest.mark.parametrize("arguments", COMMANDS, ids=lambda arguments: arguments[0])
def test_a_message_is_one_line_without_control_characters(
    run: Run, servicer: FakeServicer, arguments: list[str]
) -> None:
    def fail(response: pb.GetModelResponse) -> None:
        raise ValueError(EVIL)  # gRPC servers turn it into a status

    servicer.refusals.append(Refusal(grpc.StatusCode.INTERNAL, EVIL))
    if arguments == ["info"]:
        servicer.change_model = fail
    code, out, err = run(*arguments)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert RAW.search(err) is None
    assert "\\x1b]0;b\\x07\\x9b2J\\x7f\\u202ec" in err


@pytest.mark.parametrize(
    "code", [grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.RESOURCE_EXHAUSTED]
)
def test_python_errors_are_one_line_without_control_characters(
    client: Client, servicer: FakeServicer, code: grpc.StatusCode
) -> None:
    for method in (client.encode, client.attend, client.tokenize):
        servicer.refusals.append(Refusal(code, EVIL))
        with pytest.raises(HeadlightError) as caught:
            method("one")
        assert str(caught.value).isprintable()


def test_a_long_message_is_truncated(client: Client, servicer: FakeServicer) -> None:
    servicer.limits.max_unary_response_bytes = 64  # so that attention is streamed
    servicer.change_frames = lambda frames: [
        pb.EncodeStreamResponse(id=frames[0].id, error=pb.Status(code=13, message="x" * 10**6))
    ]
    with pytest.raises(HeadlightError) as caught:
        client.attend("one")
    assert len(str(caught.value)) <= 2000


def evil_model(response: pb.GetModelResponse) -> None:
    for field in ("name", "version", "bundle_sha256", "provider", "precision"):
        setattr(response.model, field, EVIL)
    for field in ("positions", "pooling", "similarity", "default_prompt"):
        setattr(response.info, field, EVIL)
    response.info.accepts.append(EVIL)
    response.info.outputs.append(EVIL)
    response.info.prompts.add(name=EVIL, text=EVIL)
    response.variants.add(provider=EVIL, precision=EVIL)
    response.parity.add(output=EVIL, provider=EVIL, precision=EVIL)
    response.quality.add(provider=EVIL, precision=EVIL, texts=EVIL)


def test_a_model_description_has_no_control_characters(
    run: Run, servicer: FakeServicer, client: Client
) -> None:
    lines = len(run("info")[1].splitlines())
    servicer.change_model = evil_model
    code, out, err = run("info")
    assert (code, err, RAW.search(out)) == (0, "", None)
    assert len(out.splitlines()) == lines + 1 + 4, "a variant, a parity, and a table of quality"
    code, out, err = run("info", "--format", "json")
    assert (code, err, RAW.search(out)) == (0, "", None)
    assert json.loads(out)["name"] == EVIL == client.model().name


def test_a_wrong_model_name_is_printed_without_control_characters(
    run: Run, servicer: FakeServicer
) -> None:
    servicer.change_answer = lambda response: setattr(response.model, "name", EVIL)
    for arguments in COMMANDS[:2]:
        code, out, err = run(*arguments)
        assert (code, out, err.count("\n"), RAW.search(err)) == (1, "", 1, None)


def evil_pieces(tokens: pb.TokenInfo) -> None:
    tokens.pieces[:] = [EVIL] * len(tokens.pieces)
    tokens.starts[:] = tokens.ends[:] = [0] * len(tokens.ids)  # so that a label is the piece


@pytest.mark.parametrize("form", ["text", "json"])
def test_tokens_have_no_control_characters(run: Run, servicer: FakeServicer, form: str) -> None:
    servicer.change_tokens = lambda response: evil_pieces(response.items[0])
    code, out, err = run("tokens", "one two", "--format", form)
    assert (code, err, RAW.search(out)) == (0, "", None)
    if form == "json":
        assert json.loads(out)["tokens"][0]["pieces"] == [EVIL] * 4


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("arguments", [["attend", "one two"], ["heads", "one two"]])
def test_attention_has_no_control_characters(
    run: Run, servicer: FakeServicer, arguments: list[str], form: str, tmp_path: Path
) -> None:
    servicer.change_answer = lambda response: evil_pieces(response.items[0].tokens)
    pictures = ["--html", str(tmp_path / "page.html"), "--png", str(tmp_path / "map.png")]
    code, out, err = run(
        *arguments, "--format", form, *(pictures if arguments[0] == "attend" else [])
    )
    assert (code, RAW.search(out), RAW.search(err)) == (0, None, None)
    if form == "json":
        json.loads(out)
    if arguments[0] == "attend":
        assert RAW.search((tmp_path / "page.html").read_text(encoding="utf-8")) is None


def test_a_model_name_is_not_rendered_as_a_formula(
    run: Run, servicer: FakeServicer, tmp_path: Path
) -> None:
    def rename(response: Any) -> None:
        response.model.name = "$\\frac{$"

    servicer.change_model = servicer.change_answer = rename
    assert run("attend", "one", "--png", str(tmp_path / "map.png"))[:2] == (0, "")


def not_a_number(response: pb.EncodeResponse) -> None:
    tensor = response.pooled[0] if response.pooled else response.attention
    tensor.data = np.full(len(tensor.data) // 4, np.nan, np.float32).tobytes()


@pytest.mark.parametrize("arguments", COMMANDS[:2], ids=lambda arguments: arguments[0])
@pytest.mark.parametrize("form", ["text", "json", "npz"])
def test_a_bad_answer_is_one_line_exit_code_1_and_no_data(
    run: Run, servicer: FakeServicer, arguments: list[str], form: str, tmp_path: Path
) -> None:
    servicer.change_answer = not_a_number
    path = tmp_path / "out"
    code, out, err = run(*arguments, "--format", form, "--out", str(path))
    assert (code, out, err.count("\n"), path.exists()) == (1, "", 1, False)
    assert err.startswith("headlight: the server's answer is malformed: ")
    assert "NaN or infinite" in err


def test_a_job_ends_at_a_bad_answer_and_sends_no_more_requests(
    run: Run, servicer: FakeServicer, tmp_path: Path
) -> None:
    texts, out = tmp_path / "texts", tmp_path / "out.npy"
    texts.write_text("one\ntwo\n", encoding="utf-8")
    servicer.change_answer = not_a_number
    code, _, err = run(
        "embed", "--file", str(texts), "--format", "npy", "--out", str(out), "--skip-bad"
    )
    assert (code, len(servicer.encoded), out.exists()) == (1, 1, False)
    assert "NaN or infinite" in err
