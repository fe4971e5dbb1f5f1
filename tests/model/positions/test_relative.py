from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from headlight_model.config import EncoderConfig
from headlight_model.encoder import Encoder
from headlight_model.positions.position_schemes import Disentangled, Relative
from headlight_model.positions.relative import disentangled_buckets, relative_buckets
from tests.model.positions.biases import bias_at

# The first distance of each bucket behind the query, of 32 buckets up to 128, as T5 and MPNet
# have them.
FIRST = (0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91)


def test_buckets_are_those_of_t5() -> None:
    behind = [int(distance >= first) for distance in range(129) for first in FIRST]
    counts = torch.tensor(behind).view(129, len(FIRST)).sum(1) - 1
    buckets = relative_buckets(32, 128, 128)
    assert torch.equal(buckets[:129].flip(0), counts)
    assert torch.equal(buckets[129:], counts[1:] + 16)


@pytest.mark.parametrize(("count", "reach"), [(4, 2), (6, 9), (20, 40), (33, 1000)])
def test_buckets_follow_the_formula(count: int, reach: int) -> None:
    buckets, half = relative_buckets(count, reach, reach).tolist(), count // 2
    exact = half // 2
    assert len(buckets) == 2 * reach + 1
    for distance in range(1, reach + 1):
        share = math.log(distance / exact) / math.log(reach / exact) * (half - exact)
        if abs(share - round(share)) < 1e-5:
            continue  # on an edge, where rounding decides
        bucket = distance if distance < exact else min(half - 1, exact + int(share))
        assert (buckets[reach - distance], buckets[reach + distance]) == (bucket, bucket + half)
    assert (buckets[0], buckets[-1]) == (half - 1, 2 * half - 1)


def test_the_bias_of_a_head_is_its_column_at_the_bucket_of_key_minus_query(
    config: Callable[..., EncoderConfig],
) -> None:
    scheme = Relative(config(positions="relative", relative_buckets=8, relative_distance=20))
    at = torch.tensor([0, 1, 5, 50, 5000])
    bias, table = bias_at(scheme, at)[0], scheme.tables[0]
    for row, query in enumerate(at.tolist()):
        for column, key in enumerate(at.tolist()):
            ahead = max(-20, min(20, key - query))
            bucket = relative_buckets(8, 20, 20)[ahead + 20]
            assert torch.equal(bias[:, row, column], table[bucket])


@pytest.mark.parametrize(
    ("scheme", "buckets"), [(Relative, relative_buckets), (Disentangled, disentangled_buckets)]
)
def test_a_table_of_buckets_is_as_long_as_texts(
    scheme: type[Relative | Disentangled],
    buckets: Callable[[int, int, int], Tensor],
    config: Callable[..., EncoderConfig],
) -> None:
    """relative_distance is a stranger's number."""
    lengths = {"trained_length": 10, "max_length": 10}
    near = scheme(config(relative_buckets=8, relative_distance=1000, **lengths))
    assert torch.equal(near.buckets, buckets(8, 1000, 1000)[1000 - 9 : 1000 + 10])


def test_layers_share_a_table_or_have_one_each(config: Callable[..., EncoderConfig]) -> None:
    shared = Relative(config(positions="relative", layers=3))
    each = Relative(config(positions="relative", layers=3, relative_per_layer=True))
    at = torch.arange(9)
    assert (len(shared.tables), len(each.tables)) == (1, 3)
    assert torch.equal(bias_at(shared, at, 0), bias_at(shared, at, 2))
    for layer in range(3):
        shared.tables.data[0] = each.tables[layer]
        assert torch.equal(bias_at(each, at, layer), bias_at(shared, at))


def test_a_block_adds_the_bias_of_its_layer(encoder: Callable[..., Encoder]) -> None:
    """Whichever the table of the other layer is."""
    model = encoder(positions="relative", relative_per_layer=True)
    ids = torch.randint(0, 50, (1, 9))
    with torch.no_grad():
        before = model(ids, fused=False).attention
        model.get_parameter("positions.tables")[1] *= 3
        after = model(ids, fused=False).attention
    assert torch.equal(before[0], after[0])
    assert float((before[1] - after[1]).abs().max()) > 1e-2


@pytest.mark.parametrize(("count", "reach"), [(512, 512), (32, 40), (8, 9)])
def test_buckets_of_disentangled_attention_follow_the_formula(count: int, reach: int) -> None:
    buckets, exact = disentangled_buckets(count, reach, reach).tolist(), count // 4
    assert buckets == sorted(buckets)
    assert (buckets[0], buckets[reach], buckets[-1]) == (0, count // 2, count - 1)
    for distance in range(1, reach):
        share = math.log(distance / exact) / math.log((reach - 1) / exact) * (exact - 1)
        if distance > exact and abs(share - round(share)) < 1e-5:
            continue  # on an edge, where rounding decides
        expected = distance if distance <= exact else exact + math.ceil(share)
        assert buckets[reach + distance] == count // 2 + expected
        assert buckets[reach - distance] == count // 2 - expected


def test_disentangled_scores_are_those_of_content_and_position(
    config: Callable[..., EncoderConfig],
) -> None:
    few = {"relative_buckets": 8, "relative_distance": 20}
    scheme = Disentangled(config(positions="disentangled", **few))
    at = torch.tensor([0, 1, 5, 50, 5000])
    query, key = torch.randn(2, 1, 2, 5, 8)
    bias = scheme.bias(scheme.prepare(at[None]), 1, query, key)[0]
    for row, here in enumerate(at.tolist()):
        for column, there in enumerate(at.tolist()):
            behind = max(-20, min(20, here - there))
            bucket = int(disentangled_buckets(8, 20, 20)[behind + 20])
            for head in range(2):
                by_key = query[0, head, row] @ scheme.keys[1][head, :, bucket]
                by_query = key[0, head, column] @ scheme.queries[1][head, :, bucket]
                expected = (by_key + by_query) / math.sqrt(8)
                torch.testing.assert_close(bias[head, row, column], expected)
