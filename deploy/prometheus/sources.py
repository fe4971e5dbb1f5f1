"""Rule files, the only source of rules, and the PrometheusRule that is made of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).resolve().parent
DEPLOY = HERE.parent
RULE_FILES = (HERE / "recording.yaml", HERE / "alerts.yaml")
TEST_FILES = tuple(sorted((HERE / "tests").glob("*.yaml")))
OPERATOR = DEPLOY / "components" / "monitoring" / "prometheusrule.yaml"
LABELS = {
    "app.kubernetes.io/name": "headlight",
    "app.kubernetes.io/instance": "headlight",
    "app.kubernetes.io/component": "monitoring",
    "app.kubernetes.io/part-of": "headlight",
    "app.kubernetes.io/managed-by": "kustomize",
}
WRITE = "run `python -m deploy.prometheus`"
HEAD = "# Of deploy/prometheus/*.yaml, which are to be changed: then " + WRITE + ".\n"


def groups() -> list[dict[str, Any]]:
    """Return all groups of rules, as Prometheus has them."""
    result: list[dict[str, Any]] = []
    for path in RULE_FILES:
        result += yaml.safe_load(path.read_text(encoding="utf-8"))["groups"]
    return result


def rules() -> list[dict[str, Any]]:
    """Return all rules, in order."""
    return [rule for group in groups() for rule in group["rules"]]


def alerts() -> list[dict[str, Any]]:
    """Return the rules that alert; several may share a name."""
    return [rule for rule in rules() if "alert" in rule]


def recorded() -> set[str]:
    """Return the names of recorded rules."""
    return {rule["record"] for rule in rules() if "record" in rule}


class _Dumper(yaml.SafeDumper):  # type: ignore[misc]  # the library ships no types
    """Expressions as blocks, and no references from one rule to another."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def prometheus_rule() -> str:
    """Return the same rules as an object of the Prometheus Operator."""
    rule = {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "headlight", "labels": LABELS},
        "spec": {"groups": groups()},
    }
    text: str = yaml.dump(rule, Dumper=_Dumper, sort_keys=False, width=10_000, allow_unicode=True)
    return HEAD + text
