"""Interrupted exports: they leave every file as it was."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from headlight_export.writer.draft import put_in_place
from tests.conftest import MakeBundle

# The command, blocked while PyTorch traces a graph.
HELD = """
import sys, threading
from headlight_export import __main__
from headlight_export.writer import graphs

def held(graph, opset):
    def hold(*_):
        print("held", flush=True)
        threading.Event().wait(60)
    graph.register_forward_pre_hook(hold)
    return traced(graph, opset)

traced, graphs.traced = graphs.traced, held
sys.exit(__main__.main())
"""


def test_a_signal_ends_an_export_in_one_line_and_leaves_no_files(
    make_checkpoint: MakeBundle, tmp_path: Path
) -> None:
    command = [
        sys.executable,
        "-c",
        HELD,
        str(make_checkpoint("rope")),
        "--out",
        str(tmp_path / "out"),
    ]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert "held\n" in process.stdout, "it ended by itself"
        assert list(tmp_path.glob(".out-*/bundle")), "where it works"
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=30)
    assert (process.returncode, told) == (130, "export: stopped by SIGINT\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("moves", [1, 2])
def test_a_bundle_that_is_being_replaced_is_never_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moves: int
) -> None:
    """The fault: Ctrl-C directly after the first move, or after both."""
    out, draft = tmp_path / "out", tmp_path / "work" / "bundle"
    for folder, text in ((out, "old"), (draft, "new")):
        folder.mkdir(parents=True)
        (folder / "text").write_text(text)
    real, made = Path.rename, []

    def rename(self: Path, target: Path) -> Path:
        made.append(real(self, target))
        if len(made) == moves:
            raise KeyboardInterrupt
        return made[-1]

    monkeypatch.setattr(Path, "rename", rename)
    with pytest.raises(KeyboardInterrupt):
        put_in_place(out, draft)
    assert (out / "text").read_text() == ("old" if moves == 1 else "new")
