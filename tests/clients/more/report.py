"""Table of the clients, their versions and what was checked, from the tests' names."""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import platform
import subprocess
from collections.abc import Iterable
from pathlib import Path

HERE = Path(__file__).parent
NODE = HERE / "node"
VERSIONS = "test_versions"


def npm_versions() -> dict[str, str]:
    """Return the pinned versions of OpenAI's client for Node, by the names it is imported by."""
    package = json.loads((NODE / "package.json").read_text(encoding="utf-8"))
    pins: dict[str, str] = package["dependencies"]
    return {name: pin.rpartition("@")[2] for name, pin in pins.items()}


def client_and_version(module: str) -> tuple[str, str]:
    """Return two cells of the row of a test module."""
    if module == "test_openai_node":
        return "openai (Node)", ", ".join(npm_versions().values())
    names: tuple[str, ...] = importlib.import_module(f"tests.clients.more.{module}").CLIENTS
    return ", ".join(names), ", ".join(importlib.metadata.version(name) for name in names)


def output_of(*command: str) -> str:
    """Return the output of a command, run in this folder."""
    done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def report(passed: Iterable[str], failed: Iterable[str]) -> str:
    """Return the page. A module's name leads to its row, a test's name says what it checks.

    Args:
        passed: node ids of the tests that passed.
        failed: node ids of those that did not.
    """
    outcomes: dict[str, list[tuple[str, bool]]] = {}
    for ids, outcome in ((passed, True), (failed, False)):
        for node in ids:
            file, _, test = node.partition("::")
            name = test.partition("[")[0].removeprefix("test_").replace("_", " ")
            outcomes.setdefault(Path(file).stem, []).append((name, outcome))
    outcomes.pop(VERSIONS, None)
    lines = [
        "# Other people's clients",
        "",
        f"`nox -s clients-more` at commit `{output_of('git', 'describe', '--always', '--dirty')}`, "
        f"with Python {platform.python_version()} and Node {output_of('node', '--version')}. "
        "The clients ask a real service of `docs-rope`, and of a reranker with random weights, "
        "over loopback. Numbers are equal if they differ by at most 1e-6. `nox -t clients` tests "
        "other clients, and is part of `.ci/run`.",
        "",
        "| client | version | checked | tests passed |",
        "|---|---|---|---|",
    ]
    for module, tests in sorted(outcomes.items()):
        checked = "; ".join(dict.fromkeys(name for name, _ in tests))
        count = f"{sum(outcome for _, outcome in tests)} of {len(tests)}"
        client, version = client_and_version(module)
        lines.append(f"| {client} | {version} | {checked} | {count} |")
    return "\n".join(lines) + "\n"
