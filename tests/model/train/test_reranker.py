from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from headlight_model.checkpoint import load_checkpoint
from headlight_model.evaluate.reranking import FIRST, reranked
from headlight_model.evaluate.task import retrieval_task
from headlight_model.texts.corpus import Part
from headlight_model.train import __main__ as training
from headlight_model.train import reranker
from headlight_model.train.data.stored import Pairs


@pytest.mark.usefixtures("small_library")
def test_a_trained_encoder_becomes_a_reranker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    training.main(["--positions", "rope", "--out", "start", "--quick", "--stage", "1"])
    reranker.main(["--start", "start", "--out", "ranks", "--quick"])
    assert json.loads(Path("ranks/training.json").read_text(encoding="utf-8"))["steps"] == 2
    encoder = load_checkpoint(Path("ranks"))
    head = encoder.config.score_head
    assert head is not None
    assert (head.labels, head.activation, encoder.config.segments) == (("relevant",), "sigmoid", 2)
    rows = [([2, 9, 3, 8, 3], 3), ([2, 9, 3, 8, 7, 6, 3], 3), ([2, 5, 3, 8, 3], 3)]
    with torch.inference_mode():
        together, _ = reranker.scores(encoder, rows)
        alone = torch.cat([reranker.scores(encoder, [row])[0] for row in rows])
    torch.testing.assert_close(together, alone, atol=1e-5, rtol=0)
    task = retrieval_task(Part.TEST)
    first = np.random.default_rng(0).random((len(task.answers), len(task.candidates)))
    found = reranked(Path("ranks"), task, first)
    for before, after in zip(first, found, strict=True):
        kept = np.argsort(-before)[:FIRST]
        assert set(np.argsort(-after)[:FIRST]) == set(kept)


def test_wrong_answers_are_not_right_ones() -> None:
    encoder = load_checkpoint(
        Path(__file__).parents[3] / "model/headlight_model/checkpoints/docs-rope"
    )
    queries = [[2, 10, 3], [2, 10, 3], [2, 30, 3], [2, 40, 3]]
    documents = [[2, 11, 3], [2, 12, 3], [2, 11, 3], [2, 41, 3]]
    wrong = reranker.mine(encoder, Pairs(queries, documents))
    # The second has the same question, the third the same text.
    assert [sorted(set(row.tolist()) - {-1}) for row in wrong] == [[3], [2, 3], [1, 3], [0, 1, 2]]
