"""docs/guides/explain.md and chunk-evidence.md: their commands and programs, run as printed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.system.processes import ROOT, Service

BLOCKS, CHUNK_BLOCKS = (
    re.findall(
        r"^```(\w*)\n(.*?)^```",
        (ROOT / "docs/guides" / name).read_text(encoding="utf-8"),
        re.DOTALL | re.MULTILINE,
    )
    for name in ("explain.md", "chunk-evidence.md")
)
SHELL = [code for kind, code in BLOCKS if kind == "sh"]
PROGRAMS = [code for kind, code in BLOCKS if kind == "python"]
PRINTED = [code for kind, code in BLOCKS if not kind]
NUMBER = re.compile(r"\d\.\d{3}")


@pytest.fixture
def environment(tmp_path: Path, rope: Service) -> dict[str, str]:
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith("HEADLIGHT_")
    }
    return {
        **inherited,
        "PATH": f"{Path(sys.executable).parent}:{inherited['PATH']}",
        "HOME": str(tmp_path),
        "HEADLIGHT_TARGET": rope.target,
        "PYTHONWARNINGS": "error",
    }


def run(command: list[str], environment: dict[str, str], rope: Service) -> str:
    """Run a command with the addresses of the service, in an empty folder."""
    command = [
        each.replace("127.0.0.1:8000", rope.rest).replace("127.0.0.1:50051", rope.target)
        for each in command
    ]
    done = subprocess.run(
        command,
        cwd=environment["HOME"],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_commands_print_what_the_page_shows(environment: dict[str, str], rope: Service) -> None:
    lines = run(["bash", "-ec", "\n".join(SHELL)], environment, rope).splitlines(keepends=True)
    [printed] = PRINTED
    shown = "".join(lines[: printed.count("\n")])
    assert NUMBER.sub("#", shown) == NUMBER.sub("#", printed)
    found, expected = (map(float, NUMBER.findall(each)) for each in (shown, printed))
    assert list(found) == pytest.approx(list(expected), abs=2e-3)
    home = Path(environment["HOME"])
    assert len(json.loads((home / "compared.json").read_text())["passages"]) == 1
    assert (home / "compared.html").read_text().startswith("<!doctype html>")
    assert json.loads(lines[-1])["passages"][0]["index"] == 0


@pytest.mark.parametrize("program", PROGRAMS, ids=range(len(PROGRAMS)))
def test_every_program_prints_numbers(
    program: str, environment: dict[str, str], rope: Service
) -> None:
    assert re.search(r"\d\.\d", run([sys.executable, "-c", program], environment, rope))


def test_chunks_have_offsets_and_scores_in_the_shapes_of_stores(
    environment: dict[str, str], rope: Service
) -> None:
    [(_, program)] = CHUNK_BLOCKS
    out = run([sys.executable, "-c", program], environment, rope)
    elastic, _, rest = out.rpartition("}\n{")
    elastic, groups, objects = json.loads(elastic + "}"), *map(json.loads, f"{{{rest}".splitlines())
    best = elastic["hits"]["hits"][0]
    chunk = best["inner_hits"]["chunks"]["hits"]["hits"][0]
    assert best["_id"] == "json"
    assert "json.load" in chunk["_source"]["text"]
    [marked] = chunk["highlight"]["chunks.text"]
    assert "<em>json</em>" in marked
    assert re.sub("</?em>", "", marked) == chunk["_source"]["text"]
    point = groups["groups"][0]["hits"][0]
    assert point["payload"]["start"] == chunk["_source"]["start"] == objects[0]["start"] > 600
    assert point["score"] == pytest.approx(1 - objects[0]["_additional"]["distance"])


def test_the_page_has_each_form() -> None:
    assert len(SHELL) == 3
    assert len(PROGRAMS) == 4
