"""From results to page: figures as they are quoted, verdicts that follow the figures, and the page that is committed."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import pytest

from model.lab import figures
from model.lab.page import write
from model.lab.predictions import PREDICTIONS
from model.lab.results import Range, load, rounded, save
from model.lab.training import SCHEMES

DOCS = Path(__file__).resolve().parents[3] / "docs"


@pytest.fixture
def results() -> dict[str, Any]:
    """Those that are committed."""
    return load(DOCS / "positions")


def verdict(results: dict[str, Any], begins: str) -> bool:
    [prediction] = [each for each in PREDICTIONS if each.text.startswith(begins)]
    return prediction.check(results)[0]


def test_a_range_is_quoted_with_its_ends_unless_they_are_alike() -> None:
    assert Range.of([0.5, 0.75, 1.0]).percent() == "75.0 (50.0–100.0)"
    assert Range.of([0.99999, 1.0]).percent() == "100.0"


def test_what_is_saved_is_read_again_cut_to_the_digits_that_count(tmp_path: Path) -> None:
    found = {"a": [1.23456, {"b": 1.23456e-7}], "c": "text", "d": 3}
    save(found, tmp_path)
    assert load(tmp_path) == rounded(found) == {"a": [1.235, {"b": 1.235e-7}], "c": "text", "d": 3}


def test_the_page_is_what_its_results_say(results: dict[str, Any], tmp_path: Path) -> None:
    page = write(results, tmp_path / "positions.md", tmp_path / "positions")
    assert page.read_text(encoding="utf-8") == (DOCS / "positions.md").read_text(encoding="utf-8"), "run `make lab`"


def test_every_picture_and_file_that_the_page_names_is_there() -> None:
    text = (DOCS / "positions.md").read_text(encoding="utf-8")
    pictures = re.findall(r"!\[[^]]+\]\(([^)]+)\)", text)
    assert len(pictures) == len(set(pictures)) == len(list((DOCS / "positions").glob("*.png")))
    assert all((DOCS / name).is_file() for name in pictures)
    for name in re.findall(r"`((?:model|tests)/[\w/.-]+)`", text):
        assert (DOCS.parent / name).exists(), name


def test_the_page_was_not_made_by_a_quick_run(results: dict[str, Any]) -> None:
    assert not results["about"]["quick"]
    assert len(results["about"]["seeds"]) == 3


def test_learned_and_sinusoidal_reverse_and_fall_to_the_multiset_without_positions(results: dict[str, Any]) -> None:
    line = results["baselines"]["multiset"]
    for scheme in ("learned", "sinusoidal"):
        for run in figures.select(results, "reversal", "reverse", scheme):
            assert run["accuracy"] >= 0.99
            assert abs(run["blind"] - line) <= 0.05


def test_every_scheme_is_measured_at_every_length_or_refuses(results: dict[str, Any]) -> None:
    for scheme in SCHEMES:
        for length in (32, 64, 128, 512):
            found = figures.at_length(results, scheme, "left", length)
            assert (found is None) == (scheme == "learned" and length > 32)


def test_verdicts_follow_the_figures(results: dict[str, Any]) -> None:
    other = copy.deepcopy(results)
    for run in other["extrapolation"]:
        if run["scheme"] == "alibi":
            run["accuracy"]["64"]["left"] = 0.9  # were it so, it could tell left from right
    begins = "The left neighbour: symmetric"
    assert verdict(results, begins)
    assert not verdict(other, begins)
    for run in other["reversal"]:
        run["blind"] = 0.5
    assert verdict(results, "Positions taken away")
    assert not verdict(other, "Positions taken away")


def test_steps_to_the_goal_are_those_of_the_first_window_that_reaches_it() -> None:
    assert figures.steps_to_goal({"curve": [[50, 0.5], [100, 0.995], [150, 0.98]]}) == 100
    assert figures.steps_to_goal({"curve": [[50, 0.5]]}) == float("inf")
