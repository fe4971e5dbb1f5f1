"""The wheel in an empty environment, a Hub on loopback, and a user of both."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from deploy.distribution import build
from tests.bert_folder import DIM, write_bert
from tests.certificates import Authority
from tests.export.hub.hub_server import Hub, Repository
from tests.factory import small_config, write_checkpoint
from tests.folders import write
from tests.help_examples import write_texts
from tests.install.report import head_commit, report
from tests.install.shell import Row, Shell
from tests.system.conftest import bundle_of
from tests.system.processes import ROOT

MINILM = "sentence-transformers/all-MiniLM-L6-v2"
POSITIONS, LAYERS = 256, 3


class Environment(NamedTuple):
    """A virtual environment with the wheel.

    Attributes:
        bin: its folder of programs.
        wheel: the wheel.
        rows: the lines that ran in it.
    """

    bin: Path
    wheel: Path
    rows: list[Row]

    def install(self, extras: str) -> None:
        """Install the wheel with extras, in the versions of this repository."""
        begin = time.monotonic()
        wanted = (f"{self.wheel}[{extras}]", "--constraint", str(ROOT / "constraints.txt"))
        command = [str(self.bin / "pip"), "install", *wanted]
        done = subprocess.run(command, cwd="/", capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        count = len(done.stdout.rpartition("Successfully installed ")[2].split())
        line = f"pip install 'WHEEL[{extras}]' --constraint constraints.txt"
        self.rows.append(Row(line, f"{count} packages", time.monotonic() - begin))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of `nox -s install-check`."""
    parser.addoption("--wheel", type=Path, help="the wheel; by default, one is built")
    parser.addoption("--report", type=Path, help="file to write a table of all lines into")


@pytest.fixture(scope="session")
def installed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Environment]:
    """The environment. The report is written at the end if all tests passed."""
    given: Path | None = request.config.getoption("--wheel")
    wheel = given or build(tmp_path_factory.mktemp("wheel"), bundle_of("docs-rope")).wheel
    commit = head_commit()
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    made = Environment(folder / "bin", wheel.absolute(), [])
    made.install("serve,export")
    yield made
    out: Path | None = request.config.getoption("--report")
    if out is not None and not request.session.testsfailed:
        out.write_text(report(made.rows, commit, made.bin / "python"), encoding="utf-8")
    shutil.rmtree(folder)  # 1.2 GB


def model_folder(folder: Path) -> Path:
    """Write a small random BERT as sentence-transformers saves it, with mean pooling."""
    write_bert(folder, POSITIONS, LAYERS)
    kinds = {"": "Transformer", "1_Pooling": "Pooling"}
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (path, kind) in enumerate(kinds.items())
    ]
    write(folder / "modules.json", modules)
    pooling = {"word_embedding_dimension": DIM, "pooling_mode_mean_tokens": True}
    write(folder / "1_Pooling" / "config.json", pooling)
    return folder


@pytest.fixture(scope="session")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """A Hub with one model, under the name that README and examples use."""
    made = Hub()
    made.repositories[MINILM] = Repository(model_folder(tmp_path_factory.mktemp("hub") / "model"))
    with made.running():
        yield made


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The user's home folder, whose caches all tests share, with a browser that keeps its pages."""
    folder = tmp_path_factory.mktemp("home")
    browser = folder / "browser"
    browser.write_text('#!/bin/sh\necho "$1" >>"$HOME/opened"\n', encoding="utf-8")
    browser.chmod(0o755)
    return folder


@pytest.fixture(scope="session")
def shell(installed: Environment, hub: Hub, home: Path) -> Shell:
    """A shell in the home folder, with nothing of this process's environment."""
    variables = {
        "PATH": f"{installed.bin}:/usr/bin:/bin",
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "BROWSER": str(home / "browser"),
        "HF_ENDPOINT": hub.address,
    }
    return Shell(home, variables, installed.rows)


@pytest.fixture(scope="session")
def quick_start() -> list[str]:
    """The lines of README's quick start."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    block = text.partition("## Quick start")[2].partition("```sh\n")[2].partition("```")[0]
    return [re.sub(r"\s+# .*", "", line) for line in block.splitlines()]


@pytest.fixture(scope="session")
def served(
    shell: Shell, quick_start: list[str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Shell]:
    """A shell that asks the service of README, which is started with empty caches."""
    with shell.at(tmp_path_factory.mktemp("empty")).serving(quick_start[1]) as asking:
        yield asking


OWNERS_MODEL = """\
from pathlib import Path

from headlight_model.checkpoint import load_checkpoint
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = load_checkpoint(Path("my-checkpoint"))

    def forward(self, ids):
        return self.encoder(ids).tokens


def trained():
    return Model()
"""


@pytest.fixture
def work(served: Shell, tmp_path: Path) -> Shell:
    """A shell in a folder with the files that examples name."""
    write_texts(tmp_path)
    model_folder(tmp_path / "my-model")
    write_checkpoint(tmp_path / "my-checkpoint", small_config())
    (tmp_path / "my_model.py").write_text(OWNERS_MODEL, encoding="utf-8")
    [bundle] = Path(served.variables["HOME"]).glob(".cache/headlight/*MiniLM*/bundle")
    shutil.copytree(bundle, tmp_path / "minilm")
    authority = Authority(tmp_path / "authority")
    authority.sign("server").write_to(tmp_path / "cert.pem", tmp_path / "key.pem")
    shutil.copy(authority.cert, tmp_path / "ca.pem")
    return served.at(tmp_path)
