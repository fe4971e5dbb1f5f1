"""From results to page: quoted figures, verdicts, and the committed page."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headlight.analysis import head_kinds
from lab.experiments.extrapolation import LENGTHS
from lab.page import figures
from lab.page.page import write
from lab.page.predictions import PREDICTIONS
from lab.page.scheme_tables import furthest
from lab.page.verdicts import Finding, Unseen
from lab.pictures import attention, measured, pruning
from lab.results import Range, load, rounded, save, select
from lab.training import SCHEMES

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.fixture
def results() -> dict[str, Any]:
    """Return the committed results."""
    return load(DOCS / "positions")


def verdict(results: dict[str, Any], begins: str) -> Finding:
    [prediction] = [each for each in PREDICTIONS if each.text.startswith(begins)]
    return prediction.check(results)[0]


def test_a_range_is_quoted_with_both_ends_unless_they_are_equal() -> None:
    assert Range.of([0.5, 0.75, 1.0]).percent() == "75.0 (50.0–100.0)"
    assert Range.of([0.99999, 1.0]).percent() == "100.0"


def test_results_round_trip_with_rounded_digits(tmp_path: Path) -> None:
    found = {"a": [1.23456, {"b": 1.23456e-7}], "c": "text", "d": 3}
    save(found, tmp_path)
    assert load(tmp_path) == rounded(found) == {"a": [1.235, {"b": 1.235e-7}], "c": "text", "d": 3}


def test_the_committed_page_is_rendered_from_its_results(
    results: dict[str, Any], tmp_path: Path
) -> None:
    page = write(results, tmp_path / "positions.md", tmp_path / "positions")
    assert page.read_text(encoding="utf-8") == (DOCS / "positions.md").read_text(
        encoding="utf-8"
    ), "run `nox -s lab`"


def test_pictures_are_drawn_from_the_results(results: dict[str, Any], tmp_path: Path) -> None:
    drawn = [
        path for part in (measured, attention, pruning) for path in part.draw(results, tmp_path)
    ]
    assert all(
        (DOCS / "positions" / path.name).is_file() and path.stat().st_size > 20_000
        for path in drawn
    )


def test_every_picture_and_file_on_the_page_exists() -> None:
    text = (DOCS / "positions.md").read_text(encoding="utf-8")
    shown = re.findall(r"!\[[^]]+\]\(([^)]+)\)", text + (DOCS / "heads.md").read_text("utf-8"))
    drawn = {f"positions/{path.name}" for path in (DOCS / "positions").glob("*.png")}
    assert drawn == {name for name in shown if name.startswith("positions/")}
    for name in re.findall(r"`((?:model|tests)/[\w/.-]+)`", text):
        assert (DOCS.parent / name).exists(), name


def test_the_page_was_not_made_by_a_quick_run(results: dict[str, Any]) -> None:
    assert not results["about"]["quick"]
    assert len(results["about"]["seeds"]) == 3


def test_learned_and_sinusoidal_reverse_and_fall_to_the_multiset_without_positions(
    results: dict[str, Any],
) -> None:
    """The main result of the lab.

    Committed results must confirm it.
    """
    line = results["baselines"]["multiset"]
    for scheme in ("learned", "sinusoidal"):
        for run in select(results, "reversal", "reverse", scheme):
            assert run["accuracy"] >= 0.99
            assert abs(run["blind"] - line) <= 0.05


def test_every_scheme_is_measured_or_refuses_at_every_length(results: dict[str, Any]) -> None:
    for scheme in SCHEMES:
        for length in LENGTHS:
            found = figures.at_length(results, scheme, "left", length)
            assert (found is None) == (scheme == "learned" and length > 32)


def changed(results: dict[str, Any], scheme: str, **values: Any) -> dict[str, Any]:
    """Return a copy in which every run of a scheme has other values."""
    other = copy.deepcopy(results)
    for experiment in ("reversal", "extrapolation"):
        for run in other[experiment]:
            if run["scheme"] == scheme:
                run |= {name: copy.deepcopy(value) for name, value in values.items() if name in run}
    return other


def over(*left: float) -> dict[str, dict[str, float]]:
    """Return accuracies by length: of "left" and, equal, of "recall"."""
    return {
        str(length): dict.fromkeys(("left", "recall", "left, few keys"), value)
        for length, value in zip(LENGTHS, left, strict=True)
    }


@pytest.mark.parametrize(
    ("begins", "scheme", "holds", "fails"),
    [
        ("Copying", "rope", {"accuracy": 1.0}, {"accuracy": 0.9}),
        ("Reversal of a fixed", "learned", {"accuracy": 0.99}, {"accuracy": 0.98}),
        ("With positions removed", "learned", {"blind": 0.12}, {"blind": 0.2}),
        ("Without positions", "none", {"accuracy": 0.12}, {"accuracy": 0.2}),
        ("Symmetric ALiBi", "alibi", {"accuracy": 0.2}, {"accuracy": 1.0}),
        (
            "A head",
            "learned",
            {"antidiagonal": [[0.1, 0.8], [0, 0]]},
            {"antidiagonal": [[0.1, 0.7], [0, 0]]},
        ),
        (
            "The left neighbour: sinusoidal",
            "sinusoidal",
            {"accuracy": over(0.9, 0.9, 0.5, 0.4)},
            {"accuracy": over(0.9, 0.9, 0.5, 0.5)},
        ),
        (
            "Recall: distance",
            "alibi signed",
            {"accuracy": over(0.9, 0.9, 0.5, 0.4)},
            {"accuracy": over(0.9, 0.9, 0.9, 0.8)},
        ),
        (
            "The left neighbour: symmetric",
            "alibi",
            {"accuracy": over(0.5, 0.5, 0.5, 0.5), "mirrored": 0.5},
            {"accuracy": over(0.5, 0.5, 0.5, 0.9), "mirrored": 0.5},
        ),
    ],
)
def test_verdicts_follow_the_figures(
    results: dict[str, Any], begins: str, scheme: str, holds: dict[str, Any], fails: dict[str, Any]
) -> None:
    assert verdict(changed(results, scheme, **holds), begins) is True
    assert verdict(changed(results, scheme, **fails), begins) is False


def test_tasks_that_were_not_learnt_get_no_verdict(results: dict[str, Any]) -> None:
    nothing = changed(results, "sinusoidal", accuracy=over(0.03, 0.03, 0.03, 0.03))
    assert verdict(nothing, "The left neighbour: sinusoidal") is Unseen.NOT_LEARNT
    assert verdict(nothing, "Recall: every scheme") is Unseen.NOT_LEARNT


def test_flat_must_hold_for_each_seed(results: dict[str, Any]) -> None:
    flat = changed(
        changed(results, "rope", accuracy=over(1, 1, 1, 1)),
        "alibi signed",
        accuracy=over(0.9, 0.9, 0.9, 0.9),
    )
    begins = "The left neighbour: RoPE and signed"
    assert verdict(flat, begins) is True
    [one, *others] = select(flat, "extrapolation", "recall", "rope")
    one["accuracy"]["512"]["left"] = 0.9
    assert verdict(flat, begins) is Unseen.DISAGREE
    for other in others:
        other["accuracy"]["512"]["left"] = 0.9
    assert verdict(flat, begins) is False


def test_steps_to_the_goal_are_those_of_the_first_window_at_the_goal() -> None:
    assert figures.steps_to_goal({"curve": [[50, 0.5], [100, 0.995], [150, 0.98]]}) == 100
    assert figures.steps_to_goal({"curve": [[50, 0.5]]}) == float("inf")


def test_the_sampling_error_is_shown_beside_the_range_over_seeds(
    results: dict[str, Any],
) -> None:
    assert figures.question_count(results, "extrapolation", "recall", 512) == 256
    assert figures.sampling_error(0.118, 256) == pytest.approx(0.02, abs=2e-4)
    text = (DOCS / "positions.md").read_text(encoding="utf-8")
    assert "| 11.8 (10.5–13.7) ± 2.0 |" in text
    assert "| *questions* | *4,096* | *2,048* | *1,024* | *256* |" in text
    assert "| 44.0 (43.3–44.3) |" in text, "of 28,615 answers, an error below half a point"
    assert "1.7 points on 895 questions" in text


def test_the_best_scheme_is_named_if_it_exceeds_the_floor_by_more_than_noise(
    results: dict[str, Any],
) -> None:
    assert furthest(results, "recall") == (
        "symmetric ALiBi is best at recall, the symbol that followed a key earlier: "
        "11.8 (10.5–13.7) ± 2.0 %"
    )
    # The floor is 4.8 %, and 256 answers may be off by 2.7 points.
    lucky = over(0.5, 0.5, 0.5, 0.07)
    assert furthest(changed(results, "alibi", accuracy=lucky), "recall").startswith(
        "no scheme is better"
    )


def test_drawn_heads_are_named_by_the_rule_of_the_command() -> None:
    assert (attention.CALLED, attention.UNIFORM) == (head_kinds.CALLED, head_kinds.UNIFORM)
    size = 16
    for wanted, weights in (
        ("uniform", np.full((size, size), 1 / size)),
        ("mirrored", np.eye(size)[::-1].copy()),
        ("self", np.eye(size)),
        ("previous", np.eye(size, k=-1) + np.eye(size)[:1] * (np.arange(size)[:, None] == 0)),
        ("other", np.tile(np.eye(size)[3], (size, 1))),
    ):
        assert attention.name(weights) == wanted
        mixed = 0.6 * weights + 0.4 / size
        assert attention.name(mixed) == wanted
