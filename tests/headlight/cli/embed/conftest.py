from __future__ import annotations

from pathlib import Path

import pytest

from headlight.cli.commands import main
from tests.headlight.cli.embed.failing import TEXTS, Embed, Failing
from tests.headlight.fake_server import default_limits


@pytest.fixture
def servicer() -> Failing:
    return Failing(default_limits())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(TEXTS), encoding="utf-8")
    return path


@pytest.fixture
def embed(target: str, path: Path, capsys: pytest.CaptureFixture[str]) -> Embed:
    """Run the command with options and another service; return exit code, errors."""

    def embed(*options: str, form: str = "npz", target: str = target) -> tuple[int, str]:
        arguments = ["embed", "--file", str(path), "--format", form]
        arguments += ["--out", str(path.with_name("v")), *options]
        return main([*arguments, "--target", target]), capsys.readouterr().err

    return embed
