"""Figures of one comparison on the terminal."""

from __future__ import annotations

from lab.summary import lines


def test_each_run_has_a_line_with_its_numbers_and_refusals() -> None:
    run = {
        "task": "reverse",
        "scheme": "rope",
        "theta": 100.0,
        "variant": "varied",
        "seed": 0,
        "accuracy": {"8": {"reverse": 0.987}, "20": "20 tokens are more than max_length 16"},
        "curve": [[50, 0.5], [100, 0.995]],
        "perplexity": 6.25,
        "parameters": 123456,
        "pruned": {"random": [[1.0, 0.5, 0.1], [1.0, 0.7, 0.3]]},
    }
    [line] = lines({"variants": [run]})
    assert line.startswith("reverse rope theta 100 varied ")
    for figure in (
        "accuracy 8 reverse 98.7 %",
        "accuracy 20 refused",
        "perplexity 6.25",
        "123,456 parameters",
        "steps until 99 %: 100",
        "heads removed, random: 100 60 20 %",
    ):
        assert figure in line
