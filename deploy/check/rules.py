"""python -m deploy.check.rules: consistency of rules, alerts, tests, runbooks, dashboard.

Needs promtool.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import yaml

from deploy.grafana import dashboard
from deploy.prometheus import sources
from deploy.prometheus.names import LABEL_VALUES, check_names, known_names, metric_names
from headlight_service.telemetry.metrics import SECONDS

RUNBOOKS = sources.DEPLOY / "runbooks"
HEADINGS = (
    "What it means",
    "What users feel",
    "How to look",
    "Likely causes",
    "What to do",
    "How to silence it",
)
SEVERITIES = {"page", "ticket"}
QUERIES = re.compile(r"^```promql\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MATCHERS = re.compile(r'\b(\w+)\s*(?:=~|!~|!=|=)\s*"([^"]*)"')
# Grafana's values for its variables.
VARIABLES = {"$__rate_interval": "5m", "$namespace": ".*", "$model": ".*"}


def promtool(*arguments: str | Path) -> list[str]:
    """Run promtool; return its output if it fails."""
    try:
        done = subprocess.run(
            ["promtool", *arguments], capture_output=True, text=True, check=False, timeout=600
        )
    except FileNotFoundError:
        return ["promtool is not installed; Debian has it in the package prometheus"]
    return [] if done.returncode == 0 else [(done.stdout + done.stderr).strip()]


def parsed(expressions: Iterable[tuple[str, str]]) -> list[str]:
    """Return promtool's errors in expressions, given with their places; it checks them as rules."""
    rules = [
        {"record": "checked", "expr": expr, "labels": {"at": f"{n} {where}"}}
        for n, (where, expr) in enumerate(expressions)
    ]
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        yaml.safe_dump({"groups": [{"name": "checked", "rules": rules}]}, file)
        file.flush()
        return promtool("check", "rules", "--lint=none", file.name)


def rules_are_valid() -> list[str]:
    """Check the rules with promtool and its lint."""
    return promtool("check", "rules", "--lint=all", "--lint-fatal", *sources.RULE_FILES)


def example_is_valid() -> list[str]:
    """Check the configuration for a Prometheus without the operator."""
    return promtool("check", "config", sources.HERE / "prometheus.yaml")


def alerts_fire_and_do_not() -> list[str]:
    """Run every file of tests with promtool."""
    return promtool("test", "rules", *sources.TEST_FILES)


def every_alert_is_tested(files: Sequence[Path] = sources.TEST_FILES) -> list[str]:
    """Check that tests make each alert fire (by severity), and each name not fire."""
    fires: set[tuple[str, str]] = set()
    silent: set[str] = set()
    for path in files:
        for test in yaml.safe_load(path.read_text(encoding="utf-8"))["tests"]:
            for case in test.get("alert_rule_test", ()):
                fires |= {
                    (case["alertname"], alert["exp_labels"]["severity"])
                    for alert in case["exp_alerts"]
                }
                if not case["exp_alerts"]:
                    silent.add(case["alertname"])
            for case in test.get("promql_expr_test", ()):
                for sample in case["exp_samples"]:
                    labels = dict(MATCHERS.findall(sample["labels"]))
                    if labels.get("alertstate") == "firing":
                        fires.add((labels["alertname"], labels["severity"]))
    alerts = {(rule["alert"], rule["labels"]["severity"]) for rule in sources.alerts()}
    problems = [
        f"no test in which {name} fires as a {severity}"
        for name, severity in sorted(alerts - fires)
    ]
    return problems + [
        f"no test in which {name} is silent"
        for name in sorted({name for name, _ in alerts} - silent)
    ]


def alerts_say_enough(alerts: Sequence[dict[str, Any]] | None = None) -> list[str]:
    """Check for severity, summary, description and the path of the runbook."""
    problems = []
    for rule in sources.alerts() if alerts is None else alerts:
        name, annotations = rule["alert"], rule.get("annotations", {})
        if rule.get("labels", {}).get("severity") not in SEVERITIES:
            problems.append(f"{name}: its severity must be one of {', '.join(sorted(SEVERITIES))}")
        problems += [
            f"{name}: it has no {key}"
            for key in ("summary", "description")
            if not annotations.get(key)
        ]
        if annotations.get("runbook_url") != f"deploy/runbooks/{name}.md":
            problems.append(f"{name}: its runbook_url must be deploy/runbooks/{name}.md")
    return problems


