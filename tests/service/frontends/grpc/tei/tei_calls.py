"""Calls of tei.v1 as its clients make them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import grpc
from google.protobuf.message_factory import GetMessageClass

from headlight_service.frontends.grpc.tei import tei_messages as pb

SERVICES = {
    method.name: service
    for service in pb.DESCRIPTOR.services_by_name.values()
    for method in service.methods
}


def call(channel: grpc.aio.Channel, name: str, request: Any) -> Any:
    """Start a call of a method by its name; `request` is a list of messages for a stream."""
    service = SERVICES[name]
    method = service.methods_by_name[name]
    kinds = {
        (False, False): channel.unary_unary,
        (True, False): channel.stream_unary,
        (True, True): channel.stream_stream,
    }
    make: Any = kinds[method.client_streaming, method.server_streaming]
    multi = make(
        f"/{service.full_name}/{name}",
        request_serializer=GetMessageClass(method.input_type).SerializeToString,
        response_deserializer=GetMessageClass(method.output_type).FromString,
    )
    return multi(request)


async def call_stream(channel: grpc.aio.Channel, name: str, requests: Sequence[Any]) -> list[Any]:
    """Return all answers of a stream."""
    return [answer async for answer in call(channel, name, requests)]
