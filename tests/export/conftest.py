"""Bundles in all precisions.

Their graphs are those of `make_bundle`, because tracing takes seconds.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest

from headlight_export.precision.conversion import PRECISIONS
from headlight_export.writer import bundle_writer, fp32_parts
from headlight_export.writer.bundle_writer import export_checkpoint
from tests.conftest import MakeBundle
from tests.once import once

TEXTS = [
    (
        f"{'abcdefghij'[i % 10] * (1 + i % 7)} {i} {'xyzuv'[: 1 + i % 5]} ({i * 37 % 101}) "
        f"{'lm ' * (i % 9)}"
    )
    for i in range(40)
]
Export = Callable[..., bundle_writer.Exported]


@pytest.fixture(scope="session")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("texts") / "texts.txt"
    path.write_text("\n".join(TEXTS), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def make_variants(
    make_bundle: MakeBundle,
    make_checkpoint: MakeBundle,
    texts: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> MakeBundle:
    """Return a function from a key of KINDS to a bundle in all precisions.

    Its graphs are those of make_bundle, because tracing takes seconds.
    """

    def make(kind: str) -> Path:
        traced = make_bundle(kind)

        def export(out: Path) -> None:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(fp32_parts, "trace", lambda _: onnx.load(traced / "attend.onnx"))
                export_checkpoint(make_checkpoint(kind), out, precisions=PRECISIONS, texts=texts)

        return once(tmp_path_factory, f"variants-{kind}", export)

    return make


@pytest.fixture
def traced_before(bundle_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reuse the graphs of the rotary bundle: tracing takes seconds."""
    monkeypatch.setattr(fp32_parts, "trace", lambda _: onnx.load(bundle_path / "attend.onnx"))


@pytest.fixture
def export(traced_before: None, make_checkpoint: MakeBundle, texts: Path) -> Export:
    """Return a function that exports the rotary model again, with the graphs of make_bundle."""

    def run(out: Path, *precisions: str, **options: Any) -> bundle_writer.Exported:
        return export_checkpoint(
            make_checkpoint("rope"), out, precisions=precisions, **{"texts": texts} | options
        )

    return run


@pytest.fixture
def copied(make_variants: MakeBundle, tmp_path: Path) -> Path:
    """Return a copy of the rotary bundle in all precisions, to change."""
    return Path(shutil.copytree(make_variants("rope"), tmp_path / "copy"))
