"""Commands of other packages, and the messages if their libraries are missing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

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
        MissingExtra,
        match=r"^a part needs no_such, .*: pip install '\.\[some\]' in a clone of Headlight$",
    ) as caught:
        require("a part", "some", "json", "no_such")
    assert caught.value.name == "no_such"


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