def runbooks_are_complete(folder: Path = RUNBOOKS) -> list[str]:
    """Check that each alert has a runbook with all its parts, and that there are no others."""
    alerts = {rule["alert"] for rule in sources.alerts()}
    runbooks = {
        path.stem: path.read_text(encoding="utf-8")
        for path in folder.glob("*.md")
        if path.stem != "README"
    }
    problems = [
        f"{name}.md is missing from deploy/runbooks" for name in sorted(alerts - set(runbooks))
    ]
    problems += [
        f"deploy/runbooks/{name}.md is of no alert" for name in sorted(set(runbooks) - alerts)
    ]
    for name, text in sorted(runbooks.items()):
        problems += [
            f"{name}.md has no part {head!r}" for head in HEADINGS if f"\n## {head}\n" not in text
        ]
        problems += [] if QUERIES.search(text) else [f"{name}.md has no query"]
        problems += (
            [] if f"alertname={name}" in text else [f"{name}.md does not say how to silence {name}"]
        )
    return problems


def queries(folder: Path = RUNBOOKS) -> list[tuple[str, str]]:
    """Return every query of every runbook, with its place."""
    return [
        (path.name, query)
        for path in sorted(folder.glob("*.md"))
        for block in QUERIES.findall(path.read_text(encoding="utf-8"))
        for query in block.strip().split("\n\n")
    ]


def substituted(expr: str) -> str:
    """Return a dashboard's expression as Prometheus receives it."""
    for name, value in VARIABLES.items():
        expr = expr.replace(name, value)
    return expr


def everything() -> list[tuple[str, str]]:
    """Return every expression of rules, runbooks and dashboard, with its place."""
    ruled = [(rule.get("alert") or rule["record"], rule["expr"]) for rule in sources.rules()]
    return [
        *ruled,
        *queries(),
        *((f"panel {title}", substituted(expr)) for title, expr in dashboard.expressions()),
    ]


def expressions_parse() -> list[str]:
    """Check that promtool parses the expressions of runbooks and dashboard too."""
    return parsed(everything())


def names_are_known(expressions: Iterable[tuple[str, str]] | None = None) -> list[str]:
    """Check that expressions read only known metrics, and known values of closed labels."""
    known, problems = known_names(sources.recorded()), []
    for where, expr in everything() if expressions is None else expressions:
        try:
            check_names(metric_names(expr), known, where)
        except ValueError as error:
            problems.append(str(error))
        for label, values in MATCHERS.findall(expr):
            wrong = (
                set(values.split("|"))
                - LABEL_VALUES.get(label, set(values.split("|")))
                - {".*", ""}
            )
            problems += [f"{where}: {label} has no value {value!r}" for value in sorted(wrong)]
    return problems


def edges_are_buckets() -> list[str]:
    """Check histogram edges: a share is exact at a bucket's edge, and missing elsewhere."""
    edges = [
        (rule["record"], edge)
        for rule in sources.rules()
        for edge in re.findall(r'\ble="([^"]+)"', rule["expr"])
    ]
    return [
        f"{name}: {edge} is not a bucket edge in SECONDS"
        for name, edge in edges
        if float(edge) not in SECONDS
    ]


def written_is_current() -> list[str]:
    """Check that the committed PrometheusRule is that of the rules."""
    path = sources.OPERATOR
    if path.is_file() and path.read_text(encoding="utf-8") == sources.prometheus_rule():
        return []
    return [f"{path.relative_to(sources.DEPLOY.parent)} is not that of the rules: {sources.WRITE}"]


CHECKS: tuple[tuple[str, Callable[[], list[str]]], ...] = (
    ("rule files are valid", rules_are_valid),
    ("prometheus.yaml is valid", example_is_valid),
    ("alerts pass their tests", alerts_fire_and_do_not),
    ("every alert has a test that fires and one that does not", every_alert_is_tested),
    ("every alert has a severity, texts and a runbook", alerts_say_enough),
    ("runbooks are complete", runbooks_are_complete),
    ("all expressions parse", expressions_parse),
    ("all names are known", names_are_known),
    ("edges are those of buckets", edges_are_buckets),
    ("the PrometheusRule is current", written_is_current),
)


def main() -> int:
    """Run all checks and print their results; return the exit code."""
    failed = 0
    for name, check in CHECKS:
        problems = check()
        failed += bool(problems)
        sys.stdout.write(
            f"{'FAIL' if problems else 'ok'}  {name}\n"
            + "".join(f"      {line}\n" for line in problems)
        )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
