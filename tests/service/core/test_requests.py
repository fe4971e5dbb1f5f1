"""Requests are plain values: comparable and picklable."""

from __future__ import annotations

import dataclasses
import math
import pickle
from array import array
from typing import Any

import numpy as np
import pytest

from headlight.comparison import CompareSpec, EvidenceSpec
from headlight.spec import AttentionSpec, HiddenSpec, PooledSpec, Span, TokensSpec
from headlight_service.core.requests.request import (
    VECTORS,
    ComparisonRequest,
    OcclusionRequest,
    OutputSpec,
    Pair,
    Request,
    TokenIds,
)

EVERYTHING = OutputSpec(
    PooledSpec(),
    tokens=TokensSpec(),
    attention=AttentionSpec(layers=(0,)),
    hidden=HiddenSpec(layers=(1,)),
    token_info=True,
)


def full() -> dict[str, Any]:
    """Return a request with a non-default value in every field."""
    return {
        "inputs": [
            "text",
            Pair("one", "two"),
            TokenIds(array("q", [1, 1 << 40]), array("q", [0, 1])),
        ],
        "outputs": EVERYTHING,
        "model": "m",
        "size_bytes": 9,
        "deadline": 12.5,
        "priority": "bulk",
        "client": "c",
        "prompt_name": "query",
        "prompt_text": "q: ",
        "truncation": "cut_end",
        "empty_texts": "encode",
        "special_tokens": "text",
        "head_masks": [None, np.ones((3, 2), dtype=np.float32)],
        "dry_run": True,
        "waits": True,
    }


def values(request: Request) -> dict[str, Any]:
    """Return the fields; those that cannot be compared directly are separate."""
    fields = {field.name: getattr(request, field.name) for field in dataclasses.fields(request)}
    masks, outputs = fields.pop("head_masks"), fields.pop("outputs")
    fields["masks"] = masks and [None if mask is None else mask.tolist() for mask in masks]
    fields["outputs"] = [outputs.specs, outputs.token_info]
    return fields


@pytest.mark.parametrize(
    "request_",
    [
        Request(["a"]),
        Request(**full()),
        OcclusionRequest(["a"]),
        OcclusionRequest(**full(), hidden=(1, 2)),
        OcclusionRequest(["a"], hidden="all"),
        ComparisonRequest(["a", "b"]),
        ComparisonRequest(
            **full(),
            spec=CompareSpec(evidence=(EvidenceSpec(spans=((Span(0, 1),),)),), sort=True),
            query_prompt_name="query",
            query_prompt_text="q: ",
        ),
    ],
    ids=["plain", "full", "occlusion", "full occlusion", "all", "comparison", "full comparison"],
)
def test_requests_can_be_pickled(request_: Request) -> None:
    copy = pickle.loads(pickle.dumps(request_))
    assert type(copy) is type(request_)
    assert values(copy) == values(request_)


def test_the_pickling_test_sets_every_field() -> None:
    request, default = Request(**full()), Request([])
    for field in dataclasses.fields(Request):
        assert getattr(request, field.name) is not getattr(default, field.name), field.name
    own = {field.name for field in dataclasses.fields(OcclusionRequest)} - {
        field.name for field in dataclasses.fields(Request)
    }
    assert own == {"hidden", "target"}


def test_a_request_requires_only_inputs() -> None:
    request = Request(["a"])
    assert request.outputs is VECTORS
    assert (request.deadline, request.priority, request.client) == (
        math.inf,
        "interactive",
        "",
    )


def test_requested_outputs_are_compared_by_identity() -> None:
    """Their resolution is cached as long as they exist."""
    assert OutputSpec() != OutputSpec()
    assert len({OutputSpec(), OutputSpec()}) == 2
