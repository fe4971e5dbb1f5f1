"""Commands of other packages, and the messages if their libraries are missing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from headlight.cli.shipped_model import PartError, shipped_bundle, with_bundle
from headlight.extras import MissingExtra, require

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(("old", "new"), [("service", "serve"), ("export", "export")])
def test_the_old_command_runs_and_names_the_new_one(old: str, new: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", old, "--help"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, f"python -m {old} is now: headlight {new}\n")
    assert done.stdout.startswith(f"usage: headlight {new} ")


def test_a_missing_library_is_named_with_its_extra() -> None:
    require("a part", "some", "json", "sys")
    with pytest.raises(
        MissingExtra, match=r"^a part needs no_such, .*: pip install 'headlight-serving\[some\]'$"
    ) as caught:
        require("a part", "some", "json", "no_such")
    assert caught.value.name == "no_such"


@pytest.mark.parametrize(
    "arguments", [["--bundle", "b"], ["--bundle=b", "--check"], ["--help"], ["-h"]]
)
def test_a_named_bundle_is_served_without_a_search(arguments: list[str]) -> None:
    assert with_bundle(arguments, {}) == arguments


def test_the_bundle_of_the_environment_variable_is_served() -> None:
    assert with_bundle(["--check"], {"HEADLIGHT_BUNDLE": "b"}) == ["--check"]


def test_without_a_home_the_message_names_what_to_set() -> None:
    with pytest.raises(
        PartError,
        match=r"^--bundle is missing, and there is no HOME .*; give a bundle, or XDG_CACHE_HOME$",
    ):
        with_bundle(["--check"], {"XDG_CACHE_HOME": "not/absolute"})


def test_grpc_is_not_loaded_before_the_service_has_set_its_variables() -> None:
    """gRPC reads GRPC_VERBOSITY when it is loaded.

    Without it, some log lines would not be JSON.
    """
    program = (
        "import sys, headlight.cli.main, headlight.runtime, headlight_service; "
        "print('grpc' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"


def test_a_failed_export_is_reported_and_nothing_is_served(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "headlight").touch()  # no folder can be made there
    with pytest.raises(PartError, match="the export of the shipped model ended with exit code 2"):
        shipped_bundle({"XDG_CACHE_HOME": str(tmp_path)})
    assert "export: " in capfd.readouterr().err
