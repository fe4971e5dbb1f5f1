"""Priorities that the clients and the command line send."""

from __future__ import annotations

from pathlib import Path

import pytest

from headlight import Client, InvalidInput
from headlight.cli.commands import main
from headlight.outputs.contract import numbers_of
from headlight.pb import headlight_pb2 as pb
from headlight.spec import PRIORITIES
from headlight.wire import reading_codec
from tests.headlight.conftest import Pipe
from tests.headlight.fake_server import FakeServicer


def test_each_request_of_a_long_list_has_the_priority(
    client: Client, servicer: FakeServicer
) -> None:
    client.encode(["a"] * 30, priority="bulk")
    assert len(servicer.encoded) > 1
    assert {request.priority for request in servicer.encoded} == {pb.PRIORITY_BULK}


def test_priority_names_match_their_enum_numbers() -> None:
    for name in PRIORITIES:
        assert reading_codec.priority_of(numbers_of("Priority")[name]) == name
    assert reading_codec.priority_of(pb.PRIORITY_UNSPECIFIED) == "interactive"
    assert set(numbers_of("Priority")) == set(PRIORITIES)
    with pytest.raises(
        InvalidInput, match="priority: 7 is not known to this server; see the contract, or leave"
    ):
        reading_codec.priority_of(7)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["embed", "one"], pb.PRIORITY_UNSPECIFIED),
        (["embed"], pb.PRIORITY_BULK),  # standard input
        (["embed", "--file", "FILE"], pb.PRIORITY_BULK),
        (["embed", "--file", "FILE", "--priority", "interactive"], pb.PRIORITY_INTERACTIVE),
        (["embed", "one", "--priority", "bulk"], pb.PRIORITY_BULK),
        (["heads", "--file", "FILE"], pb.PRIORITY_BULK),
        (["heads", "one two three"], pb.PRIORITY_UNSPECIFIED),
        (["attend", "--file", "FILE"], pb.PRIORITY_UNSPECIFIED),  # one text, for a person
        (["attend", "one", "--priority", "bulk"], pb.PRIORITY_BULK),
    ],
)
def test_the_command_line_sends_files_and_pipes_as_bulk(
    target: str,
    servicer: FakeServicer,
    monkeypatch: pytest.MonkeyPatch,
    pipe: Pipe,
    tmp_path: Path,
    arguments: list[str],
    expected: int,
) -> None:
    pipe(b"one two three\n")
    (tmp_path / "FILE").write_text("one two three\n")
    monkeypatch.chdir(tmp_path)
    assert main([*arguments, "--target", target]) == 0
    assert {request.priority for request in servicer.encoded} == {expected}
