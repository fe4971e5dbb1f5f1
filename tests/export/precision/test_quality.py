"""Texts and figures that judge the quality of a precision."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from headlight.runtime import ItemResult, Runtime
from headlight.runtime.values import Architecture, Floats
from headlight_export.precision.quality import (
    BrokenVariantError,
    check_nearness,
    compare,
    cosines,
    nearness,
    table,
)
from headlight_export.precision.sample_texts import FEWEST, Passage, Passages, passages, varied
from tests.factory import small_config, small_tokenizer

SHAPE = Architecture(positions="none", layers=1, heads=1, dim=2, pooled_dim=2, vocab_size=64)


class Pretender:
    """Fake runtime that returns row i of a table for the text of id i."""

    def __init__(self, precision: str, vectors: Floats, drift: float = 0.0) -> None:
        self.precision, self.provider, self.engine = precision, "cpu", self
        self.bundle = SimpleNamespace(
            manifest=SimpleNamespace(architecture=SHAPE, outputs=("pooled",))
        )
        self.vectors, self.drift = vectors, drift

    def run(self, items: list[Any]) -> list[ItemResult]:
        found = self.vectors + self.drift * len(items)
        zeros = np.zeros((1, 1, 1, 1), np.float32)
        return [
            ItemResult(pooled=found[i.ids[0]], tokens=found[i.ids], attention=zeros, hidden=zeros)
            for i in items
        ]


def circle(count: int) -> Floats:
    """Return unit vectors, each nearer to the next than to the previous one."""
    angles = np.cumsum(np.linspace(0.2, 0.1, count))
    return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)


def compared(exact: Floats, other: Floats, drift: float = 0.0, precision: str = "int8") -> Any:
    texts = Passages(
        "numbers", True, tuple(Passage(np.array([i]), None) for i in range(len(exact)))
    )
    pair = Pretender("fp32", exact), Pretender(precision, other, drift)
    return compare(cast(Runtime, pair[0]), cast(Runtime, pair[1]), texts)


def test_identical_vectors_have_perfect_quality() -> None:
    entry = compared(circle(30), circle(30)).entry
    assert (entry.nearest_kept, entry.ten_nearest_kept, entry.batch_drift) == (1, 1, 0)
    assert entry.cosine_min > 1 - 1e-6


def test_a_lost_neighbour_is_detected_though_cosines_hardly_change() -> None:
    exact, moved = circle(30), circle(30)
    # The sixth and the eighth are equally near.
    middle = np.mean([np.arctan2(*exact[i][::-1]) for i in (6, 8)])
    exact[7] = np.cos(middle - 0.001), np.sin(middle - 0.001)
    moved[7] = np.cos(middle + 0.001), np.sin(middle + 0.001)
    entry = compared(exact, moved).entry
    assert entry.cosine_min > 0.99999
    assert entry.nearest_kept == 29 / 30


def test_vectors_that_depend_on_their_batch_are_detected() -> None:
    assert compared(circle(30), circle(30), 1e-4).entry.batch_drift == pytest.approx(29e-4, rel=0.1)


@pytest.mark.parametrize("value", [0.0, float("nan")])
def test_unusable_vectors_are_refused(value: float) -> None:
    with pytest.raises(BrokenVariantError, match="int8 gives"):
        compared(circle(30), np.full((30, 2), value, np.float32))


def test_each_precision_has_limits_for_the_mean_and_for_a_single_text() -> None:
    def moved(first: float, others: float) -> Floats:
        angles = np.full(30, others)
        angles[0] = first
        turned = (circle(30) @ np.array([1, 1j])) * np.exp(1j * angles)
        return np.stack([turned.real, turned.imag], axis=1).astype(np.float32)

    for precision, mean, worst in (("fp16", 0.9999, 0.9999), ("bf16", 0.999, 0.99)):
        far = np.arccos(mean) * 1.2
        remedy = "or give --precision bf16" if precision == "fp16" else "leave it out$"
        with pytest.raises(
            BrokenVariantError,
            match=rf"{precision} gives .* is 0\.99\d* on average, below {mean}: .*{remedy}",
        ):
            compared(circle(30), moved(far, far), precision=precision)
        with pytest.raises(BrokenVariantError, match=rf"at worst, below {worst}: .*{remedy}"):
            compared(circle(30), moved(np.arccos(worst) * 1.1, 0.0), precision=precision)
        compared(circle(30), moved(np.arccos(worst) * 0.9, 0.0), precision=precision)
    compared(circle(30), moved(0.5, 0.2))  # int8


def test_scores_and_sparse_vectors_are_judged_by_the_size_of_their_changes() -> None:
    def near(output: str, exact: Any, other: Any) -> Any:
        return nearness(output, [*zip(exact, other, strict=True)])

    scores = np.arange(30, dtype=np.float32)[:, None]
    off = scores.copy()
    off[3] += 0.1 * scores.std()
    expected = np.ones(30)
    expected[3] -= 0.1**2 / 2
    assert near("scores", scores, off) == pytest.approx(expected, abs=1e-6)
    # Not by the size of the scores: an offset changes no order.
    assert near("scores", scores + 50, off + 50) == pytest.approx(expected, abs=1e-5)
    with pytest.raises(
        BrokenVariantError, match="bf16 gives an output scores whose nearness to fp32 is"
    ):
        check_nearness("cpu", "bf16", {"scores": [*zip(scores, off[::-1], strict=True)]})
    terms = circle(30)
    assert near("sparse", terms, terms[::-1]) == pytest.approx(
        cosines(terms, terms[::-1]), abs=1e-6
    )
    terms[5] = 0  # an empty vector, but for a rounding error: its cosine would be 0
    almost = terms.copy()
    almost[5, 0] = 1e-6
    assert near("sparse", terms, almost).min() > 0.9999


def test_texts_to_judge_by_are_reproducible_and_of_several_kinds(tokenizer: Path) -> None:
    texts = varied()
    assert texts == varied()
    assert len(set(texts)) == len(texts) >= 300
    assert "How do I undo the last commit without losing my changes?" in texts
    assert "Die Bibliothek ist am Sonntag geschlossen." in texts
    assert any(text.startswith("def ") for text in texts)
    about = passages(small_config(), tokenizer, None).about
    assert about.startswith("questions, other languages; docstrings, comments and code of Python")


@pytest.fixture
def tokenizer(tmp_path: Path) -> Path:
    path = tmp_path / "tokenizer.json"
    small_tokenizer().save(str(path))
    return path


def test_lines_of_a_file_are_deduplicated_and_truncated(tokenizer: Path, tmp_path: Path) -> None:
    file = tmp_path / "texts"
    file.write_text(
        "\n".join(["", *(f"text {i}" for i in range(FEWEST)), "text 1", "long " * 100]),
        encoding="utf-8",
    )
    found = passages(small_config(), tokenizer, file)
    assert (found.real, found.about, len(found.items)) == (True, "lines of texts", FEWEST + 1)
    assert len(found.items[-1].ids) == 160
    assert all(item.segments is None for item in found.items)
    assert passages(small_config(segments=2), tokenizer, file).items[0].segments is not None


def test_an_unusable_file_is_named(tokenizer: Path, tmp_path: Path) -> None:
    file = tmp_path / "texts"
    file.write_text("one\ntwo", encoding="utf-8")
    with pytest.raises(ValueError, match="are 2 different texts; at least 20 are needed"):
        passages(small_config(), tokenizer, file)
    with pytest.raises(ValueError, match=r"without a tokenizer\.json"):
        passages(small_config(), None, file)
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="is not UTF-8 text"):
        passages(small_config(), tokenizer, file)


def test_random_ids_are_reported_as_no_evidence_of_neighbours() -> None:
    found = passages(small_config(), None, None)
    assert not found.real
    texts = Passages(
        found.about, found.real, tuple(Passage(np.array([i]), None) for i in range(30))
    )
    runtime = cast(Runtime, Pretender("fp32", circle(30)))
    assert "neighbour figures do not apply to texts" in table([compare(runtime, runtime, texts)])
