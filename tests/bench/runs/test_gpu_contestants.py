"""Contestants of `python -m bench.gpu`: each computes the same encoder."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from bench.gpu import parity
from bench.gpu.bare import Bare, batch
from bench.gpu.budget import Allowance, Deadline
from bench.gpu.device import Device
from bench.gpu.field import Field
from bench.gpu.parity import cosine, distance
from bench.gpu.peers import COMPILED, FIXED, UNMASKED, forward, peers, unmasked
from bench.gpu.prepare import Unprepared, require
from bench.gpu.sizes import MINILM
from bench.gpu.speed import log_normal
from headlight.runtime import EncodeItem, ItemResult, Runtime, Selection
from headlight.runtime.engine.batches import pad
from tests.factory import sharpened, small_config


def test_peers_return_the_vectors_of_the_encoder() -> None:
    encoder = sharpened(small_config())
    ids, mask = pad([np.array([3, 4, 5, 6]), np.array([7, 8])])
    whole = ids[:1], mask[:1]
    with torch.inference_mode():
        expected = encoder(torch.from_numpy(ids), torch.from_numpy(mask)).pooled.numpy()
    for fused in (False, True):
        np.testing.assert_allclose(
            forward(encoder, Device("cpu"), fused=fused)(ids, mask), expected, atol=1e-5
        )
    np.testing.assert_allclose(
        forward(unmasked(encoder), Device("cpu"), fused=True)(*whole), expected[:1], atol=1e-5
    )


def test_compiled_peers_return_the_vectors_of_the_encoder() -> None:
    encoder = sharpened(small_config())
    ids, mask = pad([np.array([3, 4, 5, 6]), np.array([7, 8, 9, 10])])
    with torch.inference_mode():
        expected = encoder(torch.from_numpy(ids), torch.from_numpy(mask)).pooled.numpy()
    found = peers(encoder, Device("cpu"), "bf16", Allowance(600), "eager", 0)
    for name in (COMPILED, FIXED):
        assert min(map(cosine, found[name](ids, mask), expected)) > 0.998, name


def test_every_encoder_is_compiled_beyond_the_recompile_limit() -> None:
    """PyTorch's limit is 8."""
    compiled = list[str]()

    def backend(graph: torch.fx.GraphModule, _: list[torch.Tensor]) -> Any:
        compiled.append(precision)
        return graph.forward

    batches = [pad([np.array([3, 4, 5, 6])] * count) for count in (2, 1)]
    for precision in ("fp16", "bf16", "fp16"):
        encoder = sharpened(small_config(layers=1))
        found = peers(encoder, Device("cpu"), precision, Allowance(600), backend, 0)  # type: ignore[arg-type]
        for batch_ in batches:
            found[COMPILED](*batch_)
        found[FIXED](*batches[0])
    assert compiled == ["fp16"] * 3 + ["bf16"] * 3 + ["fp16"] * 3


@pytest.mark.parametrize(
    ("batches", "expected"),
    [
        ([[4, 4]], {COMPILED, UNMASKED, FIXED}),
        ([[4, 3]], {COMPILED}),
        ([[5, 5]], {COMPILED, UNMASKED}),
        ([[4]], {COMPILED, UNMASKED}),
        ([[4, 4], [4, 4]], {COMPILED, UNMASKED}),
        ([[4, 4], [4, 3]], {COMPILED}),
    ],
)
def test_without_a_mask_only_batches_without_padding_are_run(
    batches: list[list[int]], expected: set[str]
) -> None:
    everyone = dict.fromkeys((COMPILED, UNMASKED, FIXED))
    field = Field("", "fp16", None, None, everyone, None, Device("cpu"), chief=4)  # type: ignore[arg-type]
    padded = [pad([np.arange(3, 3 + length) for length in lengths]) for lengths in batches]
    assert set(field.peers(padded)) == expected


def test_a_bare_session_returns_the_vectors_of_the_engine(runtime: Runtime) -> None:
    device, texts = Device("cpu"), [np.array([3, 4, 5, 6]), np.array([7, 8])]
    session = Bare(runtime.bundle.file("embed.onnx"), device)
    bound = session.bind(
        *batch(device, *pad(texts), runtime.bundle.manifest.architecture.pooled_dim)
    )
    assert np.isnan(bound.pooled()).all()
    session.run(bound)
    results = runtime.engine.run([EncodeItem(ids, Selection()) for ids in texts])
    for row, result in zip(bound.pooled(), results, strict=True):
        assert result.pooled is not None
        assert cosine(row, result.pooled) > 0.999999


def test_non_finite_numbers_have_infinite_distance() -> None:
    assert distance(np.array([1.0, np.nan]), np.array([1.0, 2.0])) == (float("inf"), float("inf"))
    assert distance(np.array([1.0, 2.5]), np.array([1.0, 2.0])) == (0.25, 0.5)
    assert cosine(np.array([np.nan, 1]), np.array([1.0, 1.0])) == -1


def test_no_batch_runs_after_the_first_once_time_is_up(
    monkeypatch: pytest.MonkeyPatch, runtime: Runtime
) -> None:
    monkeypatch.setattr(parity, "BATCH_TOKENS", 8)
    texts, batches = [np.arange(3, 11)] * 5, list[int]()
    run = runtime.engine.run

    def counted(items: list[EncodeItem]) -> list[ItemResult]:
        batches.append(len(items))
        # With different selections the engine takes the slower path.
        assert len({id(item.selection) for item in items}) == 1
        return run(items)

    monkeypatch.setattr(runtime.engine, "run", counted)
    exact = sharpened(small_config())
    assert parity.cosines(runtime, exact, texts, Device("cpu"), Deadline(0))["texts"] == 1
    assert batches == [1]
    assert parity.cosines(runtime, exact, texts, Device("cpu"), Deadline(60))["texts"] == 5


def test_a_mix_counts_the_tokens_of_its_batches_and_limits_text_length() -> None:
    lengths = log_normal(1000, 512)
    assert 4000 <= sum(lengths) < 4000 + 512
    assert min(lengths) >= 4
    assert max(lengths) <= 512


def test_missing_bundles_are_reported_with_the_remedy(tmp_path: Any) -> None:
    with pytest.raises(Unprepared, match=r"lacks minilm: run `python -m bench\.gpu prepare`"):
        require(tmp_path, [MINILM])
