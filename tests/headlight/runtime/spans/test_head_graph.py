"""The graph of the Dense layers: what it computes, and that other precisions keep it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch

from headlight.errors import BundleError, DeviceLost, EngineError, NotFinite
from headlight.runtime import Runtime
from headlight.runtime.engine.head_layers import MOST_VECTORS, HeadLayers
from headlight.runtime.providers.device_faults import Faults
from headlight.runtime.values import Floats
from tests.conftest import MakeBundle
from tests.headlight.runtime.spans.conftest import Model


def test_it_gives_pytorchs_numbers_for_any_number_of_vectors(dense: Model) -> None:
    vectors = np.random.default_rng(1).normal(size=(MOST_VECTORS + 3, 36)).astype(np.float32)
    expected = torch.from_numpy(vectors)
    with torch.inference_mode():
        for layer in dense.encoder.dense:
            expected = layer(expected)
    for count in (1, 2, MOST_VECTORS + 3):
        found = dense.runtime.engine.head(vectors[:count])
        np.testing.assert_allclose(found, expected[:count].numpy(), atol=1e-5, rtol=0)


def test_it_stands_in_the_manifest_with_its_own_weights(dense: Model) -> None:
    manifest = dense.runtime.bundle.manifest
    [head] = [graph for graph in manifest.graphs if graph.role == "head"]
    assert (head.precision, head.weights) == ("fp32", ())
    assert (head.inputs, head.outputs) == (("vectors",), ("pooled",))
    assert manifest.dense_layers == 2
    assert manifest.head("cuda") == head


def test_models_without_dense_layers_have_none(make_bundle: MakeBundle) -> None:
    runtime = Runtime(make_bundle("rope"), threads=1)
    assert not runtime.engine.head
    assert runtime.bundle.manifest.dense_layers == 0
    vectors = np.ones((2, 36), dtype=np.float32)
    assert runtime.engine.head(vectors) is vectors
    assert "spans" in runtime.model().outputs


def test_a_closed_head_raises(dense_bundle: Path) -> None:
    runtime = Runtime(dense_bundle / "bundle", threads=1)
    head = runtime.engine.head
    runtime.close()
    assert head
    with pytest.raises(EngineError, match="the model was closed"):
        head(np.ones((1, 36), dtype=np.float32))


def test_a_device_lost_meanwhile_discards_the_result() -> None:
    """Another thread finds the loss while the head runs."""

    class Lost(Faults):
        checks = 0

        def check(self) -> None:
            self.checks += 1
            if self.checks > 1:
                raise DeviceLost("lost")

    class Graph:
        @contextlib.contextmanager
        def run(self, names: Any, feeds: Any, buffers: Any) -> Iterator[dict[str, Floats]]:
            yield {"pooled": feeds["vectors"]}

    faults = Lost(gpu=True, vocabulary=1, segments=0, longest=1)
    head = HeadLayers(cast(Any, Graph()), faults, "a model")
    with pytest.raises(DeviceLost):
        head(np.ones((1, 2), dtype=np.float32))


def test_a_number_that_is_not_finite_is_an_error(dense: Model) -> None:
    with pytest.raises(NotFinite, match="not finite"):
        dense.runtime.engine.head(np.full((1, 36), np.nan, dtype=np.float32))


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_other_providers_and_precisions_use_the_same_head(
    dense_bundle: Path, precision: str
) -> None:
    exact = Runtime(dense_bundle / "bundle", threads=1)
    try:
        other = Runtime(dense_bundle / "bundle", provider="openvino", precision=precision)
    except BundleError as error:  # not on this processor
        pytest.skip(str(error))
    other.check_golden()
    vectors = np.random.default_rng(2).normal(size=(5, 36)).astype(np.float32)
    found, expected = (each.engine.head(vectors) for each in (other, exact))
    np.testing.assert_allclose(found, expected, atol=1e-5, rtol=0)
