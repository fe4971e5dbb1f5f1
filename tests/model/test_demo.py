from __future__ import annotations

import socket
from pathlib import Path

import numpy as np
import pytest

from headlight_model import demo
from headlight_model.texts.functions import Function

ANY = "127.0.0.1:0"  # the service takes any free port; no test here calls it


def run(bundle: Path, grpc: str) -> int:
    return demo.main(["--bundle", str(bundle), "--once", "--grpc", grpc, "--metrics", ANY])


def test_a_taken_port_is_reported_before_anything_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        assert run(tmp_path, address) == 1
    assert f"--grpc {address} is taken" in capsys.readouterr().err


@pytest.mark.parametrize("address", ["nowhere", "127.0.0.1:", "127.0.0.1:99999", "127.0.0.1:x"])
def test_an_invalid_address_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], address: str
) -> None:
    assert run(tmp_path, address) == 1
    assert capsys.readouterr().err == f"demo: --grpc {address}: must be HOST:PORT\n"


def test_a_missing_bundle_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path / "missing", ANY) == 1
    assert "there is no bundle" in capsys.readouterr().err


def test_a_service_that_dies_shows_its_last_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The real service, on a folder that is no bundle."""
    monkeypatch.setattr(demo, "library", list)
    assert run(tmp_path, ANY) == 1
    err = capsys.readouterr().err
    assert err.startswith("demo: the service ended before it could serve; its last lines:\n")
    assert "manifest.json" in err


def test_results_are_sorted_by_similarity_and_fit_the_terminal() -> None:
    corpus = [Function("m", name, (), "What it does. " * 20, (), 1, 1) for name in "abcdefg"]
    lines = demo.nearest(
        np.array([0.1, 0.9, 0.3, 0.2, 0.8, 0.0, 0.7], np.float32), corpus, width=60
    ).splitlines()
    assert [line.split()[:2] for line in lines] == [
        ["0.90", "m.b()"],
        ["0.80", "m.e()"],
        ["0.70", "m.g()"],
        ["0.30", "m.c()"],
    ]
    assert max(map(len, lines)) <= 60


def test_the_demo_library_has_enough_texts() -> None:
    found = {f"{function.module}.{function.name}" for function in demo.library()}
    assert {"json.load", "posixpath.splitext", "shutil.rmtree"} <= found
    assert 500 < len(found) < 2500
