"""Cached facts of a server are dropped if they may have caused a failure.

Whichever side detected the failure.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from headlight import AsyncClient, Client, InvalidInput
from headlight.description import ModelDescription
from headlight.errors import MixedWeights
from headlight.pb import headlight_pb2 as pb
from tests.headlight.client.test_bad_answers import METHODS
from tests.headlight.conftest import Open
from tests.headlight.fake_model import DIM, HEADS, LAYERS, OTHER_REF, REF
from tests.headlight.fake_server import FakeServicer

Ask = Callable[[Any], Any]
LARGE = "x" * 5000
MASK = np.ones((LAYERS, HEADS))
# Methods, and the changed facts of an earlier server.
OUTDATED: list[tuple[Ask, dict[str, Any]]] = [
    (lambda client: client.encode([LARGE], truncate="end"), {"max_request_bytes": 8192}),
    (lambda client: client.encode_tokens([LARGE], truncate="end"), {"max_request_bytes": 8192}),
    (lambda client: client.attend(LARGE, truncate="end"), {"max_request_bytes": 8192}),
    (lambda client: client.tokenize([LARGE]), {"max_request_bytes": 8192}),
    (lambda client: client.encode(["one"], head_mask=MASK), {"layers": LAYERS + 1}),
    (lambda client: client.encode(["one"], dimensions=DIM), {"pooled_dim": DIM - 1}),
]


def before(model: ModelDescription, changes: dict[str, Any]) -> ModelDescription:
    """Return a description as an earlier model or server had it."""
    limits = {name: value for name, value in changes.items() if name.startswith("max_")}
    own = {name: value for name, value in changes.items() if name not in limits}
    return dataclasses.replace(model, limits=dataclasses.replace(model.limits, **limits), **own)


@pytest.mark.parametrize(("ask", "changes"), OUTDATED)
def test_a_request_refused_by_a_stale_limit_succeeds_the_second_time(
    either: Any, ask: Ask, changes: dict[str, Any]
) -> None:
    either.client._description = before(either.model(), changes)
    with pytest.raises(InvalidInput):
        ask(either)
    ask(either)


def test_an_answer_beyond_a_stale_limit_is_requested_anew(client: Client) -> None:
    stale = {"max_stream_output_bytes": 64, "max_unary_response_bytes": 64}
    client._description = before(client.model(), stale)
    assert client.attend("one two").tokens


def test_a_list_that_met_two_versions_is_requested_anew(
    client: Client, servicer: FakeServicer
) -> None:
    client.model()
    servicer.ref = lambda call: OTHER_REF if call == 1 else REF
    assert len(client.encode(["one"] * 20)) == 20
    assert servicer.described == 2, "its limits may be others, too"
    servicer.ref = lambda call: OTHER_REF if call % 2 else REF
    with pytest.raises(MixedWeights):  # as in a roll-out of replicas
        client.encode(["one"] * 20)


@pytest.mark.parametrize("name", ["stable", "fake"])  # an alias, and the name of the old bundle
def test_a_name_that_leads_to_another_model_now_is_followed_within_the_call(
    open_client: Open, servicer: FakeServicer, name: str
) -> None:
    servicer.names, now = ("fake", "stable"), REF

    def move(response: Any) -> None:
        response.model.CopyFrom(now)

    def rename(response: pb.GetModelResponse) -> None:
        response.names.extend([now.name, *servicer.names])
        move(response)

    servicer.change_model = rename
    servicer.change_answer = servicer.change_tokens = servicer.change_occlusion = move
    for method in METHODS.values():
        now = REF
        client = open_client(model=name)
        client.tokenize(["one"])
        now = pb.ModelRef(
            name="other", version="2", bundle_sha256="cd" * 32, provider="cpu", precision="fp32"
        )
        assert method(client) is not None


async def test_model_always_fetches_the_current_description(
    target: str,
) -> None:
    with Client(target) as fresh:
        old = dataclasses.replace(fresh.model(), version="0")

    class Remembering(Client):
        _description = property(lambda self: old, lambda self, description: None)

    class AsyncRemembering(AsyncClient):
        _description = property(lambda self: old, lambda self, description: None)

    with Remembering(target) as client:
        assert client.model().version == REF.version
    async with AsyncRemembering(target) as other:
        assert (await other.model()).version == REF.version
