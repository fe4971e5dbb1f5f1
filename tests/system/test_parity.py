"""Parity with PyTorch over the wire, with the real service."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from headlight import Client
from headlight.runtime.bundle.bundle import Bundle
from headlight.runtime.bundle.manifest import Tolerance
from headlight.runtime.parity.golden_inputs import distance
from headlight.runtime.values import Ids
from headlight_export.parity.reference import random_ids
from headlight_model.checkpoint import load_checkpoint
from headlight_model.encoder import Encoder, EncoderOutput
from tests.system.conftest import bundle_of
from tests.system.processes import ROOT, Service

LENGTHS = (1, 2, 3, 17, 64, 127, 128, 129, 256, 511, 512)  # up to four times the training length


def pytorch(encoder: Encoder, ids: Ids) -> EncoderOutput:
    with torch.inference_mode():
        return encoder(torch.from_numpy(ids)[None], fused=False)  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def encoder(served: tuple[str, Service]) -> Encoder:
    return load_checkpoint(ROOT / "model" / "headlight_model" / "checkpoints" / served[0])


@pytest.fixture(scope="module")
def tolerance(served: tuple[str, Service]) -> Tolerance:
    """Return the tolerance that the bundle declares.

    The project's own, or four times PyTorch's own float32 error if that is larger.
    """
    return Bundle(bundle_of(served[0])).manifest.tolerance("cpu", "fp32")


@pytest.mark.parametrize("length", LENGTHS)
def test_every_output_of_both_models_matches_pytorch(
    served: tuple[str, Service], encoder: Encoder, tolerance: Tolerance, length: int
) -> None:
    ids = random_ids(encoder.config, length, seed=7)
    expected = pytorch(encoder, ids)
    with Client(served[1].target) as client:
        pooled, [tokens] = client.encode([ids]), client.encode_tokens([ids])
        attention, hidden = client.attend(ids), client.hidden(ids)
    got = {
        "pooled": pooled[0],
        "tokens": tokens,
        "attention": attention.weights,
        "hidden": hidden.states,
    }
    reference = {
        "pooled": expected.pooled[0],
        "tokens": expected.tokens[0],
        "attention": torch.cat(expected.attention),
        "hidden": torch.cat(expected.hidden),
    }
    for name, value in reference.items():
        assert got[name].shape == tuple(value.shape), name
        assert distance(name, got[name], value.numpy()) <= tolerance.limits[name], name
    np.testing.assert_allclose(attention.weights.sum(-1), 1.0, atol=1e-5)
    assert attention.layers == tuple(range(encoder.config.layers))


def test_a_text_is_tokenised_and_encoded_as_in_training(
    served: tuple[str, Service], encoder: Encoder, tolerance: Tolerance
) -> None:
    text = "def join(path, *paths):\n    return os.path.join(path, *paths)"
    with Client(served[1].target) as client:
        [tokens] = client.tokenize([text])
        vector = client.encode([text])[0]
        attention = client.attend(text, layers=[-1])
    assert attention.tokens == tokens
    assert attention.layers == (encoder.config.layers - 1,)
    expected = pytorch(encoder, np.array(tokens.ids))
    assert distance("pooled", vector, expected.pooled[0].numpy()) <= tolerance.limits["pooled"]
    assert (
        distance("attention", attention.weights, expected.attention[-1].numpy())
        <= tolerance.limits["attention"]
    )
    for piece, start, end, special in zip(
        tokens.pieces, tokens.starts, tokens.ends, tokens.special, strict=True
    ):
        assert special == piece.startswith("[")
        assert (
            special
            or piece.removeprefix("##") == text[start:end].lower()
            or text[start:end].isspace()
        )
