"""Claims of tutorials: each figure of the page's table of errors can be false."""

from __future__ import annotations

import math
from functools import partial

import pytest
import torch
from torch import nn

from headlight_model.positions.position_schemes import Learned
from headlight_model.positions.sinusoidal import positional_encoding
from lab import schemes
from lab.exact import claims
from lab.exact.properties import random_encoder

LENGTH, DIM = 6, 8


def learned() -> Learned:
    scheme = schemes.positions(
        "learned", dim=DIM, heads=1, trained_length=LENGTH, max_length=LENGTH
    )
    assert isinstance(scheme, Learned)
    return scheme


@pytest.mark.parametrize("batch", [1, 3, LENGTH, 32])
def test_learned_positions_add_the_same_row_to_a_place_of_every_text(batch: int) -> None:
    scheme, x = learned(), torch.randn(batch, LENGTH, DIM)
    added = scheme.embed(x, scheme.prepare(torch.arange(LENGTH)[None]))
    wanted = torch.stack([x[:, place] + scheme.table.weight[place] for place in range(LENGTH)], 1)
    torch.testing.assert_close(added, wanted)


def test_the_transposed_table_is_right_for_one_token_only() -> None:
    table = learned().table.weight
    single = torch.randn(5, 1, DIM)
    torch.testing.assert_close(claims.transposed(single, table), single + table[0])
    for batch in (1, LENGTH):
        x = torch.randn(batch, LENGTH, DIM)
        found = claims.transposed(x, table)
        assert found.shape == (LENGTH, LENGTH, DIM)
        # Every place of a text gets the row of the text's index in the batch.
        torch.testing.assert_close(found[2], x[2 % batch] + table[2])
        assert not torch.allclose(found[2], x[2 % batch] + table[:LENGTH])
    for batch in (2, 32):
        x = torch.randn(batch, LENGTH, DIM)
        assert "must match" in claims.error_of(partial(claims.transposed, x, table))


def test_a_new_table_of_embeddings_changes_a_sentence_given_twice() -> None:
    """A test that draws one for each sentence tells nothing of their order."""
    torch.manual_seed(0)
    ids = torch.arange(LENGTH)[None]
    with torch.no_grad():
        first, second = random_encoder("none"), random_encoder("none")
        assert torch.equal(first(ids).tokens, first(ids).tokens)
        second.load_state_dict(first.state_dict())
        assert torch.equal(first(ids).tokens, second(ids).tokens)
        second.embedding.weight.copy_(torch.randn_like(second.embedding.weight))
        assert not torch.allclose(first(ids).tokens, second(ids).tokens, atol=0.1)


def test_scaling_by_the_root_of_the_width_makes_the_variance_grow_with_it() -> None:
    torch.manual_seed(0)
    for width in claims.WIDTHS:
        assert claims.scaled_variance(width) == pytest.approx(width, rel=0.02)


def test_a_norm_around_the_sum_bounds_the_stream_and_one_around_the_term_does_not() -> None:
    torch.manual_seed(0)
    with torch.no_grad():
        inside, outside = claims.norm_places()
    assert inside == pytest.approx(1, abs=0.01)
    assert outside > 2.5  # sqrt(1 + 12) if all terms are independent


def test_a_sensitivity_test_by_place_says_true_without_positions_too() -> None:
    torch.manual_seed(0)
    with torch.no_grad():
        by_place, put_back = claims.sensitivity()
    assert by_place > 0.5
    assert put_back < 1e-5


def test_the_quoted_wavelengths_and_the_worked_row_are_those_of_the_definition() -> None:
    wanted = [2 * math.pi * 10000 ** (2 * pair / claims.WAVES) for pair in claims.PAIRS]
    found = claims.measure()
    assert found["measured_waves"] == claims.listed(wanted, "{:,.1f}")
    assert found["worked_row"] == "0.84147, 0.54030, 0.01000, 0.99995"


def test_beyond_a_length_no_row_has_the_standard_deviation_that_a_tutorial_asks() -> None:
    """The bound holds for random rows, and one-hot rows reach it."""
    least = claims.uniform_from()
    rows = torch.rand(200, least, dtype=torch.float64).pow(8)
    rows = torch.cat((rows / rows.sum(1, keepdim=True), torch.eye(least, dtype=torch.float64)))
    assert bool((rows.std(dim=1, correction=0) < claims.CALLED_UNIFORM).all())
    shorter = torch.eye(least - 1, dtype=torch.float64)[0]
    assert float(shorter.std(correction=0)) >= claims.CALLED_UNIFORM


def test_the_variance_of_dot_products_is_why_scores_are_divided() -> None:
    torch.manual_seed(0)
    for width in claims.WIDTHS:
        assert claims.product_variance(width) == pytest.approx(width, rel=0.1)


def test_a_head_of_several_has_scores_of_a_lower_rank() -> None:
    torch.manual_seed(0)
    assert [claims.head_rank(heads) for heads in (1, 8)] == [64, 8]


def test_only_added_positions_change_the_embeddings() -> None:
    torch.manual_seed(0)
    with torch.no_grad():
        assert [claims.added(name) for name in ("rope", "alibi")] == [0, 0]
        assert claims.added("sinusoidal") > 0.9


def test_emphasis_by_capitals_is_lost_before_positions_are_added() -> None:
    assert claims.same_ids(*claims.EMPHASIS)
    assert not claims.same_ids("she stole my book", "my book stole she")


def test_a_sine_falls_at_half_of_the_positions() -> None:
    assert claims.sine_falls() == pytest.approx(0.5, abs=0.02)
    assert math.sin(3) == pytest.approx(math.sin(0.14), abs=0.002)
    assert math.sin(3) < math.sin(0.28)


def test_an_ignored_rotary_offset_changes_scores_with_cached_keys() -> None:
    torch.manual_seed(0)
    with torch.no_grad():
        assert claims.offset_ignored() > 0.5


def test_tables_of_fixed_length_fail_where_sines_are_computed() -> None:
    found = claims.measure()
    assert "tensor a (513) must match the size of tensor b (512)" in found["ended_error"]
    assert "tensor a (10) must match the size of tensor b (512)" in found["unsliced_error"]
    assert "must have the same dtype, but got Double and Float" in found["double_error"]
    longer = positional_encoding(5001, 8)
    assert (len(longer), longer.dtype) == (5001, torch.float32)


def test_a_table_that_is_not_read_has_no_gradient() -> None:
    read, unread = nn.Embedding(5, 4), nn.Embedding(5, 4)
    nn.ModuleList([read, unread])[0](torch.arange(5)).sum().backward()
    assert read.weight.grad is not None
    assert unread.weight.grad is None
