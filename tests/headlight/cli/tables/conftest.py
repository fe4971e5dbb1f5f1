from __future__ import annotations

from pathlib import Path

import pytest

from headlight.cli.commands import main
from tests.headlight.cli.tables.making import Run


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command on in.parquet with parts of seven rows; return exit code and errors."""

    def run(*options: str) -> tuple[int, str]:
        command = ["embed", str(tmp_path / "in.parquet"), "--text-column", "body"]
        if "--out" not in options:
            command += ["--out", str(tmp_path / "v.parquet")]
        code = main([*command, "--id-column", "id", "--part-rows", "7", *options])
        return code, capsys.readouterr().err

    return run
