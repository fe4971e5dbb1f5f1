"""The limits on the distance from PyTorch."""

from __future__ import annotations

from headlight.outputs.registry import FLOORS
from headlight_export.parity.reference import tolerances


def test_only_four_times_the_own_error_of_pytorch_raises_a_limit() -> None:
    own = {"pooled": 1e-6, "tokens": 4e-6, "attention": 1e-5, "hidden": 0.0}
    assert tolerances(own) == {
        "pooled": 1e-5,
        "tokens": 2e-5,
        "attention": 4e-5,
        "hidden": 2e-5,
    }


def test_the_limits_are_the_documented_ones() -> None:
    assert FLOORS == {
        "pooled": 1e-5,
        "tokens": 2e-5,
        "attention": 1e-5,
        "hidden": 2e-5,
        "scores": 1e-5,
        "sparse": 1e-5,
        "multi_vector": 1e-5,
    }
