"""Options of the encoder, each compared with its definition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from headlight_model.config import Dense, EncoderConfig
from headlight_model.encoder import Encoder
from headlight_model.layers.attention import MultiHeadAttention
from headlight_model.layers.block import FeedForward
from headlight_model.layers.norms import RMSNorm, build_norm
from headlight_model.positions.position_schemes import Learned, Nowhere, Rope
from headlight_model.positions.rope import RopeScaling
from headlight_model.positions.sinusoidal import positional_encoding

Build = Callable[..., Encoder]
Config = Callable[..., EncoderConfig]
IDS = torch.arange(12).view(2, 6)


def test_learned_positions_are_rows_of_a_table_and_end_with_it(
    config: Config, encoder: Build
) -> None:
    scheme = Learned(config(positions="learned", max_length=64))
    assert scheme.table.weight.shape == (64, 16)
    at = torch.tensor([[3, 63]])
    torch.testing.assert_close(
        scheme.embed(torch.zeros(1, 2, 16), scheme.prepare(at)), scheme.table.weight[at]
    )
    with pytest.raises(IndexError):
        scheme.prepare(torch.tensor([[64]]))  # never wrapped
    with pytest.raises(ValueError, match="65 tokens are more than max_length 64"):
        encoder(positions="learned")(torch.zeros(1, 65, dtype=torch.long))


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_positions_of_every_layer_are_added_to_the_input_of_each_block(
    positions: str, norm: str, encoder: Build
) -> None:
    """Compared with a loop over the blocks of a model without positions."""
    fields = {"norm": norm, "layers": 3, "embedding_dim": 8, "embedding_norm": norm == "pre"}
    model = encoder(positions=positions, positions_every_layer=True, **fields)
    bare = encoder(positions="none", **fields)
    bare.load_state_dict(
        {k: v for k, v in model.state_dict().items() if not k.startswith("positions.")}
    )
    if positions == "learned":
        # Those of the layers, side by side.
        tables = torch.split(model.positions.get_parameter("table.weight"), 16, dim=1)
    else:
        tables = (positional_encoding(64, 16),) * 3
    x = bare.embedding_project(bare.embedding_norm(bare.embedding(IDS)))
    hidden = [x]
    for block, table in zip(bare.blocks, tables, strict=True):
        x, _ = block(x + table[:6], None, bare.positions, (), fused=True)
        hidden.append(x)
    out = model(IDS)
    torch.testing.assert_close(out.hidden, tuple(hidden), atol=1e-6, rtol=0)
    torch.testing.assert_close(out.tokens, bare.final_norm(x), atol=1e-6, rtol=0)


def test_partial_rotation_does_not_change_the_other_dimensions(config: Config) -> None:
    rope = Rope(config(rope_fraction=0.5))
    heads = torch.randn(1, 2, 5, 8)
    turned = rope.rotate(heads, rope.prepare(torch.arange(5)[None]))
    assert torch.equal(turned[..., 4:], heads[..., 4:])
    assert not torch.equal(turned[..., 1:, :4], heads[..., 1:, :4])
    whole = Rope(config(dim=8))  # one whose heads are as wide as the rotated half
    torch.testing.assert_close(
        turned[..., :4], whole.rotate(heads[..., :4], whole.prepare(torch.arange(5)[None]))
    )


def test_the_offset_is_the_position_of_the_first_token(config: Config) -> None:
    heads, shifted, plain = torch.randn(1, 2, 5, 8), Rope(config(rope_offset=40)), Rope(config())
    here = shifted.rotate(heads, shifted.prepare(torch.arange(5)[None]))
    assert torch.equal(here, plain.rotate(heads, plain.prepare(torch.arange(40, 45)[None])))
    shifted.prepare(torch.tensor([[63]]))  # the tables reach max_length tokens behind the offset


def test_rms_norm_matches_its_formula(config: Config) -> None:
    norm, x = RMSNorm(16, 1e-6), 5 + torch.randn(2, 3, 16)
    nn.init.normal_(norm.weight)
    torch.testing.assert_close(norm(x), functional.rms_norm(x, (16,), norm.weight, 1e-6))


def test_a_gated_feed_forward_multiplies_by_the_activated_gate(config: Config) -> None:
    x = torch.randn(2, 3, 16)
    for name, activation in (("silu", functional.silu), ("gelu", functional.gelu)):
        layer = FeedForward(config(ffn="gated", activation=name))
        assert layer.gate is not None
        torch.testing.assert_close(layer(x), layer.down(activation(layer.gate(x)) * layer.up(x)))


def test_biases_can_be_left_out(config: Config) -> None:
    without = dict.fromkeys(
        ("attention_bias", "attention_out_bias", "ffn_bias", "ffn_out_bias"), False
    )
    bare = Encoder(config(**without, norm_bias=False, ffn="gated"))
    assert [name for name, _ in bare.named_parameters() if "bias" in name] == []
    kept = {
        name
        for name, _ in Encoder(
            config(attention_bias=False, attention_out_bias=False)
        ).named_parameters()
        if "bias" in name
    }
    assert not any("attention.project" in name for name in kept)
    assert any("feed_forward.up" in name for name in kept)
    assert not isinstance(build_norm(config(norm_type="rms"), 16), nn.LayerNorm)


def test_segments_add_their_embedding_and_default_to_the_first(encoder: Build) -> None:
    model = encoder(segments=3, scale_embeddings=True)
    segments = torch.tensor([[0, 0, 1, 1, 2, 2], [2, 1, 0, 0, 0, 0]])
    assert model.segment_embedding is not None
    expected = model.embedding(IDS) * 4 + model.segment_embedding(segments)
    torch.testing.assert_close(model(IDS, segments=segments).hidden[0], expected)
    assert torch.equal(model(IDS).pooled, model(IDS, segments=torch.zeros_like(IDS)).pooled)
    assert not torch.allclose(model(IDS).pooled, model(IDS, segments=segments).pooled, atol=1e-4)


def test_segments_are_refused_by_a_model_without_them(encoder: Build) -> None:
    with pytest.raises(ValueError, match="the model's config has segments 0; leave them out"):
        encoder()(IDS, segments=torch.zeros_like(IDS))


@pytest.mark.parametrize("fused", [True, False])
def test_removing_a_head_equals_zeroing_its_output_columns(fused: bool, encoder: Build) -> None:
    model = encoder(heads=4, dim=16)
    mask = torch.ones(2, 2, 4)
    mask[:, 1, 2] = 0.0
    with torch.no_grad():
        masked = model(IDS, head_mask=mask, fused=fused)
        whole = model(IDS, fused=fused)
        dict(model.named_parameters())["blocks.1.attention.project_out.weight"][:, 8:12] = 0.0
        pruned = model(IDS, fused=fused)
    torch.testing.assert_close(masked.pooled, pruned.pooled, atol=1e-6, rtol=0)
    assert float((masked.pooled - whole.pooled).abs().max()) > 1e-4
    for weights in masked.attention:  # a removed head still shows its attention
        torch.testing.assert_close(weights.sum(-1), torch.ones(2, 4, 6))


def test_head_masks_apply_per_text_and_ones_change_nothing(encoder: Build) -> None:
    model, mask = encoder(), torch.ones(2, 2, 2)
    assert torch.equal(model(IDS).pooled, model(IDS, head_mask=mask).pooled)
    mask[0] = 0.0
    half = model(IDS, head_mask=mask).pooled
    assert not torch.allclose(half[0], model(IDS).pooled[0], atol=1e-4)
    torch.testing.assert_close(half[1], model(IDS).pooled[1], atol=1e-6, rtol=0)


def test_embedding_dropout_acts_on_embeddings_in_training_only(encoder: Build) -> None:
    model = encoder(embedding_dropout=0.5)
    assert torch.equal(model(IDS).pooled, model(IDS).pooled)
    model.train()
    dropped = (model(IDS).hidden[0] == 0).float().mean()
    assert 0.3 < float(dropped) < 0.7


def test_without_a_final_norm_tokens_are_the_output_of_the_last_block(encoder: Build) -> None:
    model = encoder(final_norm=False)
    out = model(IDS)
    assert torch.equal(out.tokens, out.hidden[-1])
    assert not torch.allclose(encoder()(IDS).tokens, encoder()(IDS).hidden[-1])
    assert not any(name.startswith("final_norm") for name in model.state_dict())


def test_dense_layers_apply_between_pooling_and_normalisation(encoder: Build) -> None:
    model = encoder(dense=(Dense(width=20),))
    [dense] = model.dense
    out = model(IDS)
    expected = out.tokens.mean(dim=1) @ dense.weight.T
    torch.testing.assert_close(out.pooled, functional.normalize(expected, dim=1))


def test_shared_keys_and_values_equal_repeated_ones(config: Config) -> None:
    shared = MultiHeadAttention(config(dim=24, heads=6, kv_heads=2), 0)
    whole = MultiHeadAttention(config(dim=24, heads=6), 0)
    with torch.no_grad():
        for part in ("weight", "bias"):
            query, key, value = getattr(shared.project_in, part).split(shared.widths)
            # Head h of the queries uses the keys and values of head h // 3.
            repeated = [
                rows.view(2, 4, -1).repeat_interleave(3, dim=0).reshape(24, -1)
                for rows in (key, value)
            ]
            rows = torch.cat([query.reshape(24, -1), *repeated])
            getattr(whole.project_in, part).copy_(rows.view_as(getattr(whole.project_in, part)))
    whole.project_out.load_state_dict(shared.project_out.state_dict())
    x, scheme = torch.randn(2, 5, 24), Nowhere(config())
    for fused in (True, False):
        ours, maps = shared(x, None, scheme, (), fused=fused)
        theirs, expected = whole(x, None, scheme, (), fused=fused)
        torch.testing.assert_close(ours, theirs)
        if maps is not None and expected is not None:
            torch.testing.assert_close(maps.weights, expected.weights)


@pytest.mark.parametrize("causal", [False, True])
def test_a_local_layer_sees_its_window_and_a_global_one_all(causal: bool, encoder: Build) -> None:
    model = encoder(window=2, local_layers=(1,), causal=causal)
    out = model(torch.arange(9)[None], fused=False)
    place = torch.arange(9)
    ahead = place - place[:, None]
    near = (ahead.abs() <= 2) & (
        (ahead <= 0) if causal else torch.ones_like(ahead, dtype=torch.bool)
    )
    assert torch.equal(out.attention[1][0].gt(0).all(dim=0), near)
    assert torch.equal(
        out.attention[0][0].gt(0).all(dim=0),
        (ahead <= 0) if causal else torch.ones(9, 9, dtype=torch.bool),
    )
    torch.testing.assert_close(model(torch.arange(9)[None]).tokens, out.tokens)


def test_local_layers_rotate_by_their_own_theta(encoder: Build) -> None:
    model = encoder(
        window=3, local_layers=(0, 1), rope_theta=500.0, rope_local_theta=10000.0, rope_scaling=None
    )
    plain = encoder(window=3, local_layers=(0, 1))
    plain.load_state_dict(model.state_dict())
    assert torch.equal(model(IDS).tokens, plain(IDS).tokens)


def test_local_layers_with_the_same_theta_are_not_scaled(encoder: Build) -> None:
    scaling = RopeScaling(kind="linear", factor=4.0)
    options: dict[str, Any] = {"window": 63, "rope_theta": 500.0, "rope_local_theta": 500.0}
    model = encoder(local_layers=(0, 1), rope_scaling=scaling, **options)
    plain = encoder(local_layers=(0, 1), **options)
    plain.load_state_dict(model.state_dict())
    assert torch.equal(model(IDS).tokens, plain(IDS).tokens)


def test_query_and_key_norms_remove_their_lengths(config: Config) -> None:
    attention = MultiHeadAttention(config(qk_norm="head", norm_type="rms", norm_eps=1e-12), 0)
    x, scheme = torch.randn(1, 4, 16), Nowhere(config())
    _, before = attention(x, None, scheme, (), fused=False)
    with torch.no_grad():
        attention.project_in.weight[:32] *= 7.0
        attention.project_in.bias[:32] *= 7.0
    _, after = attention(x, None, scheme, (), fused=False)
    torch.testing.assert_close(before.scores, after.scores)


def test_narrow_embeddings_are_projected_after_their_norm(encoder: Build) -> None:
    model = encoder(embedding_dim=6, norm="post", positions="learned", segments=2)
    assert model.embedding.weight.shape[1] == 6
    [first, *_] = model(IDS).hidden
    places = torch.arange(6)
    x = model.embed(IDS, None) + model.positions.prepare(places)[0]
    torch.testing.assert_close(first, model.embedding_project(model.embedding_norm(x)))


def test_values_are_rotated_if_configured(config: Config) -> None:
    scheme = Rope(config())
    state = scheme.prepare(torch.tensor([[5]]))
    turned, plain = MultiHeadAttention(config(rope_values=True), 0), MultiHeadAttention(config(), 0)
    plain.load_state_dict(turned.state_dict())
    x = torch.randn(1, 1, 16)  # alone, a token gives back its own value
    value = plain.project_in(x)[..., 32:].view(1, 1, 2, 8).transpose(1, 2)
    expected = turned.project_out(scheme.rotate(value, state).transpose(1, 2).flatten(2))
    torch.testing.assert_close(turned(x, None, scheme, state, fused=False)[0], expected)
    assert not torch.allclose(plain(x, None, scheme, state, fused=False)[0], expected)


def test_tokens_excluded_from_pooling_still_take_part_in_attention(encoder: Build) -> None:
    model = encoder()
    counted = torch.tensor([[0, 0, 1, 1, 1, 1]] * 2)
    out = model(IDS, pool_mask=counted)
    assert torch.equal(out.tokens, model(IDS).tokens)
    torch.testing.assert_close(
        out.pooled, functional.normalize(out.tokens[:, 2:].mean(dim=1), dim=1)
    )


def test_the_first_norm_is_optional_and_embeddings_may_have_one(encoder: Build) -> None:
    model = encoder(first_norm=False, embedding_norm=True)
    names = set(model.state_dict())
    assert "blocks.0.attention_norm.weight" not in names
    assert {"blocks.1.attention_norm.weight", "embedding_norm.weight"} <= names


def test_post_norm_embeddings_are_normed_unless_first_norm_is_false(encoder: Build) -> None:
    written = {"norm": "post", "embedding_norm": False}  # as config.json files of earlier versions
    normed = encoder(**written)
    assert "embedding_norm.weight" in normed.state_dict()
    torch.testing.assert_close(
        normed(IDS).hidden[0], functional.layer_norm(normed.embedding(IDS), (16,))
    )
    bare = encoder(**written, first_norm=False)
    assert set(normed.state_dict()) - set(bare.state_dict()) == {
        "embedding_norm.weight",
        "embedding_norm.bias",
    }
    torch.testing.assert_close(bare(IDS).hidden[0], bare.embedding(IDS))


@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_post_norm_without_the_first_norm_equals_torch(activation: str, encoder: Build) -> None:
    layer = nn.TransformerEncoderLayer(16, 2, 32, activation=activation, batch_first=True)
    theirs = nn.TransformerEncoder(layer, num_layers=2, enable_nested_tensor=False).eval()
    ours = encoder(norm="post", first_norm=False, positions="sinusoidal", activation=activation)
    for block, source in zip(ours.blocks, theirs.layers, strict=True):
        block.load_state_dict(
            {block_name(name): value for name, value in source.state_dict().items()}
        )
    mask = torch.tensor([[1] * 6, [1] * 4 + [0] * 2])
    with torch.no_grad():
        out = ours(IDS, mask, fused=False)
        expected = theirs(out.hidden[0], src_key_padding_mask=mask == 0)
    torch.testing.assert_close(out.tokens, expected * mask[..., None], atol=2e-6, rtol=0)


def block_name(name: str) -> str:
    """Return our name of a tensor of nn.TransformerEncoderLayer."""
    for theirs, ours in {
        "self_attn.in_proj_": "attention.project_in.",
        "self_attn.out_proj": "attention.project_out",
        "linear1": "feed_forward.up",
        "linear2": "feed_forward.down",
        "norm1": "attention_norm",
        "norm2": "feed_forward_norm",
    }.items():
        name = name.replace(theirs, ours)
    return name
