"""docs/guides/rerank.md as written: each request, to a model with random weights."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from tests.system.processes import Service

PAGE = (Path(__file__).parents[2] / "docs/guides/rerank.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"```(sh|python)\n(.*?)```", re.DOTALL)


def test_the_requests_of_the_guide_are_answered(
    reranker: Service, capsys: pytest.CaptureFixture[str]
) -> None:
    answered = 0
    for kind, block in BLOCK.findall(PAGE):
        here = block.replace("127.0.0.1:8000", reranker.rest)
        here = here.replace("127.0.0.1:50051", reranker.target)
        if kind == "python":
            exec(here, {})
            assert len(capsys.readouterr().out.splitlines()) >= 2
        elif here.startswith("curl"):
            run = subprocess.run(
                ["bash", "-c", f"{here.rstrip()} --fail-with-body"],
                check=False,
                capture_output=True,
                timeout=60,
            )
            assert run.returncode == 0, run.stdout
            assert json.loads(run.stdout)
            answered += 1
    assert answered == PAGE.count("```sh\ncurl")
