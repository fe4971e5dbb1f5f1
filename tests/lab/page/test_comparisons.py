"""Tables and verdicts of the comparisons, on results made by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lab.experiments import causal, variants
from lab.page import comparisons
from lab.page.predictions_comparisons import PREDICTIONS
from lab.page.verdicts import Finding, Unseen

SEEDS = range(3)
Results = dict[str, Any]
ALL_ALIKE = [[1.0] * 9]


def made() -> Results:
    """Return results in which every training answers everything, and heads do not matter."""
    results: Results = {"variants": [], "causal": [], "reversal": []}
    for plan in variants.trainings(SEEDS):
        questions = ("left", "recall") if plan.task == "recall" else ("reverse",)
        results["variants"].append(
            {
                "task": plan.task,
                "scheme": plan.scheme,
                "variant": plan.variant,
                "accuracy": {
                    str(length): dict.fromkeys(questions, 1.0) for length in variants.lengths(plan)
                },
                "curve": [[50, 0.5], [100, 1.0]],
                "parameters": 1234,
                "pruned": dict.fromkeys(("least first", "most first", "random"), ALL_ALIKE),
            }
        )
    for plan in causal.trainings(SEEDS):
        perplexity = {str(length): 8.0 for length in causal.LENGTHS}
        results["causal"].append(
            {"task": "next", "scheme": plan.scheme, "perplexity": perplexity, "blind": 9.0}
        )
    for scheme in ("sinusoidal", "learned", "rope"):
        results["reversal"] += [
            {
                "task": "reverse",
                "scheme": scheme,
                "pruned": dict.fromkeys(("least first", "most first", "random"), ALL_ALIKE),
            }
            for _ in SEEDS
        ]
    results["head_cost"] = [
        {"heads": heads, "parameters": 5678, "ms": 10.0 + heads} for heads in (1, 2, 4, 8, 16)
    ]
    results["reading_cost"] = {"tokens": 500, "recurrent": 10.0, "attention": 20.0}
    return results


def test_the_table_of_errors_quotes_the_measured_figures() -> None:
    results = made()
    answer("heads 1", 0.875)(results)
    quoted = comparisons.quoted(results)
    assert (quoted["ms_least_heads"], quoted["ms_most_heads"]) == ("11", "26")
    assert (quoted["most_heads"], quoted["left_one_head"]) == ("16", "87.5")
    assert (quoted["ms_recurrent"], quoted["ms_attention"]) == ("10", "20")


def answer(variant: str, value: float, **only: str) -> Callable[[Results], None]:
    """Return a change: the runs of a variant answer everything with this accuracy."""

    def change(results: Results) -> None:
        for run in comparisons.runs(results, variant, **only):
            for length, by_question in run["accuracy"].items():
                run["accuracy"][length] = dict.fromkeys(by_question, value)

    return change


def perplexities(scheme: str, *values: float) -> Callable[[Results], None]:
    def change(results: Results) -> None:
        for run in results["causal"]:
            if run["scheme"] == scheme:
                lengths = map(str, causal.LENGTHS)
                run["perplexity"] = dict(zip(lengths, values, strict=True))

    return change


def random_orders_lose(results: Results) -> None:
    for run in (*results["reversal"], *results["variants"]):
        run["pruned"] = {**run["pruned"], "random": [[1.0, *[0.2] * 8], [1.0, 1.0, *[0.2] * 7]]}


def best_of_bases(best: float) -> Callable[[Results], None]:
    def change(results: Results) -> None:
        for base, variant in ((100, "base 100"), (10_000, "plain"), (1e6, "base 1e+06")):
            answer(variant, 0.9 if base == best else 0.5, task="recall")(results)

    return change


def marked_is_worse(results: Results) -> None:
    answer("varied", 0.5, task="reverse marked")(results)


def nothing(results: Results) -> None:
    """Change nothing: every training is alike."""


@pytest.mark.parametrize(
    ("begins", "holds", "fails"),
    [
        ("Reversal is learnt", nothing, answer("concat 32", 0.5)),
        ("√d on", answer("scaled", 0.1), nothing),
        ("Texts of 32", best_of_bases(100), best_of_bases(1e6)),
        ("One head", nothing, answer("heads 1", 0.5)),
        ("More heads", random_orders_lose, nothing),
        ("Six layers", answer("layers 2", 0.5), answer("layers 6", 0.5)),
        ("Varied length", answer("varied", 0.5, task="reverse"), marked_is_worse),
        ("A causal model without", nothing, perplexities("none", 9.0, 9.0)),
        ("A causal model at", perplexities("sinusoidal", 8.0, 20.0), nothing),
    ],
)
def test_verdicts_follow_the_figures(
    begins: str,
    holds: Callable[[Results], None],
    fails: Callable[[Results], None],
) -> None:
    for change, wanted in ((holds, True), (fails, False)):
        assert verdict(begins, change) is wanted, (begins, wanted)


def verdict(begins: str, change: Callable[[Results], None]) -> Finding:
    [prediction] = [each for each in PREDICTIONS if each.text.startswith(begins)]
    results = made()
    change(results)
    return prediction.check(results)[0]


@pytest.mark.parametrize("begins", ["Texts of 32", "Six layers", "Varied length"])
def test_nothing_is_better_than_all_answers(begins: str) -> None:
    assert verdict(begins, nothing) is Unseen.AT_CEILING


def test_a_task_that_was_not_learnt_gets_no_verdict() -> None:
    assert verdict("√d on", answer("plain", 0.5)) is Unseen.NOT_LEARNT
    assert verdict("One head", answer("plain", 0.5)) is Unseen.NOT_LEARNT
    assert verdict("More heads", nothing_learnt_by_rope) is Unseen.NOT_LEARNT


def nothing_learnt_by_rope(results: Results) -> None:
    random_orders_lose(results)
    for run in results["variants"]:
        if run["variant"] == "layers 6":
            run["pruned"] = {order: [[0.5] * 9] for order in run["pruned"]}


def test_one_head_must_keep_up_in_every_seed() -> None:
    def one_falls_behind(results: Results) -> None:
        [one, *_] = comparisons.runs(results, "heads 1")
        one["accuracy"]["32"]["left"] = 0.9

    assert verdict("One head", one_falls_behind) is Unseen.DISAGREE


def test_a_base_is_best_only_if_every_seed_says_so() -> None:
    [prediction] = [each for each in PREDICTIONS if each.text.startswith("Texts of 32")]
    results = made()
    answer("plain", 0.8, task="recall")(results)
    answer("base 1e+06", 0.6)(results)
    assert prediction.check(results)[0] is True
    [one, *_] = comparisons.runs(results, "base 1e+06")
    one["accuracy"]["32"]["left"] = 1.0
    assert prediction.check(results)[0] is Unseen.DISAGREE


def test_heads_go_until_less_than_90_percent_of_the_accuracy_is_left() -> None:
    run = {"pruned": {"random": [[0.9, 0.82, 0.8, 0.9], [0.9, 0.9, 0.9, 0.9]]}}
    found = comparisons.removable([run], "random")
    assert found is not None
    assert found.mean == (1 + 3) / 2


@pytest.mark.parametrize("name", comparisons.TABLES)
def test_every_table_has_a_row_for_each_model_and_cells_for_each_column(name: str) -> None:
    results = made()
    answer("concat 48", 0.5)(results)
    for run in comparisons.runs(results, "varied", scheme="learned"):
        run["accuracy"]["20"] = "20 tokens are more than max_length 16"
    for run in results["causal"]:
        if run["scheme"] == "learned":
            run["perplexity"]["512"] = "512 tokens are more than max_length 128"
    lines = comparisons.TABLES[name](results).splitlines()
    assert len(lines) >= 4
    assert len({line.count("|") for line in lines}) == 1
    shown = {
        "concatenation": "| concatenated, 48 for the word and 16 for the position | 50.0 | 100 |",
        "scale": "| 1 | yes | 8 | 100.0 | 100 |",
        "base": "| 10,000 | 6 of 32 | 100.0 |",
        "one_head": "| 16 | 5,678 | 26.0 | – | – | – | – |",
        "pruning": "| learned, two layers | 8 | 8.0 | 8.0 |",
        "depth": "| 6 | 1,234 | 100.0 | 100 |",
        "varied": "| learned | 100.0 | 100.0 | 100.0 | refused |",
        "language": "| learned | 8.00 | refused | 9.00 |",
    }
    assert shown[name] in "\n".join(lines)
