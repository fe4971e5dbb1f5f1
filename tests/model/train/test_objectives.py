from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable

import pytest
import torch

from headlight_model.config import EncoderConfig
from headlight_model.encoder import Encoder
from headlight_model.layers.pooling import unit_length
from headlight_model.train.data.altered import IGNORED, Altered
from headlight_model.train.objectives import (
    MaskedTokenHead,
    ReplacedTokenHead,
    contrastive_loss,
    distillation_loss,
    masked_token_loss,
    nested_loss,
    order_loss,
    source_loss,
    taught_loss,
)
from headlight_model.train.recipe import QUICK, TaughtHead


def test_only_target_tokens_count(config: Callable[..., EncoderConfig]) -> None:
    torch.manual_seed(0)
    encoder = Encoder(config())
    head = MaskedTokenHead(encoder.config, encoder.config.dim // 2)
    ids = torch.randint(0, 50, (2, 8))
    labels = torch.full((2, 8), IGNORED)
    labels[0, 3] = 7
    expected = -head(encoder(ids).tokens[0, 3:4], encoder.embedding.weight).log_softmax(dim=-1)[
        0, 7
    ]
    assert masked_token_loss(encoder, head, ids, labels)[0].item() == pytest.approx(
        expected.item(), abs=1e-5
    )


def test_replaced_token_loss_counts_visible_tokens(
    config: Callable[..., EncoderConfig],
) -> None:
    torch.manual_seed(0)
    encoder = Encoder(config())
    guess = MaskedTokenHead(encoder.config, encoder.config.dim)
    detect = ReplacedTokenHead(encoder.config)
    ids = torch.randint(0, 50, (1, 6))
    labels = torch.tensor([[IGNORED, 7, IGNORED, IGNORED, IGNORED, IGNORED]])
    visible = torch.tensor([[False, False, True, True, True, False]])
    replaced = torch.tensor([[False, False, False, True, False, False]])
    batch = Altered(ids, labels, visible, replaced, original=ids)
    recipe = dataclasses.replace(QUICK, replaced_weight=3.0, taught_heads=())
    loss, accuracy = source_loss(encoder, guess, detect, batch, recipe, {})
    hidden, same = masked_token_loss(encoder, guess, ids, labels)
    chance = detect(encoder(ids).tokens[0, 2:5]).sigmoid()
    found = -torch.stack([1 - chance[0], chance[1], 1 - chance[2]]).log().mean()
    assert loss.item() == pytest.approx((hidden + 3 * found).item(), rel=1e-5)
    assert accuracy == same


def test_head_supervision_loss_is_the_weight_off_the_target_keys() -> None:
    weights = torch.tensor([[[[0.5, 0.25, 0.25], [1.0, 0.0, 0.0], [0.1, 0.9, 0.0]]]])
    wanted = torch.zeros(1, 3, 3, dtype=torch.bool)
    wanted[0, 0, 1:] = wanted[0, 2, 1] = True  # query 1 has no such key
    ids, none = torch.tensor([[7, 8, 9]]), torch.zeros(1, 3, dtype=torch.bool)
    batch = Altered(ids, ids, none, none, original=ids)
    heads = [TaughtHead("next", 0, 0)]
    loss = taught_loss([weights], {"next": wanted}, batch, heads)
    assert loss.item() == pytest.approx(-(math.log(0.5) + math.log(0.9)) / 2)
    changed = batch._replace(original=torch.tensor([[7, 8, 6]]))
    loss = taught_loss([weights], {"next": wanted}, changed, heads)
    assert loss.item() == pytest.approx(-math.log(0.25))


def test_contrastive_loss_matches_an_example_by_hand() -> None:
    queries, documents = torch.eye(2), torch.tensor([[1.0, 0.0], [0.6, 0.8]])
    loss, accuracy = contrastive_loss(
        queries, documents, torch.zeros(2, 2, dtype=torch.bool), temperature=1.0
    )
    rows = math.log(math.exp(1) + math.exp(0.6)) - 1 + math.log(1 + math.exp(0.8)) - 0.8
    columns = math.log(math.exp(1) + 1) - 1 + math.log(math.exp(0.6) + math.exp(0.8)) - 0.8
    assert loss.item() == pytest.approx((rows + columns) / 4, abs=1e-6)
    assert accuracy.item() == 1.0


def test_equal_texts_are_no_negatives() -> None:
    vectors = torch.ones(2, 4) / 2
    loss, _ = contrastive_loss(
        vectors, vectors, torch.ones(2, 2, dtype=torch.bool), temperature=0.05
    )
    assert loss.item() == pytest.approx(0.0, abs=1e-6)


def test_the_output_head_reads_only_its_own_dimensions(
    config: Callable[..., EncoderConfig],
) -> None:
    torch.manual_seed(0)
    head = MaskedTokenHead(config(), 8)
    tokens, embedding = torch.randn(3, 32), torch.randn(50, 32)
    expected = head(tokens, embedding)
    tokens[:, 8:] += 1
    embedding[:, 8:] -= 1
    torch.testing.assert_close(head(tokens, embedding), expected)


def test_nested_loss_is_the_mean_over_the_widths() -> None:
    torch.manual_seed(0)
    queries, documents = unit_length(torch.randn(6, 8)), unit_length(torch.randn(6, 8))
    same = torch.zeros(6, 6, dtype=torch.bool)
    short = contrastive_loss(unit_length(queries[:, :4]), unit_length(documents[:, :4]), same, 0.1)[
        0
    ]
    whole, accuracy = contrastive_loss(queries, documents, same, 0.1)
    found = nested_loss(queries, documents, same, 0.1, (4,))
    assert found[0].item() == pytest.approx((short + whole).item() / 2)
    assert found[1] == accuracy


def test_order_loss_matches_an_example_by_hand() -> None:
    question, answer = (
        torch.tensor([[[1.0, 0.0], [0.0, 1.0]]]),
        torch.tensor([[[1.0, 0.0], [0.6, 0.8]]]),
    )
    loss, accuracy = order_loss(question, answer, temperature=1.0)
    assert accuracy.item() == 1.0
    apart = math.sqrt(2) * math.sqrt(0.8)  # above the temperature
    assert apart > 1
    rows = math.log(math.exp(1) + math.exp(0.6)) - 1 + math.log(1 + math.exp(0.8)) - 0.8
    columns = math.log(math.exp(1) + 1) - 1 + math.log(math.exp(0.6) + math.exp(0.8)) - 0.8
    assert loss.item() == pytest.approx((rows + columns) / 4, abs=1e-6)


def test_order_loss_separates_nearly_equal_vectors() -> None:
    torch.manual_seed(0)
    near = torch.randn(1, 1, 8) + 1e-1 * torch.randn(2, 2, 8)
    queries, documents = (
        unit_length(near[:1].flatten(0, 1))[None],
        unit_length(near[1:].flatten(0, 1))[None],
    )
    queries.requires_grad_()
    loss, _ = order_loss(queries, documents, temperature=0.05)
    (gradient,) = torch.autograd.grad(loss, queries)
    assert gradient.norm() > 1  # divided by the temperature alone it would be a hundredth of that


def test_equal_vectors_are_a_tie() -> None:
    same = unit_length(torch.ones(2, 8)).expand(3, 2, 8)
    assert order_loss(same, same, temperature=0.05)[0].item() == pytest.approx(math.log(2))


def unit_vectors(count: int, dim: int) -> torch.Tensor:
    return unit_length(torch.randn(count, dim))


def test_distillation_is_least_for_the_vectors_of_the_teacher() -> None:
    recipe = dataclasses.replace(QUICK, truth_share=0.0, widths=())
    taught = unit_vectors(6, 16), unit_vectors(6, 16)
    nothing_same = torch.zeros(6, 6, dtype=torch.bool)
    far = unit_vectors(6, 16), unit_vectors(6, 16)
    losses = []
    for share in (0.0, 0.5, 1.0):
        sides = [unit_length(a + share * (b - a)) for a, b in zip(taught, far, strict=True)]
        loss, cosine = distillation_loss((sides[0], sides[1]), taught, nothing_same, recipe)
        losses.append(loss.item())
        assert cosine.item() == pytest.approx(
            sum((a * b).sum().item() for a, b in zip(sides, taught, strict=True)) / 12, abs=1e-5
        )
    assert losses[0] == pytest.approx(0, abs=1e-5)
    assert all(before < after for before, after in itertools.pairwise(losses))


def test_the_truth_is_learnt_beside_a_teacher_that_errs() -> None:
    queries = unit_vectors(4, 16)
    taught = queries, queries.roll(1, dims=0)  # every answer is another question's
    same = torch.zeros(4, 4, dtype=torch.bool)

    def similarities(share: float, same: torch.Tensor) -> float:
        """Return the loss of a student that knows the truth."""
        recipe = dataclasses.replace(QUICK, truth_share=share, widths=(), teacher_cosine=0.0)
        return distillation_loss((queries, queries), taught, same, recipe)[0].item()

    assert similarities(1.0, same) < 0.1 < similarities(0.5, same) < similarities(0.0, same)
    # Pairs with the same text are both right.
    same[0, 1] = same[1, 0] = True
    assert similarities(1.0, same) > 0.3
