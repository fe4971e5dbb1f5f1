"""Untrained encoders of the lab: fields of variants, and concatenated positions."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import torch
from torch.nn import functional

from headlight_model.checkpoint import load_checkpoint
from headlight_model.positions.position_schemes import Learned
from headlight_model.positions.sinusoidal import positional_encoding
from lab.building import build, encoder_config
from lab.plans import Training
from lab.training import save, train

PLAIN = Training(
    task="reverse", scheme="learned", seed=1, steps=3, lengths=(8, 8), batch=4, tested=64
)
CONCATENATED = dataclasses.replace(PLAIN, word_width=48)
WIDTH = 64


def ignore() -> None:
    """Progress callback that does nothing."""


def test_training_keeps_word_and_position_in_their_own_dimensions() -> None:
    encoder, _ = train(CONCATENATED, ignore)
    assert isinstance(encoder.positions, Learned)
    words, table = encoder.embedding.weight, encoder.positions.table.weight
    assert not words[:, 48:].any()
    assert words[:, :48].any(dim=1).all()
    torch.manual_seed(CONCATENATED.seed)
    assert not torch.equal(words[:, :48], build(CONCATENATED).embedding.weight[:, :48]), (
        "words are trained"
    )
    torch.testing.assert_close(
        table, functional.pad(positional_encoding(8, 16), (48, 0)), atol=5e-4, rtol=0
    )  # rounded to float16


def test_what_reaches_the_first_block_is_the_concatenation() -> None:
    encoder = build(CONCATENATED).eval()
    ids = torch.tensor([[2, 5, 7]])
    wanted = torch.cat((encoder.embedding(ids)[..., :48], positional_encoding(3, 16)[None]), dim=-1)
    torch.testing.assert_close(encoder(ids).hidden[0], wanted)


def test_a_checkpoint_with_concatenated_positions_loads_like_any_other(tmp_path: Path) -> None:
    encoder, _ = train(CONCATENATED, ignore)
    save(encoder, CONCATENATED, tmp_path, "made")
    ids = torch.tensor([[2, 5, 7]])
    torch.testing.assert_close(load_checkpoint(tmp_path / "made")(ids).tokens, encoder(ids).tokens)


def test_a_variant_changes_the_fields_that_it_names_and_the_scale_of_new_embeddings() -> None:
    variant = dataclasses.replace(PLAIN, fields={"layers": 6, "max_length": 99}, initial_std=0.125)
    config = encoder_config(variant)
    assert (config.layers, config.max_length) == (6, 99)
    assert dataclasses.replace(config, layers=2, max_length=8) == encoder_config(PLAIN)
    spread = float(build(variant).embedding.weight.detach().std())
    assert 0.1 < spread < 0.15
