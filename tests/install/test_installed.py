"""README's lines and every example of every help, from the wheel in an empty environment."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from headlight.extras import remedy
from tests.export.hub.hub_server import Hub
from tests.help_examples import examples
from tests.install.conftest import MINILM, Environment
from tests.install.shell import Shell
from tests.system.processes import ROOT

UNREACHABLE = "http://127.0.0.1:9"
SCORING = ("rerank", "classify")  # of a model that the wheel does not have
ASKING = ("embed", "compare", "attend", "heads", "tokens", "info", "models")
SERVES = re.compile(r"\bheadlight serve\b(?!.* --check)")


def run(shell: Shell, line: str) -> None:
    """Run a line: a service until it answered, another to its end."""
    if SERVES.search(line):
        with shell.serving(line):
            pass
    else:
        before = {*shell.folder.rglob("*"), *Path(shell.variables["HOME"]).glob(".*")}
        seen = shell.run(line)
        after = {*shell.folder.rglob("*"), *Path(shell.variables["HOME"]).glob(".*")}
        assert seen or after != before


def test_the_quick_start_works(
    quick_start: list[str], served: Shell, home: Path, tmp_path: Path
) -> None:
    install, serve, *asking = quick_start
    assert install == "pip install '.[serve,export]'"
    assert serve == f"headlight serve {MINILM}"
    assert len(asking) == 2
    for line in asking:
        served.at(tmp_path).run(line)
    [*_, page] = (home / "opened").read_text().split()
    assert Path(page.removeprefix("file://")).read_text().startswith("<!doctype html>")


def test_the_command_line_of_the_readme_runs_when_pasted(served: Shell, tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    block = readme.partition("## Command line\n")[2].partition("```sh\n")[2].partition("```")[0]
    served.at(tmp_path).run(f"set -e\n{block}")
    assert (tmp_path / "vectors.npz").is_file()


def test_a_second_start_uses_the_cache_without_the_hub(
    quick_start: list[str], served: Shell, hub: Hub, tmp_path: Path
) -> None:
    requests = len(hub.requests)
    shell = served.at(tmp_path, HF_HUB_OFFLINE="1", HF_ENDPOINT=UNREACHABLE)
    with shell.serving(quick_start[1]) as asking:
        asking.run('headlight embed "join two paths"')
    assert len(hub.requests) == requests
    assert '"export_step"' not in (tmp_path / "serve.log").read_text()


def test_the_first_commands_to_try_serve_the_shipped_model(shell: Shell, tmp_path: Path) -> None:
    shown = shell.at(tmp_path).run("headlight --help")
    serve, *asking = examples(shown, "first commands to try")
    with shell.at(tmp_path, HF_ENDPOINT=UNREACHABLE).serving(serve) as answered:
        for line in asking:
            answered.run(line)
        assert "docs-rope" in answered.run("headlight info")


@pytest.mark.parametrize("command", [*ASKING, "serve", "export", "verify", "doctor"])
def test_each_example_works(command: str, work: Shell, installed: Environment) -> None:
    if command == "embed":
        installed.install("parquet")  # one of its examples is of tables
    found = examples(work.run(f"headlight {command} --help"))
    assert found
    for line in found:
        run(work, line)


@pytest.mark.parametrize("command", ["cache", "cache list", "cache remove"])
def test_each_example_of_the_cache_works(command: str, work: Shell, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    [model] = Path(work.variables["HOME"]).glob(".cache/headlight/*MiniLM*")
    shutil.copytree(model, cache / model.name)
    for line in examples(work.run(f"headlight {command} --help")):
        run(work.at(tmp_path, HEADLIGHT_CACHE=str(cache)), line)
    assert bool([*cache.glob("*/bundle")]) is (command == "cache list")


def test_each_example_of_completion_works_once_its_extra_is_installed(
    work: Shell, installed: Environment
) -> None:
    found = examples(work.run("headlight completion --help"))
    assert remedy("completion") in work.run("headlight completion bash", code=2)
    installed.install("completion")
    for line in found:
        run(work, line)


def test_all_commands_are_here(shell: Shell) -> None:
    shown = shell.run("headlight --help")
    named = set(re.findall(r"^  ([a-z]+)  +\S", shown, re.MULTILINE)) - {"headlight"}
    service = ("serve", "export", "verify", "tune", "cache", "admin")
    assert named == {*ASKING, *SCORING, *service, "doctor", "completion"}
