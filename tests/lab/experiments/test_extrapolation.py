"""Baselines: computed without a model, over more questions than models are asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.__main__ import unmodelled
from lab.experiments import extrapolation
from lab.experiments.extrapolation import LENGTHS, floors, question_count
from lab.results import load, rounded
from lab.tasks import floor
from lab.training import few_keys

RESULTS = load(Path(__file__).resolve().parents[3] / "docs/positions")


def test_questions_at_512_tokens_are_too_few_to_measure_a_floor() -> None:
    [training, *_] = extrapolation.trainings(range(1))
    assert question_count(training, 512)["recall"] == 256
    assert floor(few_keys(training, 512), "recall") > 0.07
    # Of a million questions: 4.88 %.
    assert floors(512)["recall"] == pytest.approx(0.0488, abs=0.0013)


@pytest.mark.parametrize(("length", "recall"), [(32, 0.1244), (64, 0.0888), (128, 0.0689)])
def test_floors_use_a_million_questions(length: int, recall: float) -> None:
    found = floors(length)
    assert found["recall"] == pytest.approx(recall, abs=0.002)
    assert rounded(found) == RESULTS["floors"][str(length)], "run `python -m lab --draw`"


@pytest.mark.parametrize("question", ["left", "recall"])
def test_accuracy_without_positions_falls_with_length(question: str) -> None:
    found = [RESULTS["floors"][str(length)][question] for length in LENGTHS]
    assert found == sorted(found, reverse=True)


def test_baselines_without_a_model_are_reproducible(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(extrapolation, "FLOOR_QUESTIONS", 1024)
    found = rounded(unmodelled(quick=False))
    assert set(found) == {"claims", "baselines", "floors", "asked"}
    assert {name: RESULTS[name] for name in ("baselines", "asked")} == {
        name: found[name] for name in ("baselines", "asked")
    }
