from __future__ import annotations

import numpy as np
import pytest
import torch

from headlight_model.encoder import Encoder
from headlight_model.texts import corpus
from headlight_model.texts.corpus import Part
from headlight_model.texts.functions import NAME_WEIGHT
from headlight_model.train.data.batches import (
    embed,
    encode,
    equal_texts,
    name_weights,
    pair_batch,
    prepare,
    thin,
    windows,
)
from headlight_model.train.data.stored import Data, Pairs
from headlight_model.train.data.tasks import TASKS, pairs
from headlight_model.train.data.tokenizer import CLS_ID, SEP_ID, train_tokenizer
from headlight_model.train.loop import training_texts
from headlight_model.train.recipe import QUICK


def test_windows_are_parts_of_the_stream_and_reach_its_end() -> None:
    stream = np.arange(10, 20, dtype=np.int64)
    found = windows(stream, 200, 6, np.random.default_rng(0))
    assert found.shape == (200, 6)
    assert (found[:, 0] == CLS_ID).all()
    assert (found[:, -1] == SEP_ID).all()
    assert (np.diff(found[:, 1:-1], axis=1) == 1).all()
    assert (found[:, 1].min(), found[:, 4].max()) == (10, 19)


def test_a_batch_keeps_pairs_together_without_repeats(counting_data: Data) -> None:
    queries, documents = pair_batch(counting_data, QUICK.pairs, np.random.default_rng(0))
    assert len({tuple(query) for query in queries}) == QUICK.pairs
    assert all(
        document[1] - query[1] == 30 for query, document in zip(queries, documents, strict=True)
    )
    assert pair_batch(counting_data, QUICK.pairs, np.random.default_rng(0)) == (queries, documents)
    assert pair_batch(counting_data, QUICK.pairs, np.random.default_rng(1)) != (queries, documents)


def test_a_run_of_pairs_consists_of_neighbours(counting_data: Data) -> None:
    queries, _ = pair_batch(counting_data, 8, np.random.default_rng(0), run=4)
    numbers = np.array([query[1] for query in queries]).reshape(2, 4)
    assert (np.diff(numbers, axis=1) == 1).all()


def test_a_task_smaller_than_a_batch_is_used_whole(counting_data: Data) -> None:
    queries, _ = pair_batch(counting_data, 10**6, np.random.default_rng(0))
    assert sorted(queries) == sorted(counting_data.pairs["summary"].queries)


def test_each_task_gets_its_share() -> None:
    by_task = {
        name: Pairs([[CLS_ID, 10 + n, SEP_ID]] * 4, [[CLS_ID, 20 + n, SEP_ID]] * 4)
        for n, name in enumerate(TASKS)
    }
    data = Data(np.zeros(1, dtype=np.int64), by_task)
    random = np.random.default_rng(0)
    shown = [pair_batch(data, 2, random)[0][0][1] - 10 for _ in range(4000)]
    for number, share in enumerate(TASKS.values()):
        assert shown.count(number) / len(shown) == pytest.approx(share, abs=0.03)


def test_thinning_keeps_the_ends_and_the_order() -> None:
    rows = [[CLS_ID, *range(10, 1010), SEP_ID]]
    (thinned,) = thin(rows, 0.25, np.random.default_rng(0))
    assert (thinned[0], thinned[-1]) == (CLS_ID, SEP_ID)
    assert thinned[1:-1] == sorted(thinned[1:-1])
    assert len(thinned) == pytest.approx(752, abs=60)
    assert thin(rows, 0.0, np.random.default_rng(0)) == rows
    (thinned,) = thin(rows, 0.9, np.random.default_rng(0), marks=(17, 23))
    assert {17, 23} <= set(thinned)


def test_the_name_of_a_document_has_more_weight() -> None:
    weights = name_weights([2, 30, 7, 40, 41, 8, 42, 3], (7, 8))
    assert weights.tolist() == [1, 1, 1, NAME_WEIGHT, NAME_WEIGHT, 1, 1, 1]
    assert name_weights([2, 40, 8, 3], (7, 8)).tolist() == [1, 1, 1, 1]


def test_embed_returns_rows_in_order_whatever_their_lengths() -> None:
    torch.manual_seed(0)
    encoder = Encoder(QUICK.encoder_config("rope", 100)).eval()
    rows = [[CLS_ID, *range(10, 10 + length), SEP_ID] for length in (9, 1, 30, 4, 12)] * 10
    with torch.inference_mode():
        vectors, tokens = embed(encoder, rows)
        alone = torch.cat([encoder(torch.tensor([row])).pooled for row in rows])
    torch.testing.assert_close(vectors, alone, atol=1e-5, rtol=0)
    assert tokens >= sum(map(len, rows))


def test_equal_texts_on_either_side_are_found() -> None:
    same = equal_texts([[1], [1], [2]], [[3], [4], [4]])
    assert same.tolist() == [[True, True, False], [True, True, True], [False, True, True]]


@pytest.mark.usefixtures("small_library")
def test_prepare_keeps_the_parts_apart() -> None:
    sources = corpus.sources()
    tokenizer = train_tokenizer(training_texts(sources, pairs(sources, Part.TRAINING)), 512)
    data = {part: prepare(tokenizer, QUICK, part) for part in Part}
    said = {Part.TRAINING: "dedent", Part.VALIDATION: "b32hexencode", Part.TEST: "numerator"}
    for part, word in said.items():
        assert data[part].stream[-1] == SEP_ID
        text = tokenizer.decode(data[part].stream.tolist()).replace(" ##", "")
        assert [word in text for word in said.values()] == [other is part for other in said]
    summaries = data[Part.TRAINING].pairs["summary"]
    assert len(summaries.queries) == len(summaries.documents) > QUICK.pairs
    assert max(map(len, summaries.documents)) <= QUICK.document_length


def test_long_texts_are_truncated_and_keep_their_end_tokens() -> None:
    tokenizer = train_tokenizer(["a b c"], 50)
    (ids,) = encode(tokenizer, ["a " * 100], 10)
    assert len(ids) == 10
    assert (ids[0], ids[-1]) == (CLS_ID, SEP_ID)
