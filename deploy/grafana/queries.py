"""Forms of expression for the dashboard."""

from __future__ import annotations

OURS = '{namespace=~"$namespace", model=~"$model"}'
PLACE = '{namespace=~"$namespace"}'
PROCESS = '{namespace=~"$namespace", job="headlight"}'
POD = '{namespace=~"$namespace", container="headlight"}'
CALLS = '{namespace=~"$namespace", grpc_service="headlight.v1.HeadlightService"}'


def where(selector: str, *matchers: str) -> str:
    """Return a selector with more matchers."""
    return ", ".join((selector.removesuffix("}"), *matchers)) + "}"


def rate(metric: str, selector: str, by: str, *matchers: str) -> str:
    """Return the rate per second, by these labels."""
    grouped = f"sum by ({by}) " if by else "sum "
    return f"{grouped}(rate({metric}{where(selector, *matchers)}[$__rate_interval]))"


def quantile(share: float, metric: str, selector: str, by: str, *matchers: str) -> str:
    """Return a quantile of a histogram, by these labels."""
    labels = f"le, {by}" if by else "le"
    return f"histogram_quantile({share}, {rate(metric + '_bucket', selector, labels, *matchers)})"


def mean(metric: str, selector: str, by: str) -> str:
    """Return the mean of a histogram's observations."""
    return f"{rate(metric + '_sum', selector, by)} / {rate(metric + '_count', selector, by)}"


STAGE = "headlight_stage_seconds"
TOTAL = 'stage="total"'
INTERACTIVE = 'priority="interactive"'
BURN = "namespace_sli:headlight_budget_burn"
FAILURES = 'sli=~"calls|requests"'
UNAUTHENTICATED = 'grpc_code="UNAUTHENTICATED"'
OVER_QUOTA = 'reason="quota"'
