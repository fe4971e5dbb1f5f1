"""Recorder of the wire before a release: `python -m tests.wire.record 0.2.0`.

A version is recorded once.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Any

import grpc
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.message import Message

from headlight.pb import headlight_pb2 as pb
from headlight.pb import headlight_pb2_grpc as pb_grpc
from tests.system.conftest import bundle_of
from tests.system.processes import ROOT, Service
from tests.wire.cases import CASES, SINCE_0_2
from tests.wire.golden import FOLDER, meaning, pack


def recorded_responses(stub: Any, method: str, requests: list[Any]) -> list[Message]:
    if method != "EncodeStream":
        return [getattr(stub, method)(requests[0], timeout=60)]
    frames: Iterable[Message] = stub.EncodeStream(iter(requests), timeout=60)
    return list(frames)


def main(version: str) -> None:
    folder, said = FOLDER / version, {}
    sides: dict[str, dict[str, list[Any]]] = {}
    before = (sys.executable, str(ROOT / "tests/wire/small_chunks.py"))
    with (
        Service([bundle_of("docs-rope"), bundle_of("docs-rerank")], before=before) as service,
        grpc.insecure_channel(service.target) as channel,
    ):
        stub = pb_grpc.HeadlightServiceStub(channel)
        for name, (method, requests) in (CASES | SINCE_0_2).items():
            sides[name] = {
                "requests": requests,
                "responses": recorded_responses(stub, method, requests),
            }
            spelled = {
                side: [meaning(each) for each in messages] for side, messages in sides[name].items()
            }
            said[name] = {"method": method, **spelled}
    folder.mkdir()  # published recordings are never overwritten
    contract = FileDescriptorProto()
    pb.DESCRIPTOR.CopyToProto(contract)
    (folder / "descriptor.bin").write_bytes(contract.SerializeToString(deterministic=True))
    for name, both in sides.items():
        for side, messages in both.items():
            pack(folder / f"{name}.{side}.bin", messages)
    (folder / "meaning.json").write_text(
        json.dumps(said, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    main(sys.argv[1])
