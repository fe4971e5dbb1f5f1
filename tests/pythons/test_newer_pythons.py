"""Serving, client and tables on a newer Python than the one of these tests."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from headlight.runtime import Runtime
from tests.install.shell import Shell
from tests.install.ways import TEXTS, local_vectors, served_vectors
from tests.system.processes import ROOT

BUNDLE = ROOT / "build/bundles/docs-rope"
TOLERANCE = 1e-5  # of pooled vectors in fp32
CLIENT = """
import asyncio, json, sys
from headlight import AsyncClient, AttentionSpec, Client

async def shape(text):
    async with AsyncClient() as client:
        return (await client.encode([text])).shape

with Client() as client:
    answer = client.attend(sys.argv[1])
    [top] = client.attention(sys.argv[1], AttentionSpec.of(top_k=2))
shapes = [answer.weights.shape, top.weights.shape, asyncio.run(shape(sys.argv[1]))]
print(json.dumps(shapes))
"""


@pytest.fixture
def shell(request: pytest.FixtureRequest, tmp_path: Path) -> Shell:
    """A shell that has the other environment only."""
    programs = Path(request.config.getoption("--programs"))
    assert not (programs / "python3.11").exists()
    variables = {"PATH": f"{programs}:/usr/bin:/bin", "HOME": str(tmp_path), "LANG": "C.UTF-8"}
    return Shell(tmp_path, variables, [])


def test_every_way_returns_the_vectors_of_this_python(shell: Shell) -> None:
    with Runtime(BUNDLE) as runtime:
        expected = runtime.encode(TEXTS)
    answers = served_vectors(shell, f"headlight serve {BUNDLE}")
    for provider in ("cpu", "openvino"):
        options = f"--local {BUNDLE} --provider {provider} --precision fp32"
        named = local_vectors(shell, options)
        answers |= {f"{way}, {provider}": numbers for way, numbers in named.items()}
    for way, numbers in answers.items():
        np.testing.assert_allclose(numbers, expected, atol=TOLERANCE, rtol=0, err_msg=way)


def test_clients_and_attention(shell: Shell) -> None:
    (shell.folder / "client.py").write_text(CLIENT, encoding="utf-8")
    with shell.serving(f"headlight serve {BUNDLE}") as asking:
        printed = asking.run("python -W error client.py 'for line in lines: print(line)'")
        asking.run("headlight attend 'join two paths'")
    weights, largest, vectors = json.loads(printed)
    assert weights[:2] == largest[:2] == [4, 8]
    assert largest[3] == 2
    assert vectors == [1, 256]


def test_doctor_finds_nothing_broken(shell: Shell) -> None:
    assert json.loads(shell.run("headlight doctor --format json"))["problems"] == []
