from __future__ import annotations

import numpy as np
import pytest
import torch

from headlight_model.encoder import Encoder
from headlight_model.positions.position_schemes import POSITIONS
from headlight_model.train.data.batches import bag_of_words
from headlight_model.train.data.stored import Data, Pairs
from headlight_model.train.data.words import (
    TOKEN_SHARE,
    distance_from_words,
    document_frequencies,
    learn_words,
    starting_vectors,
)
from headlight_model.train.initial import WRITES, initialise_encoder
from headlight_model.train.recipe import QUICK

WIDTH = QUICK.dim


def data(queries: list[list[int]], documents: list[list[int]]) -> Data:
    return Data(np.zeros(1, dtype=np.int64), {"summary": Pairs(queries, documents)})


def test_pieces_of_one_stem_start_alike_and_rare_ones_long() -> None:
    torch.manual_seed(0)
    pieces = ["the", "encode", "encoded", "##ing", "rare"]
    vectors = starting_vectors(pieces, data([[0, 1], [0, 2]], [[0, 3], [0, 1, 2]]), 256)
    cosines = torch.nn.functional.cosine_similarity(vectors[:, None], vectors[None], dim=-1)
    assert cosines[1, 2] > 0.7
    assert cosines[[0, 1, 3], [1, 3, 4]].abs().max() < 0.3
    lengths = vectors.norm(dim=1)
    assert lengths[0] < lengths[1] < lengths[3] < lengths[4]
    assert lengths[4].item() == pytest.approx(1.0)


def test_a_text_counts_once() -> None:
    assert document_frequencies([[1, 1, 2], [2]], 4).tolist() == [0, 1, 2, 0]


@pytest.mark.parametrize("positions", sorted(POSITIONS))
def test_the_vector_of_a_text_ignores_word_order_and_length(positions: str) -> None:
    torch.manual_seed(0)
    encoder = Encoder(QUICK.encoder_config(positions, 100)).eval()
    words = torch.nn.functional.normalize(torch.randn(100, WIDTH), dim=1)
    initialise_encoder(encoder, words)
    with torch.inference_mode():
        bags = bag_of_words(encoder, [[10, 20, 30], [30, 10, 20], [10, 20, 30] * 3, [40, 50, 60]])
    cosines = bags @ bags.T
    assert cosines[0, 1] > 0.99
    assert cosines[0, 2] > 0.95
    assert cosines[0, 3] < 0.8


def test_training_increases_the_similarity_of_pairs(counting_data: Data) -> None:
    torch.manual_seed(0)
    encoder = Encoder(QUICK.encoder_config("rope", 200))
    initialise_encoder(encoder, torch.nn.functional.normalize(torch.randn(200, WIDTH), dim=1))
    pairs = counting_data.pairs["summary"]

    def alike() -> float:
        with torch.inference_mode():
            return float(
                (bag_of_words(encoder, pairs.queries) * bag_of_words(encoder, pairs.documents))
                .sum(1)
                .mean()
            )

    before = alike()
    learn_words(encoder, counting_data, QUICK, seed=0)
    assert alike() > before


def test_an_encoder_with_idle_blocks_matches_word_vectors_but_for_name_weights() -> None:
    torch.manual_seed(0)
    encoder = Encoder(QUICK.encoder_config("rope", 100)).eval()
    initialise_encoder(encoder, torch.nn.functional.normalize(torch.randn(100, WIDTH), dim=1))
    for name, weight in encoder.named_parameters():
        if name.endswith(WRITES):
            weight.detach().zero_()
    rows, marks = [[10, 20, 30, 40], [50, 60]], (20, 40)
    loss, cosine, tokens = distance_from_words(encoder, rows, (0, 0), bfloat16=False)
    assert (loss.item(), cosine.item()) == pytest.approx((0.0, 1.0), abs=1e-6)
    assert tokens == 8
    loss, cosine, _ = distance_from_words(encoder, rows, marks, bfloat16=False)
    assert cosine < 0.95
    # Unit vectors, one of six weighted three times: twice its length is missing.
    assert loss.item() == pytest.approx(1 - cosine.item() + TOKEN_SHARE * 4 / 14, rel=1e-4)
