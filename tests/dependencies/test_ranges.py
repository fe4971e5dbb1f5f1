"""README's install line with the newest dependencies that our ranges admit, and with the oldest.

Each installation exports and serves the shipped model, and embeds texts over gRPC, over HTTP, in
process and from a table. PyTorch, in the environment of this test, says what the vectors must be.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer

from headlight.extras import RANGES
from headlight.runtime.values import Floats
from headlight_export.parity.reference import Reference
from headlight_model.checkpoint import load_checkpoint
from tests.install.shell import Shell
from tests.install.ways import TEXTS, local_vectors, served_vectors
from tests.system.processes import ROOT

# Installed first: a pip that is configured for PyTorch's CPU builds takes that one.
TORCH = "pip install torch==2.13.0"
INSTALL = re.compile(r"^pip install '\.\[([\w,]+)\]'", re.MULTILINE)  # README's line
EXTRAS = ("parquet", "openvino")  # tables, and the other provider for CPUs
CHECKPOINT = ROOT / "model/headlight_model/checkpoints/docs-rope"
TOLERANCE = 1e-5  # of pooled vectors in fp32


ENDS = [pytest.param(end, marks=pytest.mark.xdist_group(end)) for end in ("newest", "oldest")]


@pytest.fixture(scope="module", params=ENDS)
def shell(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Shell]:
    """A shell in a copy of the clone, in an environment with what README's line installs."""
    folder = tmp_path_factory.mktemp(request.param)
    clone, home = folder / "clone", folder / "home"
    copy_clone(clone)
    home.mkdir()
    subprocess.run([sys.executable, "-m", "venv", str(folder / "environment")], check=True)
    programs = folder / "environment" / "bin"
    variables = {"PATH": f"{programs}:/usr/bin:/bin", "HOME": str(home), "LANG": "C.UTF-8"}
    made = Shell(clone, variables, [])
    line = INSTALL.search((clone / "README.md").read_text(encoding="utf-8"))
    assert line is not None
    constraint = ""
    if request.param == "oldest":
        oldest = folder / "oldest.txt"
        resolve_oldest(clone, [*line[1].split(","), *EXTRAS], oldest)
        constraint = f" --constraint {oldest}"
    for command in (
        TORCH,
        line[0] + constraint,
        f"pip install '.[{','.join(EXTRAS)}]'{constraint}",
    ):
        run_pip(made, command)
    yield made
    shutil.rmtree(folder)  # 1.2 GB


def copy_clone(clone: Path) -> None:
    """Copy the files of this checkout, as they are now, without those that git ignores."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for path in (ROOT / name for name in names.split("\0") if name):
        if path.is_file():  # not if it was removed since the last commit
            target = clone / path.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)


def resolve_oldest(clone: Path, extras: list[str], out: Path) -> None:
    """Write the oldest releases that the ranges of the extras admit.

    PyTorch is left out: its oldest release is the only one, and brings CUDA's packages.
    """
    excluded = out.with_name("excluded.txt")
    excluded.write_text("torch\n", encoding="utf-8")
    command = [str(ROOT / ".nox/release-tools/bin/uv"), "pip", "compile", "--no-config", "--quiet"]
    command += ["--resolution", "lowest-direct", "--python-version", "3.11", "pyproject.toml"]
    command += [word for extra in extras for word in ("--extra", extra)]
    command += ["--excludes", str(excluded), "--output-file", str(out)]
    subprocess.run(command, cwd=clone, check=True)


def run_pip(shell: Shell, line: str) -> str:
    """Run a line of pip, with this user's configuration of it; return what it showed."""
    done = subprocess.run(
        ["bash", "-c", line],
        cwd=shell.folder,
        env={**os.environ, "PATH": shell.variables["PATH"]},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, (line, done.stderr[-3000:])
    return done.stdout


@pytest.fixture(scope="module")
def expected() -> Floats:
    """PyTorch's vectors of TEXTS: float32 [n, D]."""
    reference = Reference(load_checkpoint(CHECKPOINT))
    tokenizer = Tokenizer.from_file(str(CHECKPOINT / "tokenizer.json"))
    ids = [np.array(tokenizer.encode(text).ids, dtype=np.int64) for text in TEXTS]
    return np.stack([reference.outputs(each, weights=False)["pooled"] for each in ids])


def test_the_shipped_model_is_exported_served_and_right(shell: Shell, expected: Floats) -> None:
    shown = run_pip(shell, "pip freeze")
    print(*shown.split())
    installed = dict(re.findall(r"^([\w.-]+)==([\d.]+)", shown, re.MULTILINE))
    for package, accepted in ranges().items():
        check_end(shell.folder.parent.name, package, installed[package], accepted)
    work = shell.folder.parent / "work"
    work.mkdir()
    answers = served_vectors(shell.at(work), "headlight serve")
    [bundle] = Path(shell.variables["HOME"]).glob(".cache/headlight/*/bundle")
    local = shell.at(work)
    answers |= local_vectors(local, f"--local {bundle}")
    for way, numbers in answers.items():
        np.testing.assert_allclose(numbers, expected, atol=TOLERANCE, rtol=0, err_msg=way)
    doctor = json.loads(local.run("headlight doctor --format json"))
    assert doctor["problems"] == []
    runs = [(run["provider"], run["problem"]) for run in doctor["golden_inputs"]]
    assert runs == [("cpu", ""), ("openvino", "")]


def ranges() -> dict[str, str]:
    """Return the ranges of the installed extras that have an upper end, by package."""
    accepted_of = dict[str, str]()
    for extra in ("client", "runtime", "export", *EXTRAS):
        accepted_of |= RANGES[extra]
    return {package: accepted for package, accepted in accepted_of.items() if "<" in accepted}


def check_end(end: str, package: str, version: str, accepted: str) -> None:
    """Check that an installed version is at this end of a range, as ">=1.31,<1.33"."""
    lower, upper = re.fullmatch(r">=([\d.]+),<([\d.]+)", accepted).groups()  # type: ignore[union-attr]
    parts = [int(part) for part in version.split(".")]
    if end.startswith("oldest"):
        least = [int(part) for part in lower.split(".")]
        assert parts == [*least, *[0] * (len(parts) - len(least))], (package, version, accepted)
    else:  # the last release series below the upper end
        most = [int(part) for part in upper.split(".")]
        assert [*parts[: len(most) - 1], parts[len(most) - 1] + 1] == most, (package, version)
