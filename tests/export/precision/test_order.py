"""Order of scores in reduced precisions."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from headlight_export.precision.order import agreement
from headlight_export.precision.quality import table
from headlight_export.writer.bundle_writer import export_checkpoint
from tests import scorers
from tests.factory import write_checkpoint


def test_tau_and_ndcg_are_those_of_the_textbook() -> None:
    exact = np.array([[3.0, 2.0, 1.0, 0.0]], np.float32)
    assert agreement(exact, 5 * exact - 9) == (1, 4, 1.0, 1.0)
    assert agreement(exact, -exact).kendall_tau == -1
    swapped = agreement(exact, np.array([[2.0, 3.0, 1.0, 0.0]], np.float32))
    assert swapped.kendall_tau == pytest.approx(4 / 6)  # one pair of six
    discounts = 1 / np.log2([2, 3, 4, 5])
    assert swapped.ndcg_at_10 == pytest.approx(
        float(discounts @ [3, 4, 2, 1] / (discounts @ [4, 3, 2, 1]))
    )
    ties = agreement(np.array([[1.0, 1.0, 0.0]]), np.array([[1.0, 2.0, 0.0]]))
    assert ties.kendall_tau == 1


def test_documents_beyond_the_first_ten_have_no_gain() -> None:
    exact = np.arange(20, 0, -1, dtype=np.float32)[None]
    other = exact.copy()
    other[0, 10:] = other[0, :9:-1]
    found = agreement(exact, other)
    assert found.ndcg_at_10 == 1
    assert found.kendall_tau == pytest.approx(1 - 2 * 45 / 190)


def test_the_report_of_a_reranker_has_the_order_of_each_precision(
    texts: Path, tmp_path: Path
) -> None:
    checkpoint = write_checkpoint(tmp_path / "checkpoint", scorers.reranker())
    options = {"precisions": ["bf16", "int8"], "providers": ["openvino"], "texts": texts}
    result = export_checkpoint(checkpoint, tmp_path / "bundle", **options)
    report = json.loads((tmp_path / "bundle" / "parity.json").read_text())["quality"]
    named = {
        (each["provider"], each["precision"]): (each["kendall_tau"], each["ndcg_at_10"])
        for each in report
    }
    assert named.keys() >= {("cpu", "bf16"), ("cpu", "int8"), ("openvino", "bf16")}
    assert all(each["order"] == {"lists": 8, "items": 24} for each in report)
    assert named["cpu", "fp32"] == (1, 1)
    for tau, gain in named.values():
        assert 0.3 < tau <= 1
        assert 0.3 < gain <= 1
    assert any(order != (1, 1) for order in named.values())
    assert "tau, NDCG@10" in table(result.quality)
    manifest = json.loads((tmp_path / "bundle" / "manifest.json").read_text())["quality"]
    assert [(each["kendall_tau"], each["ndcg_at_10"]) for each in manifest] == [*named.values()]
