from __future__ import annotations

import pytest

from deploy.prometheus.names import metric_names
from tests.promql import selectors, without_conditions


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ("vector(0.001)", set()),
        ("up", {"up"}),
        (
            (
                'sum by (a, b) (rate(x_total{a="up", '
                'b=~"y|z"}[5m])) or 0 * sum without (c) (ns:y:rate5m)'
            ),
            {"x_total", "ns:y:rate5m"},
        ),
        ("a / on (pod) group_left (b) c", {"a", "c"}),
        ('max by (n) (\n  a > 14.4 # not d\n  and b{c="#{}"} >= bool 1e3\n)', {"a", "b"}),
        ("histogram_quantile(0.9, sum by (le) (rate(h_bucket[$__rate_interval])))", {"h_bucket"}),
        ('x{namespace=~"$namespace"} offset 5m - time()', {"x"}),
        ("sum_over_time(r:x:y[6h:5m]) * 300", {"r:x:y"}),
        ("a and (b or c) unless d", {"a", "b", "c", "d"}),
    ],
)
def test_the_metrics_of_an_expression_are_found(expression: str, names: set[str]) -> None:
    assert metric_names(expression) == names


def test_comparisons_return_booleans_and_nothing_else_changes() -> None:
    given = (
        'a{x="b > c", y!="d", z=~"e"} - time() <= 2 * 3 and absent(up{j="i"}) == 1 or f > bool 1'
    )
    made = (
        'a{x="b > c", y!="d", z=~"e"} - time() <= bool 2 * 3 and count(up{j="i"}) == bool '
        "1 or f > bool 1"
    )
    assert without_conditions(given) == made


def test_selectors_of_an_expression_are_found() -> None:
    given = 'sum(rate(a{b="c"}[5m])) / on (d) sum(rate(a[5m])) # e\n > f:g:h{i="a"}'
    assert selectors(given) == {'a{b="c"}', "a", 'f:g:h{i="a"}'}
