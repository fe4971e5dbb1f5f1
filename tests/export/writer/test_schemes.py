"""Exported graphs of every position scheme.

Parity, batch invariance, and the properties that graphs can show.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headlight.outputs.maps.resolved_spec import whole
from headlight.runtime import EncodeItem, ItemResult, Runtime, Selection
from headlight.runtime.encode_items import everything
from headlight.runtime.parity.golden_inputs import distances
from headlight.runtime.values import Floats, Ids
from headlight_model.checkpoint import load_checkpoint
from tests.conftest import MakeBundle
from tests.factory import SCHEMES

KINDS = (*SCHEMES, "causal", "disentangled")
LIMITS = {"pooled": 1e-5, "tokens": 4e-5, "attention": 4e-5, "hidden": 4e-5}
OpenRuntime = Callable[[str], Runtime]
few = settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def opened(make_bundle: MakeBundle) -> OpenRuntime:
    runtimes: dict[str, Runtime] = {}

    def open_(kind: str) -> Runtime:
        if kind not in runtimes:
            runtimes[kind] = Runtime(make_bundle(kind), threads=1)
        return runtimes[kind]

    return open_


def ids_of(length: int, seed: int = 0) -> Ids:
    return np.random.default_rng([seed, length]).integers(1, 90, size=length, dtype=np.int64)


def item(
    runtime: Runtime, length: int, *, seed: int = 0, head_mask: Floats | None = None
) -> EncodeItem:
    """Return an item with all outputs for a random text, with segments if the model has them."""
    architecture = runtime.bundle.manifest.architecture
    segments = np.random.default_rng([seed, length, 1]).integers(
        0, max(1, architecture.segments), size=length
    )
    return EncodeItem(ids_of(length, seed), everything(architecture), segments, head_mask)


def pytorch(checkpoint: Path, item: EncodeItem) -> dict[str, Floats]:
    encoder = load_checkpoint(checkpoint)
    segments = torch.from_numpy(item.segments)[None] if encoder.config.segments else None
    mask = None if item.head_mask is None else torch.from_numpy(item.head_mask)[None]
    with torch.inference_mode():
        out = encoder(
            torch.from_numpy(item.ids)[None], segments=segments, head_mask=mask, fused=False
        )
    return {
        "pooled": out.pooled[0].numpy(),
        "tokens": out.tokens[0].numpy(),
        "attention": torch.cat(out.attention).numpy(),
        "hidden": torch.cat(out.hidden).numpy(),
    }


def close(result: ItemResult, expected: dict[str, Floats]) -> bool:
    return all(error <= LIMITS[name] for name, error in distances(result, expected).items())


@pytest.mark.parametrize("kind", KINDS)
@few
@given(
    lengths=st.lists(st.integers(1, 40), min_size=1, max_size=8),
    which=st.integers(0, 7),
    attend=st.booleans(),
)
def test_results_of_a_text_do_not_depend_on_its_batch(
    kind: str, opened: OpenRuntime, lengths: list[int], which: int, attend: bool
) -> None:
    runtime = opened(kind)
    which %= len(lengths)
    items = [item(runtime, length, seed=seed) for seed, length in enumerate(lengths)]
    if not attend:
        items = [EncodeItem(each.ids, Selection(tokens=True), each.segments) for each in items]
    together = runtime.engine.run(items)[which]
    [alone] = runtime.engine.run([items[which]])
    for name, limit in {"pooled": 1e-6, "tokens": 5e-6, "attention": 5e-6, "hidden": 5e-6}.items():
        if (value := getattr(alone, name)) is not None:
            np.testing.assert_allclose(
                getattr(together, name), value, atol=limit, rtol=0, err_msg=name
            )


@pytest.mark.parametrize("kind", KINDS)
@few
@given(data=st.data())
def test_any_head_masks_in_a_ragged_batch_match_pytorch(
    kind: str, opened: OpenRuntime, make_checkpoint: MakeBundle, data: st.DataObject
) -> None:
    """Compared directly with the encoder, independent of the exporter's own report."""
    runtime = opened(kind)
    size = 3 * runtime.bundle.manifest.architecture.layers
    factors = st.lists(st.sampled_from([0.0, 0.5, 1.0, -1.0, 3.0]), min_size=size, max_size=size)
    drawn = data.draw(
        st.lists(st.tuples(st.integers(1, 160), st.none() | factors), min_size=1, max_size=5)
    )
    items = []
    for seed, (length, mask) in enumerate(drawn):
        head_mask = None if mask is None else np.array(mask, dtype=np.float32).reshape(-1, 3)
        items.append(item(runtime, length, seed=seed, head_mask=head_mask))
    for one, result in zip(items, runtime.engine.run(items), strict=True):
        assert close(result, pytorch(make_checkpoint(kind), one))


def moved(runtime: Runtime, length: int, order: Ids) -> float:
    """Return the largest change by reordering inputs, over tokens and attention.

    The distance between f(reordered x) and reordered f(x).
    """
    selection, ids = Selection(tokens=True, attention=whole((0,), 3)), ids_of(length)
    plain, changed = runtime.engine.run(
        [EncodeItem(ids, selection), EncodeItem(ids[order], selection)]
    )
    assert plain.tokens is not None
    assert plain.attention is not None
    assert changed.tokens is not None
    assert changed.attention is not None
    tokens = np.abs(plain.tokens[order] - changed.tokens).max()
    weights = np.abs(plain.attention[:, :, order][..., order] - changed.attention).max()
    return float(max(tokens, weights))


@few
@given(order=st.integers(2, 40).flatmap(lambda n: st.permutations(range(n))))
def test_without_positions_the_graph_is_equivariant_to_permutations(
    opened: OpenRuntime, order: list[int]
) -> None:
    assert moved(opened("none"), len(order), np.array(order)) < 1e-5


@few
@given(length=st.integers(2, 160))
def test_with_symmetric_alibi_the_graph_is_equivariant_to_reversal(
    opened: OpenRuntime, length: int
) -> None:
    assert moved(opened("alibi"), length, np.arange(length)[::-1].copy()) < 1e-5


@pytest.mark.parametrize("kind", ["rope", "sinusoidal", "learned"])
def test_graphs_of_other_schemes_depend_on_order(kind: str, opened: OpenRuntime) -> None:
    assert moved(opened(kind), 12, np.arange(12)[::-1].copy()) > 1e-2


@pytest.mark.parametrize(("kind", "segments"), [("rope", ()), ("learned", ("segments",))])
def test_graphs_have_only_the_inputs_of_their_model(
    kind: str, segments: tuple[str, ...], make_bundle: MakeBundle
) -> None:
    graphs = {
        role: onnx.load(make_bundle(kind) / f"{role}.onnx", load_external_data=False)
        for role in ("embed", "attend")
    }
    names = {
        role: tuple(value.name for value in model.graph.input) for role, model in graphs.items()
    }
    assert names["embed"] == ("ids", "mask", *segments)
    assert names["attend"][: 3 + len(segments)] == ("ids", "mask", *segments, "head_mask")
    assert not any("head_mask" in node.input for node in graphs["embed"].graph.node)
    manifest = Runtime(make_bundle(kind), threads=1).bundle.manifest
    assert {graph.role: graph.inputs for graph in manifest.graphs} == names
