"""Packages of the extras as pyproject.toml has them, and what does not fit."""

from __future__ import annotations

import importlib.metadata
import re
import tomllib
from pathlib import Path

import pytest

from headlight.cli.doctor import checks
from headlight.cli.doctor.checks import fits
from headlight.extras import RANGES

ROOT = Path(__file__).resolve().parents[4]
WITHOUT = {"train", "dev"}  # for working in the repository
OF_SERVE = "service"  # `serve` is this and `runtime`


def requirements(lines: list[str]) -> dict[str, str]:
    found = (re.fullmatch(r"([\w-]+)(?:\[[\w,]+\])?(.*)", line) for line in lines)
    return {match[1]: match[2] for match in found if match}


def test_the_ranges_are_those_of_pyproject() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = {
        name: requirements(lines)
        for name, lines in project["optional-dependencies"].items()
        if name not in WITHOUT and "gpu" not in name and name != "serve"
    }
    extras["serve"] = extras.pop(OF_SERVE)
    extras["client"] = requirements(project["dependencies"])
    assert extras == RANGES


@pytest.mark.parametrize(
    ("version", "accepted", "expected"),
    [
        ("1.76", ">=1.76", True),
        ("1.9.9", ">=1.76", False),
        ("2.13.0+cpu", ">=2.13,<2.14", True),
        ("2.14.0", ">=2.13,<2.14", False),
        ("8.0rc1", ">=6.31.1,<8", False),
        ("6.31.1", ">=6.31.1,<8", True),
        ("1", ">=1", True),
    ],
)
def test_versions_are_compared_as_numbers(version: str, accepted: str, expected: bool) -> None:
    assert fits(version, accepted) is expected


def test_what_is_missing_or_does_not_fit_has_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {"onnxruntime": "1.20.0", "onnxruntime-gpu": "1.31.1", "numpy": "1.26"}
    monkeypatch.setattr(checks, "version_of", found.get)
    by_extra = {each.extra: each for each in checks.installed_packages()}
    runtime, client = by_extra["runtime"], by_extra["client"]
    command = "pip install '.[runtime]' in a clone of Headlight"
    assert (runtime.missing, runtime.remedy) == (["tokenizers"], command)
    assert runtime.problems == [
        f"onnxruntime and onnxruntime-gpu install the same files; uninstall both, then {command}",
        f"onnxruntime is 1.20.0, and >=1.31,<1.33 is needed: {command}",
    ]
    assert (client.missing, client.problems) == (["grpcio", "protobuf"], [])
    assert client.remedy == "pip install '.' in a clone of Headlight"


def test_the_packages_of_this_environment_are_found() -> None:
    [client, *_] = checks.installed_packages()
    assert client.versions["grpcio"] == importlib.metadata.version("grpcio")
    assert (client.missing, client.problems) == ([], [])
