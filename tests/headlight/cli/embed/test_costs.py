"""Repeated work for lists with bad texts, and the time until a job gives up."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest

from headlight.cli.commands import main
from headlight.cli.files import PARTIAL
from headlight.pb import headlight_pb2 as pb
from tests.headlight.fake_server import FakeServicer, Refusal, default_limits

LINES = [f"long {number}" if number % 3 == 2 else f"text {number}" for number in range(160)]
GOOD = [line for line in LINES if "long" not in line]


@dataclasses.dataclass
class Strict(FakeServicer):
    """Fake that refuses texts that say they are long, and counts the texts it computes."""

    computed: list[int] = dataclasses.field(default_factory=list)  # texts, by request

    def check(self, request: pb.EncodeRequest) -> None:
        for place, item in enumerate(request.inputs):
            if "long" in item.text:
                raise Refusal(
                    grpc.StatusCode.INVALID_ARGUMENT, f"inputs[{place}].text: is too long"
                )
        super().check(request)
        self.computed.append(len(request.inputs))


@pytest.fixture
def servicer() -> Strict:
    return Strict(default_limits())


@pytest.fixture
def embed(target: str, tmp_path: Path) -> Callable[..., int]:
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(LINES), encoding="utf-8")
    arguments = ["embed", "--target", target, "--file", str(path), "--format", "npy"]
    arguments += ["--out", str(tmp_path / "v")]
    return lambda *options: main([*arguments, *options])


def test_refused_lines_repeat_the_work_of_others_at_most_once(
    embed: Callable[..., int], servicer: Strict, capsys: pytest.CaptureFixture[str]
) -> None:
    assert embed("--skip-bad") == PARTIAL
    assert capsys.readouterr().err.count("(skipped)") == len(LINES) - len(GOOD)
    assert len(GOOD) <= sum(servicer.computed) <= 2 * len(GOOD)


def test_an_infinite_timeout_means_no_timeout(target: str) -> None:
    assert main(["embed", "one", "two", "--target", target, "--timeout", "inf"]) == 0
