"""Distance of precisions from fp32, in the description of each kind of encoder."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from headlight.cli.result_output import info_text
from headlight.description import Quality
from tests import scorers
from tests.factory import with_options
from tests.headlight.blocking import LoopThread
from tests.headlight.interface.conftest import each_kind

COSINES: dict[str, Any] = {
    "texts": "some",
    "count": 9,
    "real_text": True,
    "cosine_mean": 0.99,
    "cosine_p1": 0.98,
    "cosine_min": 0.97,
    "nearest_kept": 0.9,
    "ten_nearest_kept": 0.8,
    "batch_drift": 1e-7,
}
ORDERS = {
    "fp32": {"kendall_tau": 1.0, "ndcg_at_10": 1.0},
    "int8": {"kendall_tau": -0.5, "ndcg_at_10": 0.0},
}
NONE: dict[str, dict[str, Any]] = {
    "fp32": {},  # of an earlier exporter
    "int8": {"kendall_tau": None, "ndcg_at_10": None},
}


@pytest.mark.parametrize(
    ("orders", "head", "last"),
    [
        (ORDERS, ["on", "tau", "NDCG@10"], ["cpu", "int8", "-0.5000", "0.0000"]),
        (
            NONE,
            ["on", "cosine", "least", "nearest", "of", "ten"],
            ["cpu", "int8", "0.990000", "0.970000", "90.0%", "80.0%"],
        ),
    ],
    ids=["scores", "vectors"],
)
def test_precisions_are_described_by_what_the_model_gives(
    orders: dict[str, dict[str, Any]],
    head: list[str],
    last: list[str],
    tmp_path_factory: pytest.TempPathFactory,
    tmp_path: Path,
    loop: LoopThread,
) -> None:
    entries = [
        {"provider": "cpu", "precision": name, **COSINES, **order} for name, order in orders.items()
    ]
    bundle = scorers.bundle(tmp_path_factory, "reranker")
    folder = with_options(bundle, tmp_path / "bundle", quality=entries)
    with each_kind(folder, loop) as encoders:
        for encoder in encoders.values():
            model = encoder.model()
            expected = [Quality(**entry) for entry in entries]
            assert [*map(dataclasses.asdict, model.quality)] == [*map(dataclasses.asdict, expected)]
            shown = info_text(model).partition("Precisions beside fp32")[2].splitlines()[1:]
            assert (shown[0].split(), shown[-1].split()) == (head, last)
