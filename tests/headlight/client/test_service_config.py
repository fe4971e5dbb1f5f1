"""The settings that the docs give to clients in other languages are those of the Python client."""

from __future__ import annotations

import json
import re
from pathlib import Path

from headlight.client.channel import DEFAULT_OPTIONS, SERVICE, SERVICE_CONFIG, UNARY
from headlight.pb import headlight_pb2 as pb

README = Path(__file__).resolve().parents[3] / "deploy" / "README.md"


def test_the_documented_service_config_is_that_of_the_client() -> None:
    (shown,) = re.findall(r"```json\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert json.loads(shown) == SERVICE_CONFIG


def test_the_documented_dns_interval_is_that_of_the_client() -> None:
    milliseconds = dict(DEFAULT_OPTIONS)["grpc.dns_min_time_between_resolutions_ms"]
    assert f"`grpc.dns_min_time_between_resolutions_ms` to {milliseconds}." in README.read_text(
        encoding="utf-8"
    )


def test_the_blocking_client_enables_grpc_retries_except_for_streams() -> None:
    service = pb.DESCRIPTOR.services_by_name[SERVICE.rpartition(".")[2]]
    assert {method.name for method in service.methods if not method.server_streaming} == set(UNARY)
